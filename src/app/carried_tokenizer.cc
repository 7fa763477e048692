#include "app/carried_tokenizer.h"

#include "base/log.h"
#include "text/ggml_tables.h"

namespace quire {
namespace {

constexpr std::string_view kJsonKey = "tokenizer.huggingface.json", kJsonFile = "tokenizer.json";
constexpr std::string_view kPrefix = "tokenizer.quire.";

// What a file holds under a key: a text, or bytes as numbers.
bool bytes_of(const MetaValue& value, std::string& out) {
  if (const auto* text = std::get_if<std::string>(&value)) out = *text;
  const auto* numbers = std::get_if<std::vector<int64_t>>(&value);
  if (numbers == nullptr) return !out.empty();
  for (const int64_t v : *numbers) out.push_back(static_cast<char>(v));
  return true;
}

void put_tokenizer_files(const TokenizerFiles& files, GgufWriter& writer) {
  for (const auto& [name, bytes] : files) {
    const std::string key = name == kJsonFile ? std::string(kJsonKey) : std::string(kPrefix) + name;
    if (name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".jinja")) {
      writer.add_string(key, bytes);
    } else {
      writer.add_bytes(key, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    }
  }
}

void put_tables(const TokenizerSpec& spec, GgufWriter& writer) {
  const auto key = [](std::string_view name) { return "tokenizer.ggml." + std::string(name); };
  writer.add_string(key("model"), spec.model);
  writer.add_string(key("pre"), spec.pre.empty() ? "default" : spec.pre);
  writer.add_strings(key("tokens"), spec.tokens);
  if (!spec.scores.empty()) writer.add_f32s(key("scores"), spec.scores);
  std::vector<int32_t> types;
  types.reserve(spec.types.size());
  for (const TokenType type : spec.types) types.push_back(static_cast<int32_t>(type));
  writer.add_i32s(key("token_type"), types);
  if (!spec.merges.empty()) writer.add_strings(key("merges"), spec.merges);
  for (const auto& [name, id] : {std::pair{"bos", spec.bos},
                                 {"eos", spec.eos},
                                 {"eot", spec.eot},
                                 {"unknown", spec.unk},
                                 {"padding", spec.pad}}) {
    if (id >= 0) writer.add_u32(key(name) + "_token_id", static_cast<uint32_t>(id));
  }
  writer.add_bool(key("add_bos_token"), spec.add_bos);
  writer.add_bool(key("add_eos_token"), spec.add_eos);
  writer.add_bool(key("add_space_prefix"), spec.add_space_prefix);
  if (spec.remove_extra_whitespaces) writer.add_bool(key("remove_extra_whitespaces"), true);
  if (!spec.precompiled_charsmap.empty()) {
    const std::string& map = spec.precompiled_charsmap;
    writer.add_bytes(key("precompiled_charsmap"), {reinterpret_cast<const uint8_t*>(map.data()), map.size()});
  }
  if (!spec.chat_template.empty()) writer.add_string("tokenizer.chat_template", spec.chat_template);
}

}  // namespace

Status put_tokenizer(const TokenizerFiles& files, int n_vocab, GgufWriter& writer) {
  put_tokenizer_files(files, writer);
  QR_TRY(const std::unique_ptr<Tokenizer> tokenizer, load_tokenizer(files));
  auto tables = ggml_tables(files, *tokenizer, n_vocab);
  if (tables) {
    put_tables(*tables, writer);
  } else {
    log_warn("the file's tokenizer is one that only Quire reads: " + tables.error().message);
  }
  return {};
}

TokenizerFiles tokenizer_files_in(const Metadata& meta) {
  TokenizerFiles out;
  std::string bytes;
  for (const auto& [key, value] : meta.values) {
    const bool is_json = key == kJsonKey;
    if (!is_json && !key.starts_with(kPrefix)) continue;
    bytes.clear();
    if (bytes_of(value, bytes)) out[is_json ? std::string(kJsonFile) : key.substr(kPrefix.size())] = bytes;
  }
  return out;
}

}  // namespace quire
