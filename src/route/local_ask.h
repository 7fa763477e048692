// Which local engine a request is for, and how long it wants it to stay: by the name in its body or its query, by where
// what it goes on from lives, or because there is only one. Pure but for what it asks of engines and fleet.
#pragma once
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "http/message.h"
#include "route/asked.h"
#include "route/context.h"

namespace quire {

struct LocalAsk {
  std::optional<size_t> model;  // none: it is other workers'
  int64_t keep_alive_ms = -1;   // −1: not said
  bool unloads = false;         // it asks for no answer, and that the engine goes
};

// REQUIRES context.engines. Fails naming the field: no model where there are several, one that is nobody's, a
// keep_alive that is no time.
tl::expected<LocalAsk, HttpError> read_local_ask(const HttpRequest& request,
                                                 const Asked& asked,
                                                 const RouteAsk& ask,
                                                 const RouteContext& context);

}  // namespace quire
