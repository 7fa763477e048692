// Weights of GPTQ, AWQ and compressed-tensors: numbers in groups of columns that have a scale and a zero each.
#include <array>
#include <cmath>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"
#include "io/quantised_kinds.h"
#include "io/shape_text.h"
#include "quant/f16.h"

namespace quire {
namespace {

// What the parts of a weight are called behind its name.
struct PartNames {
  std::string_view numbers, zeros, scales, groups, shape;
};
constexpr PartNames kGptqParts{".qweight", ".qzeros", ".scales", ".g_idx", ""};
constexpr PartNames kRowsParts{".weight_packed", ".weight_zero_point", ".weight_scale", ".weight_g_idx",
                               ".weight_shape"};

const PartNames& names_of(GroupedParts::Layout layout) {
  return layout == GroupedParts::Layout::rows ? kRowsParts : kGptqParts;
}

Status check_finite(const TensorPlace& scales, const GroupedParts& parts) {
  for (int64_t i = 0; i < parts.n_groups * parts.n_out; ++i) {
    const int64_t group = i / parts.n_out, output = i % parts.n_out;
    const float scale = parts.scale(group, output);
    if (std::isfinite(scale)) continue;
    const bool by_rows = parts.layout == GroupedParts::Layout::rows;
    return fail(Code::corrupt, scales.label() + ": row " + std::to_string(by_rows ? output : group) + ", column " +
                                   std::to_string(by_rows ? group : output) + ": must be finite, is " +
                                   std::to_string(scale));
  }
  return {};
}

Result<std::vector<int32_t>> read_groups(const TensorPlace& groups, int64_t n_columns, int64_t n_groups) {
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(n_columns));
  const std::byte* at = groups.bytes().data();
  const bool is_wide = groups.tensor->dtype == "I64";
  for (int64_t i = 0; i < n_columns; ++i) {
    const int64_t group = is_wide ? load_as<int64_t>(at + i * 8) : load_as<int32_t>(at + i * 4);
    if (group < 0 || group >= n_groups) {
      return fail(Code::corrupt, groups.label() + ": number " + std::to_string(i) + ": must be a group in [0, " +
                                     std::to_string(n_groups - 1) + "], is " + std::to_string(group));
    }
    out.push_back(static_cast<int32_t>(group));
  }
  return out;
}

// The groups of a weight's columns, and the tensor that says so where there is one.
Status find_groups(const HfQuantisation& how,
                   const TensorPlaces& places,
                   const TensorPlace& numbers,
                   const std::string& name,
                   GroupedParts& parts) {
  const std::string part = name + std::string(names_of(parts.layout).groups);
  if (parts.layout != GroupedParts::Layout::awq && (how.is_ordered || places.contains(part))) {
    QR_TRY(const TensorPlace groups, part_of(places, part, {"I32", "I64"}, {{parts.n_in}}, numbers.label()));
    QR_TRY(parts.group_of, read_groups(groups, parts.n_in, parts.n_groups));
    parts.stored_groups = groups.bytes();
    return {};
  }
  parts.group_of.resize(static_cast<size_t>(parts.n_in));
  for (int64_t i = 0; i < parts.n_in; ++i) {
    parts.group_of[static_cast<size_t>(i)] = static_cast<int32_t>(how.group == 0 ? 0 : i / how.group);
  }
  return {};
}

// Outputs and inputs of the weight that these numbers are.
Status find_sizes(const TensorPlaces& places,
                  const TensorPlace& numbers,
                  const std::string& name,
                  GroupedParts& parts) {
  const int64_t rows = numbers.tensor->shape[0], columns = numbers.tensor->shape[1];
  const bool is_gptq = parts.layout == GroupedParts::Layout::gptq, is_awq = parts.layout == GroupedParts::Layout::awq;
  const int64_t inputs = is_gptq || is_awq ? rows : columns;  // words, or columns
  parts.n_out = is_gptq || is_awq ? columns : rows;
  if (inputs > kMostColumns || inputs * (is_awq ? 1 : parts.per_word()) > kMostColumns) {
    return fail(Code::unsupported, numbers.label() + ": has shape " + shape_text(numbers.tensor->shape) + ", at most " +
                                       std::to_string(kMostColumns) + " inputs are taken");
  }
  parts.n_in = is_awq ? inputs : inputs * parts.per_word();
  if (is_awq) parts.n_out *= parts.per_word();
  if (is_gptq || is_awq) return {};
  const std::string part = name + std::string(kRowsParts.shape);
  QR_TRY(const TensorPlace shape, part_of(places, part, {"I64"}, {{2}}, numbers.label()));
  const std::byte* at = shape.bytes().data();
  const std::vector<int64_t> found = {load_as<int64_t>(at), load_as<int64_t>(at + 8)};
  if (found == std::vector<int64_t>{parts.n_out, parts.n_in}) return {};
  return fail(Code::corrupt,
              shape.label() + ": is " + shape_text(found) + ", " + shape_text({parts.n_out, parts.n_in}) + " wanted");
}

// `name`.weight of its tensors.
Result<HostWeight> assemble(const HfQuantisation& how, const TensorPlaces& places, const std::string& name) {
  const PartNames& names = names_of(how.layout);
  const std::string packed = name + std::string(names.numbers);
  QR_TRY(const TensorPlace numbers, part_of(places, packed, {"I32", "U32"}, {}, in_quotes(packed)));
  GroupedParts parts;
  parts.layout = how.layout;
  parts.bits = how.bits;
  parts.zeros_less_one = how.zeros_less_one;
  QR_TRY_VOID(find_sizes(places, numbers, name, parts));
  parts.n_groups = how.group == 0 ? 1 : (parts.n_in + how.group - 1) / how.group;
  const std::string of = numbers.label();
  const auto shape = [&](int64_t outputs) {
    const bool by_rows = how.layout == GroupedParts::Layout::rows;
    return by_rows ? std::vector{outputs, parts.n_groups} : std::vector{parts.n_groups, outputs};
  };
  if (how.has_zeros) {
    const std::string part = name + std::string(names.zeros);
    QR_TRY(const TensorPlace zeros, part_of(places, part, {"I32", "U32"}, {shape(parts.n_zero_words())}, of));
    parts.zeros = zeros.bytes();
  }
  const std::string part = name + std::string(names.scales);
  QR_TRY(const TensorPlace scales, scales_of(places, part, {shape(parts.n_out)}, of));
  QR_TRY_VOID(find_groups(how, places, numbers, name, parts));
  parts.numbers = numbers.bytes();
  parts.scales = scales.bytes();
  parts.scale_format = scale_format_of(scales);
  QR_TRY_VOID(check_finite(scales, parts));
  return grouped_weight(name + ".weight", std::move(parts));
}

int64_t numbers_of(const HfQuantisation& how) { return 32 / how.bits; }

QuantisedKind kind_of(const PartNames& names) {
  QuantisedKind out{
      .numbers = names.numbers, .type = "", .others = {}, .numbers_of = &numbers_of, .assemble = &assemble};
  for (const std::string_view name : {names.zeros, names.scales, names.groups, names.shape}) {
    if (!name.empty()) out.others.push_back(name);
  }
  return out;
}

}  // namespace

const QuantisedKind& grouped_kind(GroupedParts::Layout layout) {
  static const QuantisedKind words = kind_of(kGptqParts), rows = kind_of(kRowsParts);
  return layout == GroupedParts::Layout::rows ? rows : words;
}

}  // namespace quire
