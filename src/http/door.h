// A listening address as its clients see it: what may not ask is refused, the rest is routed.
#pragma once
#include <functional>
#include <string_view>
#include <utility>

#include "http/guard.h"
#include "http/router.h"

namespace quire {

struct AdminRoute {
  std::string_view method, path;
  Router::Route route;
};

class Door final : public Handler {
 public:
  // Told the code of what is refused here. On io threads.
  using Refused = std::function<void(std::string_view code)>;
  Door(GuardOptions guard, Refused refused) : guard_(std::move(guard)), refused_(std::move(refused)) {}
  Verdict judge(const HttpRequest& head) override;
  Router& router() { return router_; }

 private:
  const Guard guard_;
  const Refused refused_;
  Router router_;
};

// A body whose Content-Type is not taken.
HttpError wrong_media_type();

// What is the operator's: at the operator's door; where there is none (`own_admin_address` false) also at the other
// one, for clients of this machine only.
void add_admin_route(Door& door, Door& admin_door, bool own_admin_address, const AdminRoute& route);

}  // namespace quire
