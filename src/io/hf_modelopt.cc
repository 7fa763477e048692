// What ModelOpt says of its weights: "quantization_config" of config.json, or "quantization" of hf_quant_config.json.
// How activations, keys and values were to be rounded is not looked at: here they are as elsewhere.
#include "io/quantised_kinds.h"

namespace quire {

namespace {

Result<HfQuantisation> read_members(const ConfigKeys& keys) {
  std::string_view shown;
  if (keys.find({"quant_algo"}, shown) == nullptr) return fail(Code::not_found, keys.label(shown) + ": is missing");
  QR_TRY(const std::string kind, keys.text({"quant_algo"}, "", {"fp8", "nvfp4", "w4a16_nvfp4"}));
  if (kind == "fp8") return HfQuantisation{.kind = &scaled_kind()};
  const bool says_group = keys.find({"group_size"}, shown) != nullptr;
  QR_TRY(const int64_t group, says_group ? keys.integer({"group_size"}) : Result<int64_t>(16));
  if (group != 16) return keys.unsupported("group_size", std::to_string(group), "16");
  return HfQuantisation{.kind = &fp4_kind(Fp4Folder::modelopt)};
}

}  // namespace

Result<HfQuantisation> read_modelopt(const ConfigKeys& keys) {
  std::string_view shown;
  const Json* inner = keys.find({"quantization"}, shown);
  if (inner == nullptr) return read_members(keys);
  if (inner->as_object() == nullptr) return fail(Code::corrupt, keys.label(shown) + ": must be an object");
  return read_members(keys.inside(*inner, "quantization"));
}

}  // namespace quire
