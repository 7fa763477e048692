// Weights of GPTQ, AWQ and compressed-tensors: numbers in groups of columns that have a scale and a zero each, packed
// in words or as signed bytes. What activations were divided by where the folder was made (input_scale) is passed over.
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
constexpr PartNames kBytesParts{".weight", ".weight_zero_point", ".weight_scale", ".weight_g_idx", ""};

const PartNames& names_of(GroupedParts::Layout layout) {
  if (layout == GroupedParts::Layout::bytes) return kBytesParts;
  return layout == GroupedParts::Layout::rows ? kRowsParts : kGptqParts;
}

Status check_finite(const TensorPlace& scales, const GroupedParts& parts) {
  const int64_t n = parts.has_one_scale ? 1 : parts.n_scale_groups * parts.n_out;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t group = i / parts.n_out, output = i % parts.n_out;
    const float scale = parts.scale(group, output);
    if (std::isfinite(scale)) continue;
    const bool by_rows = parts.is_by_rows();
    return fail(Code::corrupt, scales.label() + ": row " + std::to_string(by_rows ? output : group) + ", column " +
                                   std::to_string(by_rows ? group : output) + ": must be finite, is " +
                                   std::to_string(scale));
  }
  return {};
}

Result<std::vector<int32_t>> read_groups(const TensorPlace& groups, int64_t n_columns, int64_t n_scale_groups) {
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(n_columns));
  const std::byte* at = groups.bytes().data();
  const bool is_wide = groups.tensor->dtype == "I64";
  for (int64_t i = 0; i < n_columns; ++i) {
    const int64_t group = is_wide ? load_as<int64_t>(at + i * 8) : load_as<int32_t>(at + i * 4);
    if (group < 0 || group >= n_scale_groups) {
      return fail(Code::corrupt, groups.label() + ": number " + std::to_string(i) + ": must be a group in [0, " +
                                     std::to_string(n_scale_groups - 1) + "], is " + std::to_string(group));
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
    QR_TRY(parts.scale_group_of, read_groups(groups, parts.n_in, parts.n_scale_groups));
    parts.stored_scale_groups = groups.bytes();
    return {};
  }
  parts.scale_group_of.resize(static_cast<size_t>(parts.n_in));
  for (int64_t i = 0; i < parts.n_in; ++i) {
    parts.scale_group_of[static_cast<size_t>(i)] = static_cast<int32_t>(how.group == 0 ? 0 : i / how.group);
  }
  return {};
}

// Outputs and inputs of the weight that these numbers are.
Status find_sizes(const TensorPlaces& places,
                  const TensorPlace& numbers,
                  const std::string& name,
                  GroupedParts& parts) {
  const int64_t rows = numbers.tensor->shape[0], columns = numbers.tensor->shape[1];
  const bool is_awq = parts.layout == GroupedParts::Layout::awq;
  const bool is_bytes = parts.layout == GroupedParts::Layout::bytes;
  const int64_t inputs = parts.is_by_rows() ? columns : rows;  // words, or columns
  parts.n_out = parts.is_by_rows() ? rows : columns;
  const int64_t per = is_awq || is_bytes ? 1 : parts.per_word();
  QR_TRY_VOID(check_columns(numbers, inputs, per));
  parts.n_in = inputs * per;
  if (is_awq) parts.n_out *= parts.per_word();
  if (parts.layout != GroupedParts::Layout::rows) return {};
  const std::string part = name + std::string(kRowsParts.shape);
  QR_TRY(const TensorPlace shape, part_of(places, part, {"I64"}, {{2}}, numbers.label()));
  const std::byte* at = shape.bytes().data();
  const std::vector<int64_t> found = {load_as<int64_t>(at), load_as<int64_t>(at + 8)};
  if (found == std::vector<int64_t>{parts.n_out, parts.n_in}) return {};
  return fail(Code::corrupt,
              shape.label() + ": is " + shape_text(found) + ", " + shape_text({parts.n_out, parts.n_in}) + " wanted");
}

// Shapes that scales may have, or zeros, of which `outputs` lie side by side.
std::vector<std::vector<int64_t>> shapes_of(const GroupedParts& parts, int64_t outputs) {
  if (parts.has_one_scale) return {{1}, {1, 1}, {}};
  if (!parts.is_by_rows()) return {{parts.n_scale_groups, outputs}};
  std::vector<std::vector<int64_t>> out = {{outputs, parts.n_scale_groups}};
  if (parts.n_scale_groups == 1) out.push_back({outputs});
  return out;
}

Status find_zeros(const TensorPlaces& places,
                  const TensorPlace& numbers,
                  const std::string& name,
                  GroupedParts& parts) {
  const std::string part = name + std::string(names_of(parts.layout).zeros);
  const bool is_bytes = parts.layout == GroupedParts::Layout::bytes;
  const auto shapes = shapes_of(parts, is_bytes ? parts.n_out : parts.n_zero_words());
  QR_TRY(const TensorPlace zeros, is_bytes ? part_of(places, part, {"I8"}, shapes, numbers.label())
                                           : part_of(places, part, {"I32", "U32"}, shapes, numbers.label()));
  parts.zeros = zeros.bytes();
  return {};
}

// `name`.weight of its tensors.
Result<HostWeight> assemble(const HfQuantisation& how, const TensorPlaces& places, const std::string& name) {
  const PartNames& names = names_of(how.layout);
  const std::string packed = name + std::string(names.numbers);
  const bool is_bytes = how.layout == GroupedParts::Layout::bytes;
  QR_TRY(const TensorPlace numbers, is_bytes ? part_of(places, packed, {"I8"}, {}, in_quotes(packed))
                                             : part_of(places, packed, {"I32", "U32"}, {}, in_quotes(packed)));
  GroupedParts parts;
  parts.layout = how.layout;
  parts.bits = how.bits;
  parts.zeros_less_one = how.zeros_less_one;
  parts.has_one_scale = how.has_one_scale;
  QR_TRY_VOID(find_sizes(places, numbers, name, parts));
  parts.n_scale_groups = how.group == 0 ? 1 : (parts.n_in + how.group - 1) / how.group;
  if (how.has_zeros) QR_TRY_VOID(find_zeros(places, numbers, name, parts));
  const std::string part = name + std::string(names.scales);
  QR_TRY(const TensorPlace scales, scales_of(places, part, shapes_of(parts, parts.n_out), numbers.label()));
  QR_TRY_VOID(find_groups(how, places, numbers, name, parts));
  parts.numbers = numbers.bytes();
  parts.scales = scales.bytes();
  parts.scale_format = scale_format_of(scales);
  QR_TRY_VOID(check_finite(scales, parts));
  return grouped_weight(name + ".weight", std::move(parts));
}

int64_t numbers_of(const HfQuantisation& how) { return how.layout == GroupedParts::Layout::bytes ? 1 : 32 / how.bits; }

QuantisedKind kind_of(const PartNames& names) {
  QuantisedKind out{
      .numbers = names.numbers, .type = "", .others = {}, .numbers_of = &numbers_of, .assemble = &assemble};
  for (const std::string_view name : {names.zeros, names.scales, names.groups, names.shape}) {
    if (!name.empty()) out.others.push_back(name);
  }
  return out;
}

QuantisedKind kind_of_bytes() {
  QuantisedKind out = kind_of(kBytesParts);
  out.type = "I8";
  out.passed_over = {".input_scale", ".input_zero_point", ".output_scale"};
  return out;
}

}  // namespace

const QuantisedKind& grouped_kind(GroupedParts::Layout layout) {
  static const QuantisedKind kWords = kind_of(kGptqParts), kRows = kind_of(kRowsParts), kBytes = kind_of_bytes();
  if (layout == GroupedParts::Layout::bytes) return kBytes;
  return layout == GroupedParts::Layout::rows ? kRows : kWords;
}

}  // namespace quire
