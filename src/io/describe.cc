#include "io/describe.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/bounded_reader.h"
#include "base/mmap.h"
#include "io/ggml_types.h"
#include "io/gguf.h"
#include "io/hf_config.h"
#include "io/hf_folder.h"
#include "io/hf_quantisation.h"
#include "io/in_quotes.h"
#include "io/tokenizer_meta.h"

namespace quire {
namespace {

constexpr std::string_view kTokenizerPrefix = "tokenizer.";

Json fact_json(const MetaValue& value) {
  if (const auto* v = std::get_if<bool>(&value)) return *v;
  if (const auto* v = std::get_if<int64_t>(&value)) return *v;
  if (const auto* v = std::get_if<uint64_t>(&value)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<double>(&value)) return *v;
  if (const auto* v = std::get_if<std::string>(&value)) return *v;
  Json length;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) length.set("length", static_cast<int64_t>(v->size()));
  if (const auto* v = std::get_if<std::vector<double>>(&value)) length.set("length", static_cast<int64_t>(v->size()));
  if (const auto* v = std::get_if<std::vector<std::string>>(&value)) {
    length.set("length", static_cast<int64_t>(v->size()));
  }
  return length;
}

// A stored tensor, whatever the container.
struct Stored {
  std::string type;
  bool supported = false;
  int64_t n_params = 0, bytes = 0;
};

int64_t n_elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

std::vector<Stored> stored(const std::vector<GgufTensor>& tensors) {
  std::vector<Stored> out;
  out.reserve(tensors.size());
  for (const GgufTensor& t : tensors) {
    out.push_back({std::string(find_ggml_type(t.type)->name), find_weight_format(t.type) != nullptr,
                   n_elements(t.shape), t.bytes});
  }
  return out;
}

// Of a quantised folder's words every number is a parameter; zeros, scales and orders beside them are none.
std::vector<Stored> stored(const std::vector<SafeTensor>& tensors, const std::optional<HfQuantisation>& quantised) {
  std::vector<Stored> out;
  for (const SafeTensor& t : tensors) {
    const bool is_float = t.dtype == "F32" || t.dtype == "F16" || t.dtype == "BF16";
    Stored& one = out.emplace_back(Stored{t.dtype, is_float, n_elements(t.shape), t.bytes});
    const std::optional<int64_t> n = quantised ? quantised_numbers(*quantised, t) : std::nullopt;
    if (!n) continue;
    one.supported = true;
    one.n_params = *n;
  }
  return out;
}

struct Sum {
  bool supported = false;
  int64_t n_tensors = 0, n_params = 0, bytes = 0;
};

Json sum_json(const std::string& type, const Sum& sum) {
  Json json;
  json.set("type", type);
  json.set("supported", sum.supported);
  json.set("n_tensors", sum.n_tensors);
  json.set("n_params", sum.n_params);
  json.set("bytes", sum.bytes);
  return json;
}

void describe_weights(const std::vector<Stored>& tensors, Json& out) {
  std::map<std::string, Sum> by_type;
  Sum all;
  for (const Stored& tensor : tensors) {
    for (Sum* sum : {&by_type[tensor.type], &all}) {
      sum->supported = tensor.supported;
      sum->n_tensors += 1;
      sum->n_params += tensor.n_params;
      sum->bytes += tensor.bytes;
    }
  }
  std::vector<std::pair<std::string, Sum>> sorted(by_type.begin(), by_type.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  Json::Array types;
  for (const auto& [type, sum] : sorted) types.push_back(sum_json(type, sum));
  Json weights;
  weights.set("n_tensors", all.n_tensors);
  weights.set("bytes", all.bytes);
  weights.set("types", std::move(types));
  out.set("n_params", all.n_params);
  out.set("weights", std::move(weights));
}

Json token_kinds(const TokenizerSpec& spec) {
  constexpr std::array<const char*, 7> kNames = {"", "normal", "unknown", "control", "user_defined", "unused", "byte"};
  std::array<int64_t, kNames.size()> counts{};
  if (spec.types.empty()) counts[1] = static_cast<int64_t>(spec.tokens.size());
  for (const TokenType type : spec.types) ++counts[static_cast<size_t>(type)];
  Json json(Json::Object{});
  for (size_t i = 1; i < counts.size(); ++i) {
    if (counts[i] > 0) json.set(kNames[i], counts[i]);
  }
  return json;
}

Json tokenizer_json(const TokenizerSpec& spec) {
  Json json;
  json.set("model", spec.model);
  if (!spec.pre.empty()) json.set("pre", spec.pre);
  json.set("n_tokens", static_cast<int64_t>(spec.tokens.size()));
  json.set("n_merges", static_cast<int64_t>(spec.merges.size()));
  json.set("kinds", token_kinds(spec));
  const std::pair<const char*, Token> ids[] = {{"bos", spec.bos}, {"eos", spec.eos},  {"eot", spec.eot},
                                               {"unk", spec.unk}, {"sep", spec.sep},  {"pad", spec.pad},
                                               {"cls", spec.cls}, {"mask", spec.mask}};
  for (const auto& [name, id] : ids) {
    if (id < 0) continue;
    Json token;
    token.set("id", int64_t{id});
    token.set("text", spec.tokens[static_cast<size_t>(id)]);
    json.set(name, std::move(token));
  }
  if (!spec.bos_by_name) json.set("add_bos", spec.add_bos);
  json.set("add_eos", spec.add_eos);
  json.set("add_space_prefix", spec.add_space_prefix);
  json.set("chat_template_bytes", static_cast<int64_t>(spec.chat_template.size()));
  return json;
}

void describe_tokenizer(Metadata& meta, Json& out) {
  if (meta.find("tokenizer.ggml.model") == nullptr) return;
  const auto spec = read_tokenizer(meta);
  Json json;
  if (spec) {
    json = tokenizer_json(*spec);
  } else {
    json.set("error", spec.error().message);
  }
  out.set("tokenizer", std::move(json));
}

void describe_facts(const Metadata& meta, const std::string& arch, Json& out) {
  Json hyper(Json::Object{});
  Json facts(Json::Object{});
  for (const auto& [key, value] : meta.values) {
    if (key.starts_with(kTokenizerPrefix) || key == "general.architecture" || key == "general.name") continue;
    if (!arch.empty() && key.starts_with(arch + ".")) {
      hyper.set(key.substr(arch.size() + 1), fact_json(value));
    } else {
      facts.set(key, fact_json(value));
    }
  }
  out.set("hyper", std::move(hyper));
  out.set("facts", std::move(facts));
}

// A fact's text if it is one; whether it must be is not this file's to say.
std::string text_of(const Metadata& meta, std::string_view key) {
  const MetaValue* value = meta.find(key);
  const auto* text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
  return text != nullptr ? *text : std::string();
}

Json header_json(GgufHeader header, const MappedFile& map) {
  const std::string arch = text_of(header.meta, "general.architecture");
  const std::string name = text_of(header.meta, "general.name");
  Json out;
  out.set("path", map.path());
  out.set("container", "GGUF v" + std::to_string(header.version));
  out.set("file_bytes", map.size());
  out.set("alignment", static_cast<int64_t>(header.alignment));
  if (!arch.empty()) out.set("arch", arch);
  if (!name.empty()) out.set("name", name);
  describe_weights(stored(header.tensors), out);
  describe_facts(header.meta, arch, out);
  describe_tokenizer(header.meta, out);
  return out;
}

// config.json's members are the hyper-parameters, what else the folder says are facts.
Result<Json> describe_hf(const std::string& path) {
  QR_TRY(const ModelFile folder, open_hf_metadata(path));
  QR_TRY(const std::vector<SafeTensor> tensors, list_hf_tensors(path));
  int64_t file_bytes = 0;
  for (const SafeTensor& tensor : tensors) file_bytes += tensor.bytes;
  Json out;
  out.set("path", path);
  out.set("container", folder.container);
  out.set("file_bytes", file_bytes);
  const std::string arch = text_of(folder.meta, "hf.model_type");
  if (!arch.empty()) out.set("arch", arch);
  QR_TRY(const Json config, read_folder_json(path, "config.json", kMaxConfigBytes));
  const auto quantised = read_quantisation(path, config);  // folders that are not supported are described too
  describe_weights(stored(tensors, quantised ? *quantised : std::nullopt), out);
  Json hyper(Json::Object{});
  Json facts(Json::Object{});
  for (const auto& [key, value] : folder.meta.values) {
    if (key.starts_with(kHfPrefix)) {
      hyper.set(key.substr(kHfPrefix.size()), fact_json(value));
    } else {
      facts.set("generation." + key.substr(kHfGenerationPrefix.size()), fact_json(value));
    }
  }
  out.set("hyper", std::move(hyper));
  out.set("facts", std::move(facts));
  return out;
}

std::string with_mib(int64_t bytes) {
  const int64_t tenths = (bytes * 10 + (1 << 19)) >> 20;
  return std::to_string(bytes) + " bytes (" + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB)";
}

// A value on one line; objects as their members.
std::string value_text(const Json& value) {
  const Json::Object* members = value.as_object();
  if (members == nullptr) return value.dump();
  std::string out;
  for (const auto& [key, member] : *members) out += (out.empty() ? "" : ", ") + key + " " + member.dump();
  return out;
}

void append_line(std::string& out, std::string_view name, const std::string& value) {
  constexpr size_t kColumn = 34;
  constexpr size_t kMaxValueBytes = 200;
  out += name;
  out.append(name.size() < kColumn ? kColumn - name.size() : 1, ' ');
  size_t end = std::min(value.size(), kMaxValueBytes);
  while (end < value.size() && (static_cast<unsigned char>(value[end]) & 0xc0U) == 0x80U) --end;  // whole code points
  out += value.substr(0, end) + (end < value.size() ? "…" : "");
  out += '\n';
}

void append_section(std::string& out, const Json& description, std::string_view section) {
  const Json* json = description.find(section);
  if (json == nullptr || json->as_object() == nullptr || json->as_object()->empty()) return;
  out += std::string(section) + "\n";
  for (const auto& [key, value] : *json->as_object()) {
    std::string shown;  // keys are the file's text too
    append_json_string(shown, key);
    append_line(out, "  " + shown.substr(1, shown.size() - 2), value_text(value));
  }
}

void append_weights(std::string& out, const Json& weights) {
  append_line(out, "tensors", weights.find("n_tensors")->dump());
  append_line(out, "weights as stored", with_mib(*weights.find("bytes")->as_int()));
  for (const Json& type : *weights.find("types")->as_array()) {
    const bool supported = *type.find("supported")->as_bool();
    append_line(out, "  " + *type.find("type")->as_string() + (supported ? "" : " (not supported)"),
                type.find("n_tensors")->dump() + " tensors, " + type.find("n_params")->dump() + " parameters, " +
                    with_mib(*type.find("bytes")->as_int()));
  }
}

}  // namespace

Result<Json> describe_model(const std::string& path) {
  if (is_hf_folder(path)) return describe_hf(path);
  QR_TRY(const auto map, MappedFile::open(path));
  auto header = parse_gguf(map->bytes(), GgufParts::all);
  QR_TRY_VOID(map->check_unchanged());
  if (!header) return error_within(path, std::move(header).error());
  return header_json(std::move(*header), *map);
}

std::string describe_text(const Json& description) {
  std::string out;
  for (const char* key : {"path", "container", "arch", "name", "n_params"}) {
    if (const Json* value = description.find(key)) append_line(out, key, value->dump());
  }
  append_line(out, "file", with_mib(*description.find("file_bytes")->as_int()));
  append_weights(out, *description.find("weights"));
  for (const char* section : {"hyper", "tokenizer", "facts"}) append_section(out, description, section);
  return out;
}

}  // namespace quire
