#include "serve/ollama.h"

namespace quire {

std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

}  // namespace quire
