// A request's model where that is a local engine's: it waits until the engine is there, and holds it until it is
// answered.
#include <algorithm>
#include <ctime>
#include <utility>

#include "base/nanoseconds.h"
#include "base/utc_time.h"
#include "route/local_ask.h"
#include "route/proxied.h"

namespace quire {
namespace {

// What Ollama says when a model was only to go.
std::string unloaded(std::string_view path, const std::string& model) {
  Json::Object out{{"model", model}, {"created_at", utc_time(std::time(nullptr))}};
  if (path == "/api/chat")
    out.emplace_back("message", Json::Object{{"role", "assistant"}, {"content", ""}});
  else
    out.emplace_back("response", "");
  out.emplace_back("done", true);
  out.emplace_back("done_reason", "unload");
  return Json(std::move(out)).dump();
}

}  // namespace

// Whose model it is for. False: it is answered.
bool Proxied::find_engine(const Asked& asked) {
  if (context_.engines == nullptr) return true;
  const auto ask = read_local_ask(request_, asked, ask_, context_);
  if (!ask) {
    refuse(ask.error(), {});
    return false;
  }
  if (ask->unloads) {
    phase_ = Phase::over;
    context_.engines->unload(*ask->model);
    reply_->send(200, {{"Content-Type", "application/json"}},
                 unloaded(request_.path, context_.engines->name(*ask->model)));
    return false;
  }
  engine_ = ask->model;
  keep_alive_ms_ = ask->keep_alive_ms;
  if (engine_) {
    ask_.local = context_.engines->name(*engine_);
    ask_.model.clear();  // it is not looked for among what others list
  }
  // What it goes on from may be another's: then who has its model says that he knows nothing of it, and it stays there.
  if (ask_.pinned && context_.fleet->local_home(*ask_.session) != ask_.local) {
    ask_.key = std::exchange(ask_.session, std::nullopt)->lo;
    ask_.pinned = false;
  }
  return true;
}

// False: it waits for it, or is refused.
bool Proxied::enter_engine() {
  if (engine_lease_.holds()) return true;
  if (engine_lease_.waits()) return false;
  engine_lease_ = {};
  LocalEngines::Entered entered = context_.engines->enter(
      *engine_, keep_alive_ms_,
      [self = shared_from_this()](EngineTable::Ticket ticket, const LocalEngines::Refusal* refusal) {
        self->reply_->post([self, ticket, why = refusal != nullptr ? std::optional(*refusal) : std::nullopt] {
          if (self->phase_ != Phase::looking || self->engine_lease_.ticket() != ticket) return;
          if (why) return self->refuse_engine(*why);
          self->wait_anew();
          self->look();
        });
      });
  if (entered.refusal) {
    refuse_engine(*entered.refusal);
    return false;
  }
  engine_lease_ = std::move(entered.lease);
  if (entered.granted) wait_anew();
  return entered.granted;
}

void Proxied::wait_anew() { wait_until_ns_ = context_.clock.now_ns() + context_.limits.wait_ms * kNsPerMs; }

void Proxied::refuse_engine(const LocalEngines::Refusal& refusal) {
  context_.counters.no_worker.add();
  HttpHeaders extra;
  if (refusal.retry_ms > 0) extra.push_back({"Retry-After", std::to_string((refusal.retry_ms + 999) / 1000)});
  refuse({503, "the model '" + ask_.local + "' cannot be used now: " + refusal.why, "server_error", "model",
          "model_unavailable"},
         std::move(extra));
}

// An engine that ended before the first byte is started anew, once: nobody else has its model.
bool Proxied::may_ask_engine_again(UpstreamFault fault) {
  if (!engine_ || fault != UpstreamFault::cut || retried_ || !context_.retries.take()) return false;
  retried_ = true;
  context_.counters.retries.add();
  return true;
}

}  // namespace quire
