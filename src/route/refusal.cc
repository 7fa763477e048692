#include "route/refusal.h"

#include <algorithm>
#include <string>
namespace quire {

HttpHeaders retry_after(const KeyRefusal& refusal) {
  if (refusal.error.status != 429 && refusal.error.status != 503) return {};
  return {{"Retry-After", std::to_string(std::max<int64_t>(1, refusal.retry_after_s))}};
}

HttpError unknown_model(std::string_view name, std::string_view where) {
  return {404, "the model '" + shown(name) + "' is not " + std::string(where) + "; /v1/models lists what there is",
          "not_found_error", "model", "model_not_found"};
}

HttpError stopping() { return {503, "the router is shutting down", "server_error", "", "shutting_down"}; }

}  // namespace quire
