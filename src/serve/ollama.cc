#include "serve/ollama.h"

#include <utility>

#include "base/json.h"
#include "base/utc_time.h"

namespace quire {
namespace {

// "1.2B", "815.0M", "260.0K": how its clients expect a size.
std::string short_count(int64_t n) {
  constexpr std::pair<int64_t, char> kUnits[] = {{1'000'000'000, 'B'}, {1'000'000, 'M'}, {1'000, 'K'}};
  for (const auto& [size, letter] : kUnits) {
    if (n < size) continue;
    const int64_t tenths = n / (size / 10);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + letter;
  }
  return std::to_string(n);
}

}  // namespace

std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

void append_ollama_details(std::string& out, const ModelCard& card) {
  out += "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":";
  append_json_string(out, card.architecture);
  out += ",\"families\":[";
  append_json_string(out, card.architecture);
  out += "],\"parameter_size\":\"" + short_count(card.n_parameters) + "\",\"quantization_level\":";
  std::string type = card.quantization;
  for (char& c : type)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  append_json_string(out, type);
  out += '}';
}

std::string ollama_show(const ModelCard& card, std::string_view chat, int64_t n_ctx, bool takes_tools) {
  std::string out = "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":";
  append_json_string(out, chat);
  out += ',';
  append_ollama_details(out, card);
  out += ",\"model_info\":{\"general.architecture\":";
  append_json_string(out, card.architecture);
  out += ",\"general.parameter_count\":" + std::to_string(card.n_parameters);
  if (n_ctx > 0) {
    out += ',';
    append_json_string(out, card.architecture + ".context_length");
    out += ':' + std::to_string(n_ctx);
  }
  out += "},\"capabilities\":[\"completion\"" + std::string(takes_tools ? ",\"tools\"" : "") + "],\"modified_at\":\"" +
         utc_time(card.modified_s) + "\"}";
  return out;
}

}  // namespace quire
