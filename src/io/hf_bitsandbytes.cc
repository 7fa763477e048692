// Weights of bitsandbytes. In four bits: NAME.weight, whose bytes are numbers, and behind that name .absmax, .quant_map
// and, where scales are quantised again, .nested_absmax and .nested_quant_map; sizes are in JSON, in a tensor of bytes
// named .quant_state.bitsandbytes__ and the kind. In eight: NAME.weight, signed bytes, and NAME.SCB, 127 times the
// scale of each row. What rows of activations were divided by, and which of their columns were not, is not looked at.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"
#include "io/quantised_kinds.h"
#include "quant/f16.h"
#include "quant/table_rows.h"

namespace quire {
namespace {

constexpr std::string_view kNumbers = ".weight", kScales = ".weight.absmax", kTable = ".weight.quant_map",
                           kOuter = ".weight.nested_absmax", kScaleTable = ".weight.nested_quant_map",
                           kNf4 = ".weight.quant_state.bitsandbytes__nf4",
                           kFp4 = ".weight.quant_state.bitsandbytes__fp4", kRowScales = ".SCB",
                           kOrder = ".weight_format";
constexpr int64_t kMostStateBytes = 64 << 10;
constexpr int64_t kMostBlock = 65536;

Result<int64_t> size_of(const ConfigKeys& keys, std::string_view name, int64_t most) {
  QR_TRY(const int64_t found, keys.integer({name}));
  if (found >= 1 && found <= most) return found;
  return fail(Code::corrupt,
              keys.label(name) + ": must be 1 to " + std::to_string(most) + ", is " + std::to_string(found));
}

// Sizes and offset, out of the JSON. `has_outer`: whether scales are quantised again.
Result<TableParts> read_state(const Json& json, const std::string& label, bool& has_outer) {
  if (json.as_object() == nullptr) return fail(Code::corrupt, label + ": must be a JSON object");
  const ConfigKeys keys(json, label + ": key \"");
  TableParts out;
  QR_TRY(out.block, size_of(keys, "blocksize", kMostBlock));
  if (out.block % 2 != 0) return keys.unsupported("blocksize", std::to_string(out.block), "even ones");
  std::string_view shown;
  const Json* shape = keys.find({"shape"}, shown);
  QR_TRY(std::tie(out.n_out, out.n_in), read_extents(shape, keys.label(shown)));
  has_outer = keys.find({"nested_blocksize"}, shown) != nullptr;
  if (!has_outer) return out;
  QR_TRY(out.outer_block, size_of(keys, "nested_blocksize", kMostBlock));
  QR_TRY_VOID(keys.text({"nested_dtype"}, "float32", {"float32"}));
  const Json* offset = keys.find({"nested_offset"}, shown);
  const bool is_number = offset != nullptr && (offset->as_double() != nullptr || offset->as_int() != nullptr);
  out.offset = is_number ? static_cast<float>(offset->number()) : 0;
  if (is_number && std::isfinite(out.offset)) return out;
  return fail(Code::corrupt, keys.label(shown) + ": must be a finite number, is " +
                                 (offset != nullptr ? value_text(*offset) : "missing"));
}

Result<std::span<const std::byte>> finite_floats(const TensorPlaces& places,
                                                 const std::string& name,
                                                 int64_t n,
                                                 const std::string& of) {
  QR_TRY(const TensorPlace place, part_of(places, name, {"F32"}, {{n}}, of));
  const std::span<const std::byte> bytes = place.bytes();
  for (int64_t i = 0; i < n; ++i) {
    const auto value = load_as<float>(bytes.data() + 4 * i);
    if (std::isfinite(value)) continue;
    return fail(Code::corrupt,
                place.label() + ": number " + std::to_string(i) + ": must be finite, is " + std::to_string(value));
  }
  return bytes;
}

Status find_scales(const TensorPlaces& places, const std::string& name, const std::string& of, TableParts& parts) {
  const std::string scales = name + std::string(kScales);
  QR_TRY(const TensorPlace bytes, part_of(places, scales, {"U8"}, {{parts.n_blocks()}}, of));
  parts.scales = bytes.bytes();
  QR_TRY(parts.outer_scales, finite_floats(places, name + std::string(kOuter), parts.n_outer(), of));
  QR_TRY(const std::span<const std::byte> table, finite_floats(places, name + std::string(kScaleTable), 256, of));
  for (int i = 0; i < 256; ++i) parts.scale_table.push_back(load_as<float>(table.data() + 4 * i));
  return {};
}

Result<HostWeight> assemble(const HfQuantisation&, const TensorPlaces& places, const std::string& name) {
  const std::string stored = name + std::string(kNumbers);
  QR_TRY(const TensorPlace numbers, part_of(places, stored, {"U8"}, {}, in_quotes(stored)));
  const std::string of = numbers.label();
  const auto state = places.find(name + std::string(places.contains(name + std::string(kFp4)) ? kFp4 : kNf4));
  if (state == places.end())
    return fail(Code::not_found, of + ": " + in_quotes(name + std::string(kNf4)) + " is missing");
  const std::string label = state->second.label();
  if (state->second.tensor->dtype != "U8" || state->second.tensor->bytes > kMostStateBytes) {
    return fail(Code::unsupported, label + ": must be U8, at most " + std::to_string(kMostStateBytes) + " bytes");
  }
  const auto text = state->second.bytes();
  const auto json = Json::parse({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!json) return fail(Code::corrupt, label + ": no JSON: " + json.error().message);
  bool has_outer = false;
  QR_TRY(TableParts parts, read_state(*json, label, has_outer));
  const std::vector<int64_t> shape = {(parts.n_out * parts.n_in + 1) / 2, 1};
  QR_TRY_VOID(part_of(places, stored, {"U8"}, {shape, {1, shape[0]}}, of));
  parts.numbers = numbers.bytes();
  QR_TRY(const std::span<const std::byte> table, finite_floats(places, name + std::string(kTable), 16, of));
  for (size_t i = 0; i < 16; ++i) parts.table[i] = load_as<float>(table.data() + 4 * i);
  if (has_outer) {
    QR_TRY_VOID(find_scales(places, name, of, parts));
  } else {
    QR_TRY(parts.scales, finite_floats(places, name + std::string(kScales), parts.n_blocks(), of));
  }
  return table_weight(name + ".weight", std::move(parts));
}

// Signed bytes.
Result<HostWeight> assemble_rows(const HfQuantisation&, const TensorPlaces& places, const std::string& name) {
  const std::string stored = name + std::string(kNumbers);
  QR_TRY(const TensorPlace numbers, part_of(places, stored, {"I8"}, {}, in_quotes(stored)));
  GroupedParts parts;
  parts.layout = GroupedParts::Layout::bytes;
  parts.bits = 8;
  parts.n_out = numbers.tensor->shape[0];
  parts.n_in = numbers.tensor->shape[1];
  QR_TRY_VOID(check_columns(numbers, parts.n_in));
  const auto order = places.find(name + std::string(kOrder));
  const bool is_plain = order == places.end() ||
                        std::ranges::all_of(order->second.bytes(), [](std::byte b) { return b == std::byte{0}; });
  if (!is_plain) return fail(Code::unsupported, order->second.label() + ": must be 0, rows as they are");
  parts.numbers = numbers.bytes();
  QR_TRY(parts.scales, finite_floats(places, name + std::string(kRowScales), parts.n_out, numbers.label()));
  parts.scale_format = find_weight_format(std::string_view("f32"));
  parts.scale_factor = 1.0F / 127.0F;
  parts.scale_group_of.assign(static_cast<size_t>(parts.n_in), 0);
  return grouped_weight(name + ".weight", std::move(parts));
}

int64_t numbers_of_byte(const HfQuantisation&) { return 1; }
int64_t numbers_of(const HfQuantisation&) { return 2; }

const QuantisedKind& table_kind() {
  static const QuantisedKind kKind{.numbers = kNumbers,
                                   .type = "U8",
                                   .others = {kScales, kTable, kOuter, kScaleTable, kNf4, kFp4},
                                   .numbers_of = &numbers_of,
                                   .assemble = &assemble};
  return kKind;
}
const QuantisedKind& row_kind() {
  static const QuantisedKind kKind{.numbers = kNumbers,
                                   .type = "I8",
                                   .others = {kRowScales, kOrder},
                                   .numbers_of = &numbers_of_byte,
                                   .assemble = &assemble_rows};
  return kKind;
}

}  // namespace

Result<HfQuantisation> read_bitsandbytes(const ConfigKeys& keys) {
  QR_TRY(const bool in_four, keys.boolean("load_in_4bit", false));
  QR_TRY(const bool in_eight, keys.boolean("load_in_8bit", false));
  if (in_four == in_eight) {
    return keys.unsupported("load_in_4bit", in_four ? "true beside load_in_8bit" : "false without load_in_8bit",
                            "one of the two");
  }
  if (in_eight) return HfQuantisation{.kind = &row_kind()};
  QR_TRY_VOID(keys.text({"bnb_4bit_quant_type"}, "fp4", {"nf4", "fp4"}));
  QR_TRY_VOID(keys.text({"bnb_4bit_quant_storage"}, "uint8", {"uint8"}));
  return HfQuantisation{.kind = &table_kind()};
}

}  // namespace quire
