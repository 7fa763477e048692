#include "serve/ollama.h"

#include "base/json.h"

namespace quire {

std::string ollama_error(const HttpError& error) {
  std::string out = "{\"error\":";
  append_json_string(out, error.message);
  return out + "}";
}

std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

}  // namespace quire
