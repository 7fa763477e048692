#include "app/carried_tokenizer.h"

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

}  // namespace

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
