#include "io/hf_quantisation.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "io/hf_config.h"
#include "io/in_quotes.h"
#include "io/quantised_kinds.h"

namespace quire {
namespace {

// Of single modules: those that are left as they were are there as plain tensors.
Status check_modules(const ConfigKeys& keys) {
  std::string_view shown;
  if (const Json* dynamic = keys.find({"dynamic"}, shown)) {
    if (dynamic->as_object() == nullptr) return fail(Code::corrupt, keys.label(shown) + ": must be an object");
    for (const auto& [module, what] : *dynamic->as_object()) {
      if (!module.starts_with("-:")) return keys.unsupported(shown, in_quotes(module), "modules left out, \"-:…\"");
    }
  }
  if (const Json* kept = keys.find({"modules_to_not_convert", "ignored_layers"}, shown)) {
    const Json::Array* names = kept->as_array();
    const bool is_list =
        names != nullptr && std::ranges::all_of(*names, [](const Json& name) { return name.as_string() != nullptr; });
    if (!is_list) return fail(Code::corrupt, keys.label(shown) + ": must be a list of names");
  }
  return {};
}

Result<HfQuantisation> read_gptq(const ConfigKeys& keys) {
  HfQuantisation out{.kind = &grouped_kind(GroupedParts::Layout::gptq)};
  QR_TRY(const int64_t bits, keys.integer({"bits", "wbits", "w_bit"}));
  if (bits != 4 && bits != 8) return keys.unsupported("bits", std::to_string(bits), "4, 8");
  out.bits = static_cast<int>(bits);
  QR_TRY(out.group, read_group_size(keys));
  QR_TRY(const std::string format, keys.text({"checkpoint_format", "format"}, "gptq", {"gptq", "gptq_v2"}));
  out.zeros_less_one = !format.ends_with("_v2");
  QR_TRY_VOID(keys.text({"pack_dtype"}, "int32", {"int32"}));
  QR_TRY(const bool is_marlin, keys.boolean("is_marlin_format", false));
  if (is_marlin) return keys.unsupported("is_marlin_format", "true", "false");
  QR_TRY(out.is_ordered, keys.boolean("desc_act", false));
  QR_TRY_VOID(keys.boolean("sym", true));
  QR_TRY_VOID(keys.boolean("lm_head", false));
  QR_TRY_VOID(check_modules(keys));
  return out;
}

Result<HfQuantisation> read_awq(const ConfigKeys& keys) {
  HfQuantisation out{
      .kind = &grouped_kind(GroupedParts::Layout::awq), .layout = GroupedParts::Layout::awq, .zeros_less_one = false};
  QR_TRY(const int64_t bits, keys.integer({"bits", "w_bit"}));
  if (bits != 4) return keys.unsupported("bits", std::to_string(bits), "4");
  QR_TRY(out.group, read_group_size(keys));
  QR_TRY_VOID(keys.text({"version", "checkpoint_format", "format"}, "gemm", {"gemm"}));
  QR_TRY_VOID(keys.text({"pack_dtype"}, "int32", {"int32"}));
  QR_TRY(const bool has_zeros, keys.boolean("zero_point", true));
  if (!has_zeros) return keys.unsupported("zero_point", "false", "true");
  QR_TRY_VOID(check_modules(keys));
  return out;
}

// How activations were rounded where the folder was made is not looked at: here they are not.
Result<HfQuantisation> read_fp8(const ConfigKeys& keys) {
  HfQuantisation out{.kind = &scaled_kind()};
  QR_TRY_VOID(keys.text({"fmt"}, "e4m3", {"e4m3", "float8_e4m3fn"}));
  QR_TRY_VOID(keys.text({"activation_scheme"}, "dynamic", {"dynamic", "static"}));
  QR_TRY_VOID(read_block_size(keys, "weight_block_size", out));
  QR_TRY_VOID(check_modules(keys));
  return out;
}

Result<HfQuantisation> read_mxfp4(const ConfigKeys& keys) {
  QR_TRY_VOID(check_modules(keys));
  return HfQuantisation{.kind = &mxfp4_blocks_kind()};
}

Result<HfQuantisation> read_keys(const ConfigKeys& keys, std::string_view fallback) {
  std::string_view shown;
  if (fallback.empty() && keys.find({"quant_method", "method"}, shown) == nullptr) {
    return fail(Code::not_found, keys.label(shown) + ": is missing");
  }
  QR_TRY(const std::string method,
         keys.text({"quant_method", "method"}, fallback,
                   {"gptq", "awq", "compressed-tensors", "fp8", "bitsandbytes", "mxfp4", "modelopt", "bitnet"}));
  if (method == "gptq") return read_gptq(keys);
  if (method == "awq") return read_awq(keys);
  if (method == "bitsandbytes") return read_bitsandbytes(keys);
  if (method == "mxfp4") return read_mxfp4(keys);
  if (method == "modelopt") return read_modelopt(keys);
  if (method == "bitnet") {
    QR_TRY_VOID(check_modules(keys));
    return read_bitnet(keys);
  }
  return method == "fp8" ? read_fp8(keys) : read_compressed(keys);
}

bool is_numbers(const QuantisedKind& kind, const SafeTensor& tensor) {
  return tensor.name.ends_with(kind.numbers) && (kind.type.empty() || tensor.dtype == kind.type);
}

// No part of a weight may be left beside a plain one, which would be taken without its scales.
Status check_left(const QuantisedKind& kind,
                  const TensorPlaces& places,
                  const std::set<std::string, std::less<>>& taken) {
  for (const auto& [tensor, place] : places) {
    if (taken.contains(tensor)) continue;
    for (const std::string_view part : kind.others) {
      if (!tensor.ends_with(part)) continue;
      const std::string name = tensor.substr(0, tensor.size() - part.size());
      const auto plain = places.find(name + std::string(kind.plain));
      if (plain == places.end()) continue;
      const std::string& type = plain->second.tensor->dtype;
      if (!kind.type.empty()) {
        return fail(Code::unsupported, plain->second.label() + ": dtype " + type + " beside " + in_quotes(tensor) +
                                           " is not supported (supported: " + std::string(kind.type) + ")");
      }
      return fail(Code::not_found, place.label() + ": " + in_quotes(name + std::string(kind.numbers)) +
                                       " is missing, and " + in_quotes(plain->first) + " has dtype " + type);
    }
  }
  return {};
}

}  // namespace

Result<int64_t> read_group_size(const ConfigKeys& keys) {
  QR_TRY(const int64_t group, keys.integer({"group_size", "q_group_size"}));
  if (group == -1) return 0;
  if (group >= 1 && group <= kMostColumns) return group;
  return keys.unsupported("group_size", std::to_string(group), "-1 and 1 to " + std::to_string(kMostColumns));
}

Result<std::pair<int64_t, int64_t>> read_extents(const Json* value, const std::string& label) {
  const Json::Array* sizes = value != nullptr ? value->as_array() : nullptr;
  const auto fits = [](const Json& size) {
    return size.as_int() != nullptr && *size.as_int() >= 1 && *size.as_int() <= kMostColumns;
  };
  if (sizes == nullptr || sizes->size() != 2 || !std::ranges::all_of(*sizes, fits)) {
    return fail(Code::corrupt, label + ": must be two numbers from 1 to " + std::to_string(kMostColumns) +
                                   (value != nullptr ? ", is " + value_text(*value) : ", is missing"));
  }
  return std::pair(*(*sizes)[0].as_int(), *(*sizes)[1].as_int());
}

Status read_block_size(const ConfigKeys& keys, std::string_view name, HfQuantisation& out) {
  std::string_view shown;
  const Json* found = keys.find({name}, shown);
  if (found == nullptr) return {};
  QR_TRY(std::tie(out.scale_rows, out.scale_columns), read_extents(found, keys.label(shown)));
  return {};
}

Result<std::optional<HfQuantisation>> read_quantisation(const std::string& folder, const Json& config) {
  const Json* text = config.find("text_config");
  for (const Json* json : {text, &config}) {
    const Json* found = json != nullptr ? json->find("quantization_config") : nullptr;
    if (found == nullptr || found->is_null()) continue;
    if (found->as_object() == nullptr) {
      return fail(Code::corrupt,
                  "config.json: key \"quantization_config\": must be an object, is " + value_text(*found));
    }
    return read_keys(ConfigKeys(*found, "config.json: key \"quantization_config."), "");
  }
  for (const auto& [name, method] : {std::pair{"quantize_config.json", "gptq"},
                                     {"quant_config.json", "awq"},
                                     {"hf_quant_config.json", "modelopt"}}) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(std::filesystem::path(folder) / name, ignored)) continue;
    QR_TRY(const Json json, read_folder_json(folder, name, kMaxConfigBytes));
    if (json.as_object() == nullptr) return fail(Code::corrupt, std::string(name) + ": must be a JSON object");
    return read_keys(ConfigKeys(json, std::string(name) + ": key \""), method);
  }
  return std::optional<HfQuantisation>();
}

std::optional<int64_t> quantised_numbers(const HfQuantisation& how, const SafeTensor& tensor) {
  const QuantisedKind& kind = *how.kind;
  if (is_numbers(kind, tensor)) {
    int64_t n = kind.numbers_of(how);
    for (const int64_t extent : tensor.shape) n *= extent;
    return n;
  }
  const auto ends = [&](std::string_view part) { return tensor.name.ends_with(part); };
  if (std::ranges::any_of(kind.others, ends) || std::ranges::any_of(kind.passed_over, ends)) return 0;
  return std::nullopt;
}

Status take_quantised(const HfQuantisation& how, std::vector<TensorFile>& shards, ModelFile& out) {
  const QuantisedKind& kind = *how.kind;
  TensorPlaces places;
  for (const TensorFile& shard : shards) {
    for (const SafeTensor& tensor : shard.tensors) places.insert_or_assign(tensor.name, TensorPlace{&shard, &tensor});
  }
  std::set<std::string, std::less<>> taken;
  for (const auto& [tensor, place] : places) {
    if (!is_numbers(kind, *place.tensor)) continue;
    const std::string name = tensor.substr(0, tensor.size() - kind.numbers.size());
    QR_TRY(out.tensors.emplace_back(), kind.assemble(how, places, name));
    taken.insert(tensor);
    for (const auto* parts : {&kind.others, &kind.passed_over}) {
      for (const std::string_view part : *parts) taken.insert(name + std::string(part));
    }
  }
  QR_TRY_VOID(check_left(kind, places, taken));
  for (TensorFile& shard : shards) {
    std::erase_if(shard.tensors, [&](const SafeTensor& tensor) { return taken.contains(tensor.name); });
  }
  return {};
}

}  // namespace quire
