// What is told of a request when it is over: its line in the log, its trace. See session.h.
#include <algorithm>

#include "serve/api_error.h"
#include "serve/outcome.h"
#include "serve/session.h"

namespace quire {
RequestRecord Session::record(CloseReason reason) const {
  RequestRecord r;
  r.id = id_;
  r.endpoint = endpoint_.path;
  if (key_ != nullptr) r.key = key_->key().name;
  r.peer = peer_;
  r.status = status_;
  const bool broken_off = reason == CloseReason::finished && !broken_off_.empty();
  r.end = broken_off ? broken_off_ : close_reason_name(reason);
  if (started_) {
    const UsageTotals u = n_open_ == 0 ? usage_of(job_, choices_) : UsageTotals{};
    r.stream = job_.stream;
    r.n_choices = static_cast<int64_t>(choices_.size());
    r.n_prompt = n_prompt_tokens(job_);
    r.n_cached = u.n_cached;
    for (const auto& c : choices_) r.n_generated += c->n_tokens();
    const auto told = std::find_if(job_.headers.begin(), job_.headers.end(),
                                   [](const auto& header) { return header.name == kWarningHeader; });
    if (told != job_.headers.end()) r.warning = told->value;
    r.queue_ns = u.queued_ns;
    r.first_token_ns = first_token_ns_;
  }
  r.total_ns = context_.clock->now_ns() - arrived_ns_;
  return r;
}

void Session::trace(RequestRecord&& record) {
  RequestTrace t;
  t.parent = trace_parent_;
  t.method = endpoint_.method;
  t.model = context_.env->models.front();
  t.arrived_ns = arrived_ns_;
  t.ended_ns = arrived_ns_ + record.total_ns;
  t.request = std::move(record);
  if (!started_) return context_.tracer->submit(std::move(t));
  t.submitted_ns = submitted_ns_;
  const auto runs = [](const auto& c) { return c->seq != 0 && !c->finished(); };
  const bool waits = std::any_of(choices_.begin(), choices_.end(), runs);
  if (waits && !shutdown_) {  // at the end of the server nobody would send it
    late_trace_ = std::move(t);
    late_tracer_ = context_.tracer;
    return;
  }
  add_sequences(t);
  context_.tracer->submit(std::move(t));
}

// Those that the engine has ended.
void Session::add_sequences(RequestTrace& t) const {
  for (const auto& c : choices_) {
    if (!c->finished()) continue;
    const Usage& u = c->usage();
    const int64_t n_generated = c->ended() ? c->n_generated() : u.n_generated;
    t.sequences.push_back({u.queued_ns, u.first_token_ns, u.total_ns, u.n_prompt, u.n_cached, n_generated,
                           c->finish() == Finish::cancelled && !c->stopped()});
  }
}

std::optional<RequestLine> Session::line(int64_t now_ns) const {
  const RequestStage progress = progress_;
  if (progress == RequestStage::none) return std::nullopt;
  RequestLine out{id_, endpoint_.path, key_ != nullptr ? key_->key().name : "", now_ns - arrived_ns_, progress, {}};
  if (!started_) return out;
  out.progress = RequestStage::submitted;
  for (const auto& choice : choices_) out.sequences.push_back({choice->seq, choice->finished()});
  return out;
}

void Session::add_to(AdapterUse& use) const {
  if (!started_ || job_.generation.adapter == nullptr) return;
  for (const auto& choice : choices_)
    if (!choice->finished()) use.add(job_.generation.adapter_name, choice->seq);
}

}  // namespace quire
