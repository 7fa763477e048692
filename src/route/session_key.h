// Which session a request belongs to, and what it asks of the fleet. Names of sessions are hashes under the tenant's,
// so no tenant can be sent where another's session is by guessing its name. Pure.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/sha256.h"
#include "http/message.h"
#include "route/asked.h"
#include "route/fleet.h"

namespace quire {

// Of a key's hash; never 0, which is for none.
uint64_t tenant_of(const Sha256& key);

// Names of what lives at one worker alone.
Hash128 session_of(uint64_t tenant, std::string_view kind, std::string_view name);
inline constexpr std::string_view kResponseKind = "response", kStreamKind = "stream";

// By what the path names, else previous_response_id, prompt_cache_key, X-Session-Id, user; without any of them there is
// no session, and the key is of the prompt's beginning. `base`: the model in whose name that beginning is known, where
// it is not the one that is asked for.
RouteAsk route_ask(const HttpRequest& request, const Asked& asked, uint64_t tenant, const std::string& base = "");

}  // namespace quire
