#include "io/hf_quantisation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/bounded_reader.h"
#include "io/hf_config.h"
#include "io/in_quotes.h"
#include "io/shape_text.h"
#include "quant/f16.h"

namespace quire {
namespace {

constexpr int64_t kMostColumns = int64_t{1} << 20;

// What the parts of a weight are called behind its name.
struct PartNames {
  std::string_view numbers, zeros, scales, groups, shape;
  std::array<std::string_view, 5> all() const { return {numbers, zeros, scales, groups, shape}; }
};
constexpr PartNames kGptqParts{".qweight", ".qzeros", ".scales", ".g_idx", ""};
constexpr PartNames kRowsParts{".weight_packed", ".weight_zero_point", ".weight_scale", ".weight_g_idx",
                               ".weight_shape"};

const PartNames& names_of(GroupedParts::Layout layout) {
  return layout == GroupedParts::Layout::rows ? kRowsParts : kGptqParts;
}

std::string value_text(const Json& value) {
  return value.as_string() != nullptr ? in_quotes(*value.as_string()) : value.dump().substr(0, 80);
}

// The members of the configuration, each under the names that writers have given it.
class Keys {
 public:
  using Names = std::initializer_list<std::string_view>;

  Keys(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  // `shown`: the name that is there, or the first.
  const Json* find(Names names, std::string_view& shown) const {
    shown = *names.begin();
    for (const std::string_view name : names) {
      const Json* value = json_.find(name);
      if (value == nullptr || value->is_null()) continue;
      shown = name;
      return value;
    }
    return nullptr;
  }
  const Json::Object& members() const { return *json_.as_object(); }

  tl::unexpected<Error> unsupported(std::string_view key, const std::string& found, std::string_view supported) const {
    return fail(Code::unsupported,
                label(key) + ": " + found + " is not supported (supported: " + std::string(supported) + ")");
  }
  Result<int64_t> integer(Names names) const {
    std::string_view shown;
    const Json* value = find(names, shown);
    if (value == nullptr) return fail(Code::not_found, label(shown) + ": is missing");
    if (value->as_int() != nullptr) return *value->as_int();
    return fail(Code::corrupt, label(shown) + ": must be an integer, is " + value_text(*value));
  }
  Result<bool> boolean(std::string_view name, bool fallback) const {
    std::string_view shown;
    const Json* value = find({name}, shown);
    if (value == nullptr) return fallback;
    if (value->as_bool() != nullptr) return *value->as_bool();
    return fail(Code::corrupt, label(name) + ": must be a bool, is " + value_text(*value));
  }
  // Lower case; one of those that are supported.
  Result<std::string> text(Names names, std::string_view fallback, Names supported) const {
    std::string_view shown;
    const Json* value = find(names, shown);
    if (value == nullptr) return std::string(fallback);
    std::string known, found = value->as_string() != nullptr ? *value->as_string() : std::string();
    for (char& c : found) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    for (const std::string_view one : supported) {
      if (found == one) return found;
      known += (known.empty() ? "" : ", ") + std::string(one);
    }
    return unsupported(shown, value_text(*value), known);
  }
  // Of an object among the members.
  Keys inside(const Json& json, const std::string& name) const { return {json, where_ + name + "."}; }
  std::string label(std::string_view key) const { return where_ + std::string(key) + "\""; }

 private:
  const Json& json_;
  std::string where_;
};

// Of single modules: those that are left as they were are there as plain tensors.
Status check_modules(const Keys& keys) {
  std::string_view shown;
  if (const Json* dynamic = keys.find({"dynamic"}, shown)) {
    if (dynamic->as_object() == nullptr) return fail(Code::corrupt, keys.label(shown) + ": must be an object");
    for (const auto& [module, what] : *dynamic->as_object()) {
      if (!module.starts_with("-:")) return keys.unsupported(shown, in_quotes(module), "modules left out, \"-:…\"");
    }
  }
  if (const Json* kept = keys.find({"modules_to_not_convert"}, shown)) {
    const Json::Array* names = kept->as_array();
    const bool is_list =
        names != nullptr && std::ranges::all_of(*names, [](const Json& name) { return name.as_string() != nullptr; });
    if (!is_list) return fail(Code::corrupt, keys.label(shown) + ": must be a list of names");
  }
  return {};
}

Result<int64_t> group_of(const Keys& keys) {
  QR_TRY(const int64_t group, keys.integer({"group_size", "q_group_size"}));
  if (group == -1) return 0;
  if (group >= 1 && group <= kMostColumns) return group;
  return keys.unsupported("group_size", std::to_string(group), "-1 and 1 to " + std::to_string(kMostColumns));
}

Result<HfQuantisation> read_gptq(const Keys& keys) {
  HfQuantisation out;
  QR_TRY(const int64_t bits, keys.integer({"bits", "wbits", "w_bit"}));
  if (bits != 4 && bits != 8) return keys.unsupported("bits", std::to_string(bits), "4, 8");
  out.bits = static_cast<int>(bits);
  QR_TRY(out.group, group_of(keys));
  QR_TRY(const std::string format, keys.text({"checkpoint_format", "format"}, "gptq", {"gptq", "gptq_v2"}));
  out.zeros_less_one = format == "gptq";
  QR_TRY_VOID(keys.text({"pack_dtype"}, "int32", {"int32"}));
  QR_TRY(const bool is_marlin, keys.boolean("is_marlin_format", false));
  if (is_marlin) return keys.unsupported("is_marlin_format", "true", "false");
  QR_TRY(out.is_ordered, keys.boolean("desc_act", false));
  QR_TRY_VOID(keys.boolean("sym", true));
  QR_TRY_VOID(keys.boolean("lm_head", false));
  QR_TRY_VOID(check_modules(keys));
  return out;
}

Result<HfQuantisation> read_awq(const Keys& keys) {
  HfQuantisation out{.layout = GroupedParts::Layout::awq, .zeros_less_one = false};
  QR_TRY(const int64_t bits, keys.integer({"bits", "w_bit"}));
  if (bits != 4) return keys.unsupported("bits", std::to_string(bits), "4");
  QR_TRY(out.group, group_of(keys));
  QR_TRY_VOID(keys.text({"version", "checkpoint_format", "format"}, "gemm", {"gemm"}));
  QR_TRY_VOID(keys.text({"pack_dtype"}, "int32", {"int32"}));
  QR_TRY(const bool has_zeros, keys.boolean("zero_point", true));
  if (!has_zeros) return keys.unsupported("zero_point", "false", "true");
  QR_TRY_VOID(check_modules(keys));
  return out;
}

// What compressed-tensors says of the weights of the one group of modules that there may be.
Result<HfQuantisation> read_packed_weights(const Keys& keys) {
  HfQuantisation out{.layout = GroupedParts::Layout::rows, .zeros_less_one = false};
  QR_TRY(const int64_t bits, keys.integer({"num_bits"}));
  if (bits != 4 && bits != 8) return keys.unsupported("num_bits", std::to_string(bits), "4, 8");
  out.bits = static_cast<int>(bits);
  QR_TRY_VOID(keys.text({"type"}, "int", {"int"}));
  QR_TRY(const bool is_symmetric, keys.boolean("symmetric", true));
  out.has_zeros = !is_symmetric;
  QR_TRY(const std::string strategy, keys.text({"strategy"}, "group", {"group", "channel"}));
  if (strategy == "group") {
    QR_TRY(out.group, group_of(keys));
  }
  QR_TRY(const bool is_dynamic, keys.boolean("dynamic", false));
  if (is_dynamic) return keys.unsupported("dynamic", "true", "false");
  return out;
}

// Nothing but weights is quantised, and all in one way.
Status check_packed(const Keys& keys) {
  QR_TRY_VOID(keys.text({"format"}, "pack-quantized", {"pack-quantized"}));
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

Result<HfQuantisation> read_packed(const Keys& keys) {
  QR_TRY_VOID(check_packed(keys));
  std::string_view shown;
  const auto& [name, group] = keys.find({"config_groups"}, shown)->as_object()->front();
  const std::string label = "config_groups." + name;
  if (group.as_object() == nullptr) return fail(Code::corrupt, keys.label(label) + ": must be an object");
  const Keys scheme = keys.inside(group, label);
  for (const std::string_view other : {"input_activations", "output_activations"}) {
    if (scheme.find({other}, shown) != nullptr) return scheme.unsupported(other, "one", "none");
  }
  QR_TRY_VOID(scheme.text({"format"}, "pack-quantized", {"pack-quantized"}));
  const Json* weights = scheme.find({"weights"}, shown);
  if (weights == nullptr || weights->as_object() == nullptr) {
    return fail(Code::corrupt, scheme.label("weights") + ": must be an object");
  }
  return read_packed_weights(scheme.inside(*weights, "weights"));
}

Result<HfQuantisation> read_keys(const Keys& keys, std::string_view fallback) {
  std::string_view shown;
  if (fallback.empty() && keys.find({"quant_method", "method"}, shown) == nullptr) {
    return fail(Code::not_found, keys.label(shown) + ": is missing");
  }
  QR_TRY(const std::string method,
         keys.text({"quant_method", "method"}, fallback, {"gptq", "awq", "compressed-tensors"}));
  return method == "gptq" ? read_gptq(keys) : method == "awq" ? read_awq(keys) : read_packed(keys);
}

// The tensors of a folder by name.
struct Place {
  const TensorFile* file;
  const SafeTensor* tensor;
};
using Places = std::map<std::string, Place, std::less<>>;

std::string label(const Place& place) { return place.file->name + ": tensor " + in_quotes(place.tensor->name); }

std::span<const std::byte> bytes_of(const Place& place) {
  return place.file->map->bytes().subspan(static_cast<size_t>(place.tensor->offset),
                                          static_cast<size_t>(place.tensor->bytes));
}

// One of a weight's tensors. Empty shape: any of two dimensions.
Result<Place> part_of(const Places& places,
                      const std::string& name,
                      std::initializer_list<std::string_view> types,
                      const std::vector<int64_t>& shape,
                      const std::string& of) {
  const auto found = places.find(name);
  if (found == places.end()) {
    return fail(Code::not_found, of + ": " + in_quotes(name) + " is missing" +
                                     (shape.empty() ? "" : ", shape " + shape_text(shape) + " wanted"));
  }
  const SafeTensor& tensor = *found->second.tensor;
  if (std::ranges::find(types, tensor.dtype) == types.end()) {
    std::string known;
    for (const std::string_view type : types) known += (known.empty() ? "" : ", ") + std::string(type);
    return fail(Code::unsupported,
                label(found->second) + ": dtype " + tensor.dtype + " is not supported (supported: " + known + ")");
  }
  if (shape.empty() ? tensor.shape.size() != 2 : tensor.shape != shape) {
    return fail(Code::corrupt, label(found->second) + ": has shape " + shape_text(tensor.shape) + ", " +
                                   (shape.empty() ? "two dimensions" : shape_text(shape)) + " wanted");
  }
  return found->second;
}

Status check_finite(const Place& scales, const GroupedParts& parts) {
  for (int64_t i = 0; i < parts.n_groups * parts.n_out; ++i) {
    const int64_t group = i / parts.n_out, output = i % parts.n_out;
    const float scale = parts.scale(group, output);
    if (std::isfinite(scale)) continue;
    const bool by_rows = parts.layout == GroupedParts::Layout::rows;
    return fail(Code::corrupt, label(scales) + ": row " + std::to_string(by_rows ? output : group) + ", column " +
                                   std::to_string(by_rows ? group : output) + ": must be finite, is " +
                                   std::to_string(scale));
  }
  return {};
}

Result<std::vector<int32_t>> read_groups(const Place& groups, int64_t n_columns, int64_t n_groups) {
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(n_columns));
  const std::byte* at = bytes_of(groups).data();
  const bool is_wide = groups.tensor->dtype == "I64";
  for (int64_t i = 0; i < n_columns; ++i) {
    const int64_t group = is_wide ? load_as<int64_t>(at + i * 8) : load_as<int32_t>(at + i * 4);
    if (group < 0 || group >= n_groups) {
      return fail(Code::corrupt, label(groups) + ": number " + std::to_string(i) + ": must be a group in [0, " +
                                     std::to_string(n_groups - 1) + "], is " + std::to_string(group));
    }
    out.push_back(static_cast<int32_t>(group));
  }
  return out;
}

// The groups of a weight's columns, and the tensor that says so where there is one.
Status find_groups(const HfQuantisation& how,
                   const Places& places,
                   const Place& numbers,
                   const std::string& name,
                   GroupedParts& parts) {
  const std::string part = name + std::string(names_of(parts.layout).groups);
  if (parts.layout != GroupedParts::Layout::awq && (how.is_ordered || places.contains(part))) {
    QR_TRY(const Place groups, part_of(places, part, {"I32", "I64"}, {parts.n_in}, label(numbers)));
    QR_TRY(parts.group_of, read_groups(groups, parts.n_in, parts.n_groups));
    parts.stored_groups = bytes_of(groups);
    return {};
  }
  parts.group_of.resize(static_cast<size_t>(parts.n_in));
  for (int64_t i = 0; i < parts.n_in; ++i) {
    parts.group_of[static_cast<size_t>(i)] = static_cast<int32_t>(how.group == 0 ? 0 : i / how.group);
  }
  return {};
}

// Outputs and inputs of the weight that these numbers are.
Status find_sizes(const Places& places, const Place& numbers, const std::string& name, GroupedParts& parts) {
  const int64_t rows = numbers.tensor->shape[0], columns = numbers.tensor->shape[1];
  const bool is_gptq = parts.layout == GroupedParts::Layout::gptq, is_awq = parts.layout == GroupedParts::Layout::awq;
  const int64_t inputs = is_gptq || is_awq ? rows : columns;  // words, or columns
  parts.n_out = is_gptq || is_awq ? columns : rows;
  if (inputs > kMostColumns || inputs * (is_awq ? 1 : parts.per_word()) > kMostColumns) {
    return fail(Code::unsupported, label(numbers) + ": has shape " + shape_text(numbers.tensor->shape) + ", at most " +
                                       std::to_string(kMostColumns) + " inputs are taken");
  }
  parts.n_in = is_awq ? inputs : inputs * parts.per_word();
  if (is_awq) parts.n_out *= parts.per_word();
  if (is_gptq || is_awq) return {};
  const std::string part = name + std::string(kRowsParts.shape);
  QR_TRY(const Place shape, part_of(places, part, {"I64"}, {2}, label(numbers)));
  const std::byte* at = bytes_of(shape).data();
  const std::vector<int64_t> found = {load_as<int64_t>(at), load_as<int64_t>(at + 8)};
  if (found == std::vector<int64_t>{parts.n_out, parts.n_in}) return {};
  return fail(Code::corrupt,
              label(shape) + ": is " + shape_text(found) + ", " + shape_text({parts.n_out, parts.n_in}) + " wanted");
}

// `name`.weight of its tensors.
Result<HostWeight> assemble(const HfQuantisation& how, const Places& places, const std::string& name) {
  const PartNames& names = names_of(how.layout);
  const std::string packed = name + std::string(names.numbers);
  QR_TRY(const Place numbers, part_of(places, packed, {"I32", "U32"}, {}, in_quotes(packed)));
  GroupedParts parts;
  parts.layout = how.layout;
  parts.bits = how.bits;
  parts.zeros_less_one = how.zeros_less_one;
  QR_TRY_VOID(find_sizes(places, numbers, name, parts));
  parts.n_groups = how.group == 0 ? 1 : (parts.n_in + how.group - 1) / how.group;
  const std::string of = label(numbers);
  const auto shape = [&](int64_t outputs) {
    const bool by_rows = how.layout == GroupedParts::Layout::rows;
    return by_rows ? std::vector{outputs, parts.n_groups} : std::vector{parts.n_groups, outputs};
  };
  if (how.has_zeros) {
    const std::string part = name + std::string(names.zeros);
    QR_TRY(const Place zeros, part_of(places, part, {"I32", "U32"}, shape(parts.n_zero_words()), of));
    parts.zeros = bytes_of(zeros);
  }
  const std::string part = name + std::string(names.scales);
  QR_TRY(const Place scales, part_of(places, part, {"F16", "BF16", "F32"}, shape(parts.n_out), of));
  QR_TRY_VOID(find_groups(how, places, numbers, name, parts));
  parts.numbers = bytes_of(numbers);
  parts.scales = bytes_of(scales);
  const std::string& type = scales.tensor->dtype;
  parts.scale_format = find_weight_format(std::string_view(type == "F16" ? "f16" : type == "BF16" ? "bf16" : "f32"));
  QR_TRY_VOID(check_finite(scales, parts));
  return grouped_weight(name + ".weight", std::move(parts));
}

}  // namespace

Result<std::optional<HfQuantisation>> read_quantisation(const std::string& folder, const Json& config) {
  const Json* text = config.find("text_config");
  for (const Json* json : {text, &config}) {
    const Json* found = json != nullptr ? json->find("quantization_config") : nullptr;
    if (found == nullptr || found->is_null()) continue;
    if (found->as_object() == nullptr) {
      return fail(Code::corrupt, "config.json: key \"quantization_config\": must be an object");
    }
    return read_keys(Keys(*found, "config.json: key \"quantization_config."), "");
  }
  for (const auto& [name, method] : {std::pair{"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}}) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(std::filesystem::path(folder) / name, ignored)) continue;
    QR_TRY(const Json json, read_folder_json(folder, name, kMaxConfigBytes));
    if (json.as_object() == nullptr) return fail(Code::corrupt, std::string(name) + ": must be a JSON object");
    return read_keys(Keys(json, std::string(name) + ": key \""), method);
  }
  return std::optional<HfQuantisation>();
}

bool is_quantised_part(std::string_view tensor) {
  const auto ends = [&](std::string_view part) { return !part.empty() && tensor.ends_with(part); };
  return std::ranges::any_of(kGptqParts.all(), ends) || std::ranges::any_of(kRowsParts.all(), ends);
}

bool is_quantised_numbers(std::string_view tensor) {
  return tensor.ends_with(kGptqParts.numbers) || tensor.ends_with(kRowsParts.numbers);
}

Status take_quantised(const HfQuantisation& how, std::vector<TensorFile>& shards, ModelFile& out) {
  const PartNames& names = names_of(how.layout);
  Places places;
  for (const TensorFile& shard : shards) {
    for (const SafeTensor& tensor : shard.tensors) places.insert_or_assign(tensor.name, Place{&shard, &tensor});
  }
  std::set<std::string, std::less<>> taken;
  for (const auto& [tensor, place] : places) {
    if (!tensor.ends_with(names.numbers)) continue;
    const std::string name = tensor.substr(0, tensor.size() - names.numbers.size());
    QR_TRY(out.tensors.emplace_back(), assemble(how, places, name));
    for (const std::string_view part : names.all()) {
      if (!part.empty()) taken.insert(name + std::string(part));
    }
  }
  for (TensorFile& shard : shards) {
    std::erase_if(shard.tensors, [&](const SafeTensor& tensor) { return taken.contains(tensor.name); });
  }
  return {};
}

}  // namespace quire
