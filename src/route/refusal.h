// What the router itself says where it refuses a request. One text for one cause. Pure.
#pragma once
#include <string_view>

#include "http/keys.h"
#include "http/message.h"

namespace quire {

// Retry-After: at least a second; no field where asking again later is no help.
HttpHeaders retry_after(const KeyRefusal& refusal);

// `where`: "here", or "on this machine" where other workers' models are of no use.
HttpError unknown_model(std::string_view name, std::string_view where);
HttpError stopping();

}  // namespace quire
