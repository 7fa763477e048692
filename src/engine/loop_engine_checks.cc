// What of a request can be refused before anything is computed, beside the limits (limits.h).
#include "engine/loop_engine.h"

namespace quire {

Status LoopEngine::check_pin(const Request& request, int n_virtual) const {
  if (request.pin.id == 0) return {};
  if (!options_.prefix_cache) return fail(Code::invalid, "nothing can be pinned: the prefix cache is off");
  if (env_.recorder != nullptr)
    return fail(Code::invalid, "nothing can be pinned: this run is recorded, and a recording holds no pins");
  if (pins_.limits().n_pins == 0)
    return fail(Code::invalid, "nothing can be pinned: no memory is set aside for it (pin_bytes is 0)");
  const int n = pins_.whole_tokens(n_virtual + static_cast<int>(request.prompt.size()));
  if (n <= n_virtual) {
    return fail(Code::invalid, "whole blocks of " + std::to_string(options_.block_tokens) +
                                   " tokens before the last token are pinned; the prompt of " +
                                   std::to_string(request.prompt.size()) + " tokens has none");
  }
  if (const std::string why = pins_.never_fits(n); !why.empty()) return fail(Code::invalid, why);
  return {};
}

Status LoopEngine::check_explain(const Request& request) const {
  if (request.explain == nullptr) return {};
  if (!options_.prefix_cache) return fail(Code::invalid, "nothing can be explained: the prefix cache is off");
  if (env_.recorder != nullptr)
    return fail(Code::invalid, "nothing can be explained: this run is recorded, and a recording holds no explanations");
  if (request.pin.id != 0) return fail(Code::invalid, "a request is explained or pinned, not both");
  const auto n = static_cast<int>(request.explain->others.size());
  if (n <= kMostOtherRoots) return {};
  return fail(Code::invalid, std::to_string(n) + " other adapters and salts are to be looked at: the limit is " +
                                 std::to_string(kMostOtherRoots));
}

}  // namespace quire
