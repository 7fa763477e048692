// What the router answers by itself and what it passes on: the table of paths, the keys, and the operator's pages. Only
// paths that are listed here reach a worker, so what is a worker's operator's stays there. Io threads, but for drain().
#pragma once
#include <atomic>

#include "http/door.h"
#include "http/door_options.h"
#include "http/keys.h"
#include "route/context.h"
#include "route/proxied.h"

namespace quire {

class Front {
 public:
  // `context` and `metrics` outlive it.
  Front(RouteContext& context, Metrics& metrics, const DoorOptions& options);

  Handler& door() { return door_; }
  Handler& admin_door() { return admin_door_; }
  // From now on requests that would be passed on get 503 with Retry-After.
  void drain() { draining_ = true; }

 private:
  enum class Scope : uint8_t { open, inference, admin };

  void add(std::string_view method, std::string_view path, Scope scope, Verdict::Answer answer);
  void add_passed_on();
  void add_own();
  void add_engines();
  void add_posted(std::string_view path, Verdict::Answer answer);
  void change_engine(const HttpRequest& request, const ReplyPtr& reply, bool load) const;
  void show_model(HttpRequest&& request, ReplyPtr reply, const Verdict& passed) const;
  Json::Array all_models() const;
  Verdict judge(Scope scope, const HttpRequest& head, const Verdict::Answer& answer);
  Verdict pass_on(Scope scope, const HttpRequest& head);
  std::optional<KeyRefusal> check_key(Scope scope, const HttpRequest& head, RouteAsker& asker) const;
  void ready(const ReplyPtr& reply) const;
  void models(const HttpRequest& request, const ReplyPtr& reply) const;
  void tags(const ReplyPtr& reply) const;
  void workers(const ReplyPtr& reply) const;
  void metrics(const ReplyPtr& reply);

  RouteContext& context_;
  Metrics& metrics_;
  const KeyRing keys_;
  const bool own_admin_address_;
  std::atomic<bool> draining_{false};
  Door door_, admin_door_;
};

}  // namespace quire
