// What a chat gets that does not say, beside how it is sampled (serve/sampling_defaults.h). One table for all dialects.
// Const while the server runs.
#pragma once
#include <cstdint>
#include <optional>

#include "base/json.h"

namespace quire {

struct ChatDefaults {
  std::optional<bool> think;     // the template's enable_thinking and thinking; none: as the template does
  int64_t thinking_tokens = -1;  // of models that think between two marks; -1: no bound
  Json kwargs = Json::Object{};  // further variables of the template; the request's go before them
  bool verbose = false;          // answers of OpenAI's chat show what was computed (__verbose)
};

}  // namespace quire
