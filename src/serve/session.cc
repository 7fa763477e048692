// See session.h. A reply that is full stops the draining, so tokens wait in the channels, which are bounded.
#include "serve/session.h"

#include <algorithm>
#include <limits>
#include <new>

#include "base/nanoseconds.h"
#include "sample/rules.h"
#include "serve/outcome.h"
#include "serve/public_prompts.h"
#include "serve/stop_rule.h"

namespace quire {
namespace {

constexpr int kWholeEvery = 64;  // a whole answer is looked at once in so many tokens: no wake-up per step for it

constexpr int64_t kTurnTokens = 4096;  // taken in one turn of the io thread, before the others have theirs

constexpr std::string_view kBudgetField = "kv_budget";  // that the engine names where it refuses it

constexpr int kClientGone = 499;  // nginx's status for it; never sent

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

HttpError shutdown_error() {
  return {503, "the server is shutting down", "server_error", "", std::string(kShuttingDown)};
}

HttpError too_much_told(const ServeLimits& limits, const Job& job) {
  return bad_field("handover.choices", "have " + std::to_string(told_tokens(job)) + " tokens: the limit is " +
                                           std::to_string(limits.unread_bytes / kToldTokenBytes) + " (unread_bytes, " +
                                           std::to_string(kToldTokenBytes) + " bytes each)");
}

HttpError too_many_answers(const AnswerBudget& answers) {
  return {503,
          "the answers that are being made hold " + std::to_string(answers.max_bytes()) +
              " bytes, which is the limit (answers_bytes)",
          "server_error", "", "answers_full"};
}

}  // namespace

Session::Session(const SessionContext& context, const Endpoint& endpoint, ReplyPtr reply, int64_t arrived_ns)
    : context_(context), endpoint_(endpoint), reply_(std::move(reply)), arrived_ns_(arrived_ns) {}
Session::~Session() {
  if (!late_trace_) return;
  try {
    add_sequences(*late_trace_);
    if (const auto tracer = late_tracer_.lock()) tracer->submit(std::move(*late_trace_));
  } catch (const std::bad_alloc&) {
    return;  // a trace less
  }
}

void Session::counted(int status) {
  int none = 0;
  if (status_.compare_exchange_strong(none, status)) context_.metrics->count_request(endpoint_.path, status);
}

void Session::answer(const Answer& answer, HttpHeaders headers) {
  held_.emplace(context_.answers, std::numeric_limits<int64_t>::max());  // its sizes have limits of their own
  const bool counts = !endpoint_.admin && !endpoint_.open;               // an operator hears about a full server
  if (counts && held_->take(static_cast<int64_t>(answer.body.size())) != HeldBytes::Taken::yes)
    return refuse_with(too_many_answers(*context_.answers));
  counted(answer.status);
  headers.insert(headers.end(), answer.headers.begin(), answer.headers.end());
  headers.push_back({"Content-Type", answer.content_type});
  reply_->send(answer.status, std::move(headers), answer.body);
}

void Session::set_origin(std::string id, std::string peer) {
  id_ = std::move(id);
  peer_ = std::move(peer);
  reply_->add_header("x-request-id", id_);
}

void Session::set_key(std::shared_ptr<KeyHolder> key, KeyLease lease) {
  key_ = std::move(key);
  lease_ = std::move(lease);
}

void Session::refuse_with(const HttpError& error, int64_t retry_after_s) {
  counted(error.status);
  context_.metrics->count_rejected(error.code);
  HttpHeaders extra;
  if (error.status == 429 || error.status == 503) {
    if (retry_after_s == 0) {
      const EngineStats stats = context_.engine->stats();
      retry_after_s =
          context_.load->retry_after_s(stats.queue_ns, stats.n_waiting + 1, context_.env->limits.max_retry_after_s);
    }
    extra.push_back({"Retry-After", std::to_string(retry_after_s)});
  }
  extra.push_back({"Content-Type", "application/json"});
  reply_->send(error.status, std::move(extra), endpoint_.error_text(error));
}

int Session::max_tokens(size_t prompt) const {
  const Generation& g = job_.generation;
  const int64_t room =
      context_.env->n_ctx - job_.generation.n_virtual() - static_cast<int64_t>(job_.prompts[prompt].size());
  return static_cast<int>(g.prompt_only ? 1 : g.max_tokens > 0 ? std::min(g.max_tokens, room) : room);
}

// What it asks for counts for its key until the reply ends.
std::optional<KeyRefusal> Session::take_from_key() {
  if (key_ == nullptr) return std::nullopt;
  const int64_t n_run = job_.generation.best_of;
  int64_t n_tokens = 0;
  for (size_t p = 0; p < job_.prompts.size(); ++p)
    n_tokens += n_run * (static_cast<int64_t>(job_.prompts[p].size()) + max_tokens(p));
  const std::lock_guard lock(lease_mu_);
  if (closed_) return std::nullopt;  // it counts for nothing any more
  return key_->take(static_cast<int64_t>(job_.prompts.size()) * n_run, n_tokens, lease_);
}

Request Session::make_request(const Choice& choice) const {
  const Generation& g = job_.generation;
  const size_t i = static_cast<size_t>(choice.index) % static_cast<size_t>(g.best_of);
  Request r;
  r.prompt = job_.prompts[choice.prompt];
  r.sampling = g.sampling;
  r.sampling.seed += i;
  r.sampling.n_prompt_logprobs = i == 0 ? std::max(g.sampling.n_prompt_logprobs, job_.n_echo_logprobs) : -1;
  if (g.best_of > g.n) r.sampling.n_logprobs = std::max(r.sampling.n_logprobs, 0);  // what they are ranked by
  r.match_prefix = g.match_prefix;
  r.pool = job_.pool;
  r.tells_progress = job_.tells_progress;
  r.pin = job_.pin;
  if (job_.explain) r.explain = std::make_unique<ExplainWish>(*job_.explain);
  if (job_.handover.goes_on && !job_.handover.anew)
    r.output = job_.handover.choices[static_cast<size_t>(choice.index)].output;
  r.max_tokens = max_tokens(choice.prompt);
  r.stop_ids = g.stop_ids;
  r.ignore_eos = g.ignore_eos;
  // A grammar says where an answer ends.
  const bool ends = !g.ignore_eos || g.sampling.constraint != nullptr;
  if (ends) r.stop_ids.insert(r.stop_ids.end(), context_.end_ids.begin(), context_.end_ids.end());
  r.cache_salt = g.cache_salt;
  if (g.prefix != nullptr) r.prefix = g.prefix->content;
  r.adapter = g.adapter;
  r.priority = g.priority;
  r.retention = retention_of(g.retention, static_cast<int>(r.prompt.size()));
  r.max_draft = g.max_draft;
  r.kv_budget = g.kv_budget;
  r.tenant = job_.tenant;
  if (key_ != nullptr) r.weight = key_->key().weight;
  if (!job_.handover.goes_on)  // otherwise its first token was in time
    r.deadline_ns = kNsPerMs * (g.deadline_ms > 0 || key_ == nullptr ? g.deadline_ms : key_->key().deadline_ms);
  if (context_.env->public_prompts != nullptr) r.n_public = context_.env->public_prompts->n_public(r.prompt);
  if (stops_ != nullptr)
    r.end = make_stop_rule(stops_, *context_.env->tokenizer, !g.skip_special, g.sampling.min_tokens);
  return r;
}

void Session::start(Job&& job) {
  const Generation& g = (job_ = std::move(job)).generation;
  std::vector<int> most_tokens;
  most_tokens.reserve(job_.prompts.size());
  for (size_t p = 0; p < job_.prompts.size(); ++p) most_tokens.push_back(max_tokens(p));
  if (const auto settled = settle_handover(*context_.env, most_tokens, job_); !settled)
    return refuse_with(settled.error());
  if (const auto refusal = take_from_key()) return refuse_with(refusal->error, refusal->retry_after_s);
  if (!g.stops.empty()) {
    auto stops = StopStrings::compile(g.stops);
    if (!stops) return refuse_with(to_http_error(stops.error(), "stop"));
    stops_ = std::make_shared<const StopStrings>(std::move(*stops));
  }
  if (context_.answers->full()) return refuse_with(too_many_answers(*context_.answers));
  const size_t n = job_.prompts.size() * static_cast<size_t>(g.best_of);
  const auto places = context_.engine->reserve(job_.tenant, static_cast<int>(n));  // before any of them takes memory
  if (!places) return refuse_with(to_http_error(places.error(), ""));
  const int64_t own = own_bytes(job_, n);
  held_.emplace(context_.answers, own + answer_limit(context_.env->limits, job_));
  if (held_->take(own) != HeldBytes::Taken::yes) return refuse_with(too_many_answers(*context_.answers));
  if (const auto taken = held_->take(told_tokens(job_) * kToldTokenBytes); taken != HeldBytes::Taken::yes)
    return refuse_with(taken == HeldBytes::Taken::all_full ? too_many_answers(*context_.answers)
                                                           : too_much_told(context_.env->limits, job_));
  ChoiceSetup setup;
  setup.held = &*held_;
  setup.ready = &ready_;
  setup.gathers = !job_.stream;
  setup.reply = reply_.get();
  setup.key = key_;
  setup.tokenizer = context_.env->tokenizer;
  setup.text = {stops_, g.include_stop, !g.skip_special,
                g.sampling.n_logprobs >= 0 || job_.want_ids || job_.handover.asked || job_.handover.goes_on,
                g.sampling.min_tokens};
  setup.prompt_only = g.prompt_only;
  setup.reasoning = job_.reasoning;
  setup.reasoning_open = job_.reasoning_open;
  setup.document = job_.document;
  setup.calls = job_.calls;
  setup.notify_every = job_.stream ? 1 : kWholeEvery;
  for (size_t i = 0; i < n; ++i) {
    setup.index = static_cast<int>(i);
    setup.prompt = i / static_cast<size_t>(g.best_of);
    setup.channel_bytes = context_.env->limits.channel_bytes + prompt_channel_bytes(setup.prompt);
    if (!job_.echo.empty()) setup.echo = job_.echo[setup.prompt];
    choices_.push_back(std::make_unique<Choice>(setup));
    ready_.push(*choices_.back());  // of an echo there is something to tell already
  }
  for (size_t i = 0; job_.handover.goes_on && i < n; ++i) {
    const ToldChoice& told = job_.handover.choices[i];
    if (told.any && job_.handover.anew)
      choices_[i]->say_again(told.output, told.told_bytes);
    else if (told.any && !choices_[i]->go_on_behind(told.output, told.told_bytes))
      return refuse_with(bad_field(at_key(at_index("handover.choices", static_cast<int64_t>(i)), "tokens"),
                                   "are a whole answer: nothing is left to say"));
  }
  n_open_ = static_cast<int>(n);
  if (key_ != nullptr) key_->charge_prompt(n_prompt_tokens(job_));
  reply_->set_producer([weak = weak_from_this()](Reply& reply) {
    if (const auto self = weak.lock()) self->produce(reply);
  });
  submitted_ns_ = context_.clock->now_ns();
  context_.metrics->count_asked(g.best_of, max_tokens(0));
  started_ = true;
  if (!submit_all(*places)) return;
  submitted_ = true;
  reply_->notify();  // for tokens that came before
  reply_->flush();
}

bool Session::submit_all(const std::shared_ptr<QueuePlaces>& places) {
  for (const auto& choice : choices_) {
    if (closed_) return false;
    if (shutdown_) {
      refuse_with(shutdown_error());
      return false;
    }
    Request request = make_request(*choice);
    request.places = places;
    const auto id = context_.engine->submit(std::move(request), {shared_from_this(), choice.get()});
    if (!id) {
      cancel_all();
      const bool of_budget = id.error().message.starts_with(kBudgetField);
      const std::string_view field = of_budget ? kBudgetField : std::string_view(job_.prompt_field);
      refuse_with(to_http_error(id.error(), id.error().code == Code::invalid ? field : ""));
      return false;
    }
    choice->seq = *id;
    if (closed_ || shutdown_) context_.engine->cancel(*id);
  }
  return true;
}

void Session::fail_early(const HttpError& error) {
  if (started_) cancel_all();
  refuse_with(error);
}

void Session::cancel_all() {
  for (const auto& choice : choices_)
    if (const SeqId id = choice->seq; id != 0) context_.engine->cancel(id);
}

void Session::shut_down() {
  shutdown_ = true;
  if (started_) cancel_all();
  reply_->notify();
  reply_->flush();
}

void Session::on_closed(CloseReason reason) {
  closed_ = true;
  {
    const std::lock_guard lock(lease_mu_);
    const KeyLease gone = std::move(lease_);
  }
  if (started_) cancel_all();
  if (reason == CloseReason::client_gone) {
    context_.metrics->cancelled.add();
    if (started_) context_.metrics->aborted.add(static_cast<uint64_t>(n_open_));
  }
  if (reason == CloseReason::stalled) context_.metrics->stalled.add();
  try {
    tell_end(reason);
  } catch (const std::bad_alloc&) {
    return;  // a line of the log less
  }
}

void Session::tell_end(CloseReason reason) {
  counted(kClientGone);  // unless it was answered
  if (endpoint_.quick) return;
  RequestRecord what = record(reason);
  log_request(context_.env->request_log, what);
  if (context_.tracer != nullptr) trace(std::move(what));
}

// What is thrown here is memory that is not there: it ends this request and nobody else's.
void Session::produce(Reply& reply) {
  try {
    go_on(reply);
  } catch (const std::bad_alloc&) {
    fail_late(reply, out_of_memory());
  } catch (const std::exception&) {
    fail_late(reply, internal_error());
  }
}

// What was being written when it came is half an event. Where the end itself could not be said the connection is cut.
void Session::fail_late(Reply& reply, const HttpError& error) {
  if (over_) return reply.abort();
  pending_.resize(std::min(n_sound_, pending_.size()));
  fail(reply, error);
}

void Session::go_on(Reply& reply) {
  if (!submitted_ || over_) return;
  if (!flush_pending(reply)) {
    if (overflow() != Overflow::none) {
      context_.metrics->stalled.add();
      cancel_all();
      over_ = true;
      reply.abort();
    }
    return;
  }
  if (ending_) {
    over_ = true;
    return reply.end();
  }
  if (whole_) return write_whole(reply);
  // While the prompt is computed, nobody else could answer: what only this server knows is told at once.
  if (job_.handover.asked && !job_.handover.goes_on && !job_.handover.past.empty()) begin_stream(reply);
  take_ready();
  take_some(reply);
  if (shutdown_ && n_open_ > 0) failure_ = shutdown_error();
  if (failure_) return fail(reply, *failure_);
  if (!hand_.empty()) return reply.notify();
  if (n_open_ == 0 && !over_ && pending_.empty()) conclude(reply);
}

Overflow Session::overflow() const {
  for (const auto& c : choices_)
    if (const Overflow why = c->overflow(); why != Overflow::none) return why;
  return Overflow::none;
}

// By index, so that what one step has brought comes in that order.
void Session::take_ready() {
  const size_t n = hand_.size();
  Choice* next = ready_.take();
  while (next != nullptr) {
    Choice* c = next;
    next = ready_.leave(*c);
    if (!std::exchange(c->in_hand, true)) hand_.push_back(c);
  }
  const auto before = [](const Choice* x, const Choice* y) { return x->index < y->index; };
  std::sort(hand_.begin() + static_cast<std::ptrdiff_t>(n), hand_.end(), before);
}

// What fits a turn; the rest stays in hand.
void Session::take_some(Reply& reply) {
  const int64_t now = context_.clock->now_ns();
  size_t n_done = 0;
  int64_t n_tokens = 0;
  while (n_done < hand_.size() && !failure_ && pending_.size() < kTurnBytes && n_tokens < kTurnTokens) {
    Choice& c = *hand_[n_done];
    c.in_hand = false;
    if (!c.ended()) n_tokens += take(c, now);
    if (!failure_ && job_.stream) write_delta(reply, c);
    if (c.behind())
      c.in_hand = true;
    else
      ++n_done;
  }
  hand_.erase(hand_.begin(), hand_.begin() + static_cast<std::ptrdiff_t>(n_done));
  if (!failure_) flush_pending(reply);
}

// Takes some of what the engine left for one choice; returns how much work it was, in tokens.
int64_t Session::take(Choice& c, int64_t now_ns) {
  const int64_t n = c.take_tokens();
  if (n > 0) {
    observe_latency(n, c.last_ns, now_ns);
    c.last_ns = now_ns;
  }
  if (c.wants_cancel()) context_.engine->cancel(c.seq);
  switch (c.overflow()) {
    case Overflow::none:
      if (c.ended()) settle(c, now_ns);
      break;
    case Overflow::behind:
      context_.metrics->stalled.add();
      failure_ = HttpError{500, "the answer was made faster than it was read", "server_error", "", "stalled"};
      break;
    case Overflow::too_large:
      failure_ = HttpError{500,
                           "the answer holds more than " + std::to_string(answer_limit(context_.env->limits, job_)) +
                               " bytes, which is the limit (answer_bytes and unread_bytes)",
                           "server_error", "", "answer_too_large"};
      break;
    case Overflow::all_full: failure_ = too_many_answers(*context_.answers); break;
    case Overflow::no_memory: failure_ = out_of_memory(); break;
  }
  return std::max<int64_t>(n, c.behind() ? kTurnTokens / 4 : 1);
}

void Session::observe_latency(int64_t n_tokens, int64_t last_ns, int64_t now_ns) {
  if (first_token_ns_ == 0) first_token_ns_ = now_ns - arrived_ns_;
  if (last_ns == 0) return context_.metrics->first_token.observe(seconds(now_ns - arrived_ns_));
  if (!job_.stream) return;
  for (int64_t i = 0; i < n_tokens; ++i)
    context_.metrics->inter_token.observe(seconds(now_ns - last_ns) / static_cast<double>(n_tokens));
}

// The sequence is over: with what it ended, or what became of the request.
void Session::settle(Choice& c, int64_t now_ns) {
  --n_open_;
  if (c.finish() == Finish::error) {
    context_.metrics->failed.add();
    if (c.error() == kNoMemory || c.error() == kTooLate) {
      failure_ = c.error() == kTooLate ? too_late() : out_of_memory();
      return;
    }
    if (c.usage().n_pinned < 0) {
      failure_ = HttpError{400, "the prompt cannot be pinned: " + c.error(), "invalid_request_error", "", "pins_full"};
      return;
    }
    if (c.error().starts_with(kEndedByRules)) {
      failure_ = HttpError{400, c.error(), "invalid_request_error", "", "ended_by_rules"};
      return;
    }
    failure_ = HttpError{500, c.error().empty() ? "the model failed on this request" : c.error(), "server_error", "",
                         "generation_failed"};
  } else if (c.finish() == Finish::cancelled && !c.stopped()) {
    failure_ = shutdown_error();
  } else {
    context_.load->finished(now_ns);
    context_.metrics->count_finished(c.ending().reason, c.usage());
  }
}

// Room for a prompt's logprobs, which come by the step: their number is known, and bounded by the context.
int64_t Session::prompt_channel_bytes(size_t prompt) const {
  const int n_top = std::max(job_.generation.sampling.n_prompt_logprobs, job_.n_echo_logprobs);
  if (n_top < 0) return 0;
  return static_cast<int64_t>(job_.prompts[prompt].size() *
                              (sizeof(TokenEvent) + static_cast<size_t>(n_top) * sizeof(TopLogprob)));
}

}  // namespace quire
