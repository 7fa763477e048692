#include "serve/api.h"

namespace quire {

std::string_view finish_name(FinishReason reason) { return reason == FinishReason::stop ? "stop" : "length"; }

}  // namespace quire
