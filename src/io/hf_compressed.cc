// What compressed-tensors says of its weights: "config_groups" of the configuration. How activations are to be rounded
// is not looked at: here they are not.
#include <algorithm>
#include <string>
#include <vector>

#include "io/quantised_kinds.h"

namespace quire {
namespace {

// Of one of these widths.
Result<int64_t> read_bits(const ConfigKeys& keys, std::string_view type, const std::vector<int64_t>& widths) {
  QR_TRY(const int64_t bits, keys.integer({"num_bits"}));
  std::string known;
  for (const int64_t width : widths) known += (known.empty() ? "" : ", ") + std::to_string(width);
  if (std::ranges::find(widths, bits) == widths.end()) return keys.unsupported("num_bits", std::to_string(bits), known);
  QR_TRY_VOID(keys.text({"type"}, type, {type}));
  QR_TRY(const bool is_dynamic, keys.boolean("dynamic", false));
  if (is_dynamic) return keys.unsupported("dynamic", "true", "false");
  return bits;
}

Result<HfQuantisation> read_packed(const ConfigKeys& keys) {
  constexpr GroupedParts::Layout kLayout = GroupedParts::Layout::rows;
  HfQuantisation out{.kind = &grouped_kind(kLayout), .layout = kLayout, .zeros_less_one = false};
  QR_TRY(const int64_t bits, read_bits(keys, "int", {4, 8}));
  out.bits = static_cast<int>(bits);
  QR_TRY(const bool is_symmetric, keys.boolean("symmetric", true));
  out.has_zeros = !is_symmetric;
  QR_TRY(const std::string strategy, keys.text({"strategy"}, "group", {"group", "channel"}));
  if (strategy == "group") {
    QR_TRY(out.group, read_group_size(keys));
  }
  return out;
}

Result<HfQuantisation> read_floats(const ConfigKeys& keys) {
  HfQuantisation out{.kind = &scaled_kind()};
  QR_TRY_VOID(read_bits(keys, "float", {8}));
  QR_TRY(const bool is_symmetric, keys.boolean("symmetric", true));
  if (!is_symmetric) return keys.unsupported("symmetric", "false", "true");
  QR_TRY(const std::string strategy, keys.text({"strategy"}, "tensor", {"tensor", "channel", "group", "block"}));
  if (strategy == "block") {
    QR_TRY_VOID(read_block_size(keys, "block_structure", out));
    if (out.scale_rows == 0) return fail(Code::not_found, keys.label("block_structure") + ": is missing");
  }
  if (strategy == "channel" || strategy == "group") out.scale_rows = 1;
  if (strategy == "group") {
    QR_TRY(out.scale_columns, read_group_size(keys));
  }
  return out;
}

Result<HfQuantisation> read_bytes(const ConfigKeys& keys) {
  constexpr GroupedParts::Layout kLayout = GroupedParts::Layout::bytes;
  HfQuantisation out{.kind = &grouped_kind(kLayout), .layout = kLayout, .bits = 8, .zeros_less_one = false};
  QR_TRY_VOID(read_bits(keys, "int", {8}));
  QR_TRY(const bool is_symmetric, keys.boolean("symmetric", true));
  out.has_zeros = !is_symmetric;
  QR_TRY(const std::string strategy, keys.text({"strategy"}, "tensor", {"tensor", "channel", "group"}));
  out.has_one_scale = strategy == "tensor";
  if (strategy == "group") {
    QR_TRY(out.group, read_group_size(keys));
  }
  return out;
}

Result<HfQuantisation> read_either(const ConfigKeys& keys) {
  QR_TRY(const std::string type, keys.text({"type"}, "int", {"int", "float"}));
  return type.starts_with('i') ? read_bytes(keys) : read_floats(keys);
}

// Floats of so many bits whose groups of `group` columns have a scale.
Status check_small_groups(const ConfigKeys& keys, int64_t bits, std::string_view strategy, int64_t group) {
  QR_TRY_VOID(read_bits(keys, "float", {bits}));
  QR_TRY(const bool is_symmetric, keys.boolean("symmetric", true));
  if (!is_symmetric) return keys.unsupported("symmetric", "false", "true");
  QR_TRY_VOID(keys.text({"strategy"}, strategy, {strategy}));
  QR_TRY(const int64_t found, keys.integer({"group_size"}));
  if (found != group) return keys.unsupported("group_size", std::to_string(found), std::to_string(group));
  return {};
}

Result<HfQuantisation> read_nvfp4(const ConfigKeys& keys) {
  QR_TRY_VOID(check_small_groups(keys, 4, "tensor_group", 16));
  return HfQuantisation{.kind = &fp4_kind(Fp4Folder::nv)};
}
Result<HfQuantisation> read_mxfp4(const ConfigKeys& keys) {
  QR_TRY_VOID(check_small_groups(keys, 4, "group", 32));
  return HfQuantisation{.kind = &fp4_kind(Fp4Folder::mx)};
}
Result<HfQuantisation> read_mxfp8(const ConfigKeys& keys) {
  QR_TRY_VOID(check_small_groups(keys, 8, "group", 32));
  return HfQuantisation{.kind = &scaled_kind(), .scale_rows = 1, .scale_columns = 32, .has_exponents = true};
}

// Its name in the configuration, and what reads the weights' members.
struct Format {
  std::string_view name;
  Result<HfQuantisation> (*read)(const ConfigKeys& weights);
};
constexpr Format kFormats[] = {{"pack-quantized", &read_packed},      {"float-quantized", &read_floats},
                               {"int-quantized", &read_bytes},        {"naive-quantized", &read_either},
                               {"nvfp4-pack-quantized", &read_nvfp4}, {"mxfp4-pack-quantized", &read_mxfp4},
                               {"mxfp8-quantized", &read_mxfp8}};

// All modules are quantised in one way, and nothing else is.
Status check_rest(const ConfigKeys& keys) {
  QR_TRY_VOID(keys.text({"quantization_status"}, "compressed", {"compressed"}));
  std::string_view shown;
  for (const std::string_view name : {"kv_cache_scheme", "sparsity_config", "transform_config"}) {
    const Json* other = keys.find({name}, shown);
    const bool is_empty = other == nullptr || (other->as_object() != nullptr && other->as_object()->empty());
    if (!is_empty) return keys.unsupported(name, "one", "none");
  }
  const Json* groups = keys.find({"config_groups"}, shown);
  const size_t n = groups != nullptr && groups->as_object() != nullptr ? groups->as_object()->size() : 0;
  if (n != 1) return keys.unsupported(shown, std::to_string(n) + " groups", "1");
  return {};
}

}  // namespace

Result<HfQuantisation> read_compressed(const ConfigKeys& keys) {
  QR_TRY(const std::string name, keys.text({"format"}, "pack-quantized",
                                           {"pack-quantized", "float-quantized", "int-quantized", "naive-quantized",
                                            "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"}));
  QR_TRY_VOID(check_rest(keys));
  std::string_view shown;
  const auto& [group_name, group] = keys.find({"config_groups"}, shown)->as_object()->front();
  const std::string label = "config_groups." + group_name;
  if (group.as_object() == nullptr) return fail(Code::corrupt, keys.label(label) + ": must be an object");
  const ConfigKeys scheme = keys.inside(group, label);
  if (scheme.find({"output_activations"}, shown) != nullptr)
    return scheme.unsupported("output_activations", "one", "none");
  QR_TRY_VOID(scheme.text({"format"}, name, {name}));
  const Json* weights = scheme.find({"weights"}, shown);
  if (weights == nullptr || weights->as_object() == nullptr) {
    return fail(Code::corrupt, scheme.label("weights") + ": must be an object");
  }
  const auto* format = std::ranges::find(kFormats, name, &Format::name);
  return format->read(scheme.inside(*weights, "weights"));
}

}  // namespace quire
