// For this room's tests only: what it is like for a server to get no processor.
#pragma once
#include <functional>
#include <future>
#include <memory>

#include "base/clock.h"
#include "http/clocked_server.h"

namespace quire {

// The server's one io thread hears nobody while `meanwhile` runs, and by then so much time has passed.
inline void starve(Server& server, ManualClock& clock, int64_t ns, const std::function<void()>& meanwhile) {
  struct Stretch {
    std::promise<void> begun, over;
    std::future<void> has_begun = begun.get_future(), is_over = over.get_future();
  };
  const auto stretch = std::make_shared<Stretch>();  // each side may be the last to use it
  server.post([stretch, &clock, ns] {
    stretch->begun.set_value();
    stretch->is_over.wait();
    clock.advance_ns(ns);
  });
  stretch->has_begun.wait();
  meanwhile();
  stretch->over.set_value();
}

}  // namespace quire
