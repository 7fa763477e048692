#include "route/proxied.h"

#include <algorithm>
#include <charconv>

#include "base/nanoseconds.h"
#include "route/refusal.h"
#include "route/session_key.h"

namespace quire {
namespace {

constexpr size_t kMostTried = 4;         // workers that could not be reached cost no retry, but are counted too
constexpr size_t kLearnBytes = 4 << 10;  // of an answer, in which its name stands
constexpr std::string_view kWorkerHeader = "x-quire-worker", kReasonHeader = "x-quire-route",
                           kSaltHeader = "x-quire-cache-salt";

// Fields that are made anew, or are of the client's connection with us.
bool is_replaced(std::string_view name, bool own_key) {
  static constexpr std::string_view kReplaced[] = {"host",          "content-length",  "expect",
                                                   "origin",        "x-forwarded-for", "x-quire-worker",
                                                   "x-quire-route", kHandoverHeader,   kRouterHeader};
  if (std::find(std::begin(kReplaced), std::end(kReplaced), name) != std::end(kReplaced)) return true;
  return own_key && (name == "authorization" || name == "x-api-key");
}

int64_t retry_after_ms(const HttpHeaders& headers, int64_t most_ms) {
  int64_t seconds = 0;
  for (const HttpHeader& h : headers)
    if (h.name == "retry-after") std::from_chars(h.value.data(), h.value.data() + h.value.size(), seconds);
  return std::clamp<int64_t>(seconds, 0, most_ms / 1000) * 1000;
}

const std::string* field_of(const HttpHeaders& headers, std::string_view name) {
  for (const HttpHeader& h : headers)
    if (h.name == name) return &h.value;
  return nullptr;
}

// Those of a client that may have more of one name, each with a comma behind it.
std::string listed(const HttpHeaders& headers, std::string_view name) {
  std::string out;
  for (const HttpHeader& h : headers)
    if (h.name == name) out += h.value + ", ";
  return out;
}

// Of the worker's own making, or made anew here.
bool is_dropped(std::string_view name) {
  return name == kWorkerHeader || name == kReasonHeader || name == kHandoverHeader || name == kSaltHeader ||
         name.starts_with("access-control-");
}

}  // namespace

Proxied::Proxied(RouteContext& context, HttpRequest&& request, ReplyPtr reply, RouteAsker&& asker)
    : context_(context),
      request_(std::move(request)),
      body_(std::make_shared<const std::string>(std::move(request_.body))),
      reply_(std::move(reply)),
      asker_(std::move(asker)),
      tokens_lease_(context.held),
      held_lease_(context.held) {
  context_.n_under_way.fetch_add(1);
}

Proxied::~Proxied() {
  settle();
  context_.n_under_way.fetch_sub(1);
}

// What came of an answer is paid for, however it ended.
void Proxied::settle() {
  if (asker_.key == nullptr) return;
  asker_.key->charge_generated(std::exchange(n_generated_, 0) + tokens_of_bytes(std::exchange(n_plain_bytes_, 0)));
}

// A router that is a worker of its own would ask itself for ever. Of this status another worker is asked instead.
bool Proxied::refuse_circle() {
  const std::string routers = listed(request_.headers, kRouterHeader);
  const auto refuse_way = [this](const std::string& why) {
    refuse({502, why, "server_error", "", "router_circle"}, {});
    return true;
  };
  if (routers.find(context_.router_id) != std::string::npos)
    return refuse_way("this request went through this router before: the address of a worker leads back to it");
  if (routers.size() > kMostRouterBytes)
    return refuse_way("this request went through too many routers: " + std::string(kRouterHeader) + " has " +
                      std::to_string(routers.size()) + " bytes, the limit is " + std::to_string(kMostRouterBytes));
  return false;
}

void Proxied::start() {
  if (refuse_circle()) return;
  context_.counters.requests.add();
  context_.retries.note_request();
  const Asked asked = read_asked(*body_);
  ask_ = route_ask(request_, asked, asker_.tenant, context_.fleet->base_of(asked.model));
  keep_salt(asked.cache_salt);
  if (asker_.key != nullptr) {
    const int64_t n_tokens = tokens_of_bytes(std::ssize(*body_)) + ask_.answer_tokens;
    if (const auto refusal = asker_.key->take(1, n_tokens, asker_.lease))
      return refuse(refusal->error, retry_after(*refusal));
  }
  reply_->on_close([weak = weak_from_this()](CloseReason) {
    if (const auto self = weak.lock()) self->on_client_gone();
  });
  if (!find_engine(asked)) return;
  wait_anew();
  if (context_.directory != nullptr && ask_.session && !context_.fleet->knows(*ask_.session)) return ask_directory();
  know_tokens();
}

void Proxied::ask_directory() {
  context_.directory->find(*ask_.session, [self = shared_from_this()](uint64_t worker) {
    if (worker != 0) self->context_.fleet->remember(*self->ask_.session, worker, self->ask_.pinned);
    self->reply_->post([self] { self->know_tokens(); });
  });
}

void Proxied::remember(std::string_view kind, std::string_view name) { pin(session_of(asker_.tenant, kind, name)); }

void Proxied::pin(const Hash128& session) {
  context_.fleet->remember(session, worker_->id, true);
  if (context_.directory != nullptr) context_.directory->note(session, worker_->id);
}

void Proxied::look() {
  if (phase_ != Phase::looking || (engine_ && !enter_engine())) return;
  if (context_.clock.now_ns() < pause_until_ns_) return wait_for_worker();
  if (auto picked = context_.fleet->choose(ask_, refused_)) return send(std::move(*picked));
  wait_for_worker();
}

void Proxied::wait_for_worker() {
  if (context_.clock.now_ns() >= wait_until_ns_ || !context_.waiting.enter(shared_from_this(), wait_until_ns_))
    refuse_no_worker();
}

void Proxied::on_worker() {
  reply_->post([self = shared_from_this()] { self->look(); });
}

void Proxied::on_no_worker() {
  reply_->post([self = shared_from_this()] { self->refuse_no_worker(); });
}

void Proxied::refuse_no_worker() {
  if (phase_ != Phase::looking) return;
  context_.counters.no_worker.add();
  const std::string limits = "at most " + std::to_string(context_.limits.n_waiting) +
                             " requests (n_waiting) wait for one, each at most " +
                             std::to_string(context_.limits.wait_ms) + " ms (wait_ms)";
  const std::string home = ask_.pinned ? context_.fleet->home(*ask_.session) : "";
  const std::string why =
      home.empty()
          ? "no worker can be given this request; "
          : "only worker " + home + " holds the conversation that this request continues, and it is not available; ";
  refuse({503, why + limits, "server_error", "", "no_worker"}, {{"Retry-After", "1"}});
}

void Proxied::refuse(const HttpError& error, HttpHeaders extra) {
  if (begun_) return break_off(error);
  phase_ = Phase::over;
  engine_lease_ = {};
  send_error(*reply_, error, std::move(extra), request_.path);
}

void Proxied::send(Picked&& picked) {
  phase_ = Phase::asking;
  worker_ = std::move(picked.worker);
  reason_ = picked.reason;
  load_ = std::move(picked.load);
  sent_ns_ = context_.clock.now_ns();
  tried_.push_back(worker_);
  failed_ = false;
  if (asker_.key != nullptr && !std::exchange(sent_, true))
    asker_.key->charge_prompt(tokens_of_bytes(std::ssize(*body_)));
  note_given();
  const bool at_home = !ask_.pinned || reason_ == kAtHome;
  if (context_.directory != nullptr && ask_.session && at_home) context_.directory->note(*ask_.session, worker_->id);
  upstream_ = ask_upstream(upstream_request(), context_.upstream, shared_from_this());
}

UpstreamRequest Proxied::upstream_request() const {
  UpstreamRequest out;
  out.to = worker_->spec.at;
  out.method = request_.method == "HEAD" ? "GET" : request_.method;  // the server drops the body
  out.target = worker_->spec.base + origin_form(request_.target);
  out.headers = forwarded_headers(*worker_);
  if (asks_for_handover()) out.headers.push_back({std::string(kHandoverHeader), "1"});
  if (told_.any())
    out.body = std::make_shared<const std::string>(told_.going_on(*body_, ticket_));
  else if (!body_->empty())
    out.body = body_;
  return out;
}

// A worker must see that a proxy asks: clients of this machine may do there what others may not.
HttpHeaders Proxied::forwarded_headers(const Worker& worker) const {
  HttpHeaders out;
  const std::string connection = connection_fields(request_.headers);
  const bool own_key = context_.sends_key_to(worker.spec);
  for (const HttpHeader& h : request_.headers)
    if (!is_hop_field(h.name, connection) && !is_replaced(h.name, own_key)) out.push_back(h);
  out.push_back({"x-forwarded-for", listed(request_.headers, "x-forwarded-for") + request_.peer});
  out.push_back({std::string(kRouterHeader), listed(request_.headers, kRouterHeader) + context_.router_id});
  if (own_key) out.push_back({"authorization", "Bearer " + context_.worker_key});
  return out;
}

// False: there is no other, or it was tried often enough. REQUIRES nothing was told to the client.
bool Proxied::try_elsewhere(bool costs_retry) {
  if ((costs_retry && retried_) || tried_.size() >= kMostTried) return false;
  auto picked = context_.fleet->choose(ask_, tried_);
  if (!picked || !context_.retries.take()) return false;
  retried_ |= costs_retry;
  context_.counters.retries.add();
  send(std::move(*picked));
  return true;
}

void Proxied::on_head(UpstreamHead&& head) {
  worker_->progressed_ns.store(context_.clock.now_ns(), std::memory_order_relaxed);
  head_ = std::move(head);
  if (head_.status == 500 || head_.status == 502 || head_.status == 504) note_failed();
  const int64_t rest_ms = retry_after_ms(head_.headers, kMostRestMs);
  if (head_.status == 502 || head_.status == 503 || head_.status == 504) {
    if (rest_ms > 0) context_.fleet->rest(*worker_, rest_ms);
    const auto old = upstream_;
    if (!begun_ && try_elsewhere(true)) return old->cancel();
  }
  begun_ ? go_on_streaming(rest_ms) : begin_answer();
}

void Proxied::begin_answer() {
  ticket_.clear();  // of an answer that broke off before any of it was passed on
  may_move_ = false;
  if (const std::string* salt = field_of(head_.headers, kSaltHeader)) learn_salt(*salt);
  if (const std::string* stream = field_of(head_.headers, "x-quire-stream")) remember(kStreamKind, *stream);
  if (ask_.pinned && head_.status < 300 && reason_ != kAtHome) pin(*ask_.session);
  if (head_.status == 200) forget_response();
  form_ = field_of(head_.headers, "content-encoding") != nullptr ? StreamForm::bytes
                                                                 : form_of(field_of(head_.headers, "content-type"));
  if (const std::string* ticket = field_of(head_.headers, kHandoverHeader);
      ticket != nullptr && form_ != StreamForm::bytes && asks_for_handover()) {
    ticket_ = *ticket;
    marked_ = form_;
    may_move_ = true;
  }
  std::erase_if(head_.headers, [](const HttpHeader& h) { return is_dropped(h.name); });
  head_.headers.push_back({std::string(kWorkerHeader), worker_->name});
  head_.headers.push_back({std::string(kReasonHeader), retried_ ? "retry" : reason_});
  const bool bodiless = head_.status == 204 || head_.status == 304;
  const int64_t n = head_.content_length;
  if (bodiless || (n >= 0 && n <= context_.limits.gathered_bytes && held_lease_.resize(n))) {
    phase_ = Phase::gathering;
    return;
  }
  phase_ = Phase::streaming;
  begun_ = true;
  reply_->start_stream(head_.status, std::move(head_.headers));
  reply_->set_producer([weak = weak_from_this()](Reply&) {
    if (const auto self = weak.lock()) self->on_room();
  });
}

bool Proxied::on_body(std::string_view bytes) {
  const int64_t now = context_.clock.now_ns();
  worker_->progressed_ns.store(now, std::memory_order_relaxed);
  if (phase_ == Phase::streaming) {
    // Events that have marks behind them may come long before the first token: pass_on() sees which do not.
    if (form_ != StreamForm::bytes && ticket_.empty()) load_.begins(now - sent_ns_);
    return pass_on(bytes);
  }
  learn(bytes);
  n_plain_bytes_ += std::ssize(bytes);
  held_ += bytes;
  return true;
}

// What is not a whole event yet is held, up to a limit; beyond it the answer is passed on as it comes. Of a stream that
// another worker can go on with so is what has no mark behind it; beyond the limit nobody can.
bool Proxied::pass_on(std::string_view bytes) {
  if (unmarked_) return pass_on_unmarked(bytes, bytes);
  const std::string joined = held_.empty() ? std::string() : held_ + std::string(bytes);
  const std::string_view all = held_.empty() ? bytes : std::string_view(joined);
  std::optional<Portion> portion;
  size_t n = 0;
  const std::string events = events_of(all, portion, n);
  if (portion && !portion->marks.empty()) load_.begins(context_.clock.now_ns() - sent_ns_);
  const int64_t n_left = std::ssize(all) - static_cast<int64_t>(n);
  const int64_t n_told = portion ? told_.n_bytes_with(*portion) : told_.n_bytes();
  const bool too_long = n_left + n_told > context_.limits.event_bytes || !held_lease_.resize(n_left + n_told);
  if (too_long && may_move_) {
    may_move_ = false;
    told_.forget();
    return pass_on(bytes);
  }
  if (too_long && !ticket_.empty()) return pass_on_unmarked(all, bytes);
  const std::string_view out = too_long ? all : portion || !ticket_.empty() ? events : all.substr(0, n);
  if (!out.empty() && !reply_->write(out)) return false;
  if (too_long) form_ = StreamForm::bytes;
  learn(bytes);
  count_generated(out);
  if (portion && portion->n_bytes > 0 && told_.add(*portion)) n_moves_ = 0;
  held_ = too_long ? "" : std::string(all.substr(n));
  return true;
}

// Of a stream with marks, from a line on that is too long to be held. `all`: what was held, and `bytes`.
bool Proxied::pass_on_unmarked(std::string_view all, std::string_view bytes) {
  MarkFilter filter = unmarked_.value_or(MarkFilter(marked_));
  const std::string out = filter.take(all);
  if (!out.empty() && !reply_->write(out)) return false;
  unmarked_ = filter;
  form_ = StreamForm::bytes;
  learn(bytes);
  count_generated(out);
  held_.clear();
  return true;
}

// How many of `bytes` may be passed on, and what of them is for the client where marks are among them.
std::string Proxied::events_of(std::string_view bytes, std::optional<Portion>& portion, size_t& n_bytes) {
  if (may_move_) {
    portion = read_portion(marked_, bytes);
    may_move_ = portion.has_value();
  }
  n_bytes = portion ? portion->n_bytes : whole_bytes(form_, bytes);
  if (portion) return portion->events;
  return ticket_.empty() ? "" : without_marks(marked_, bytes.substr(0, n_bytes));
}

// An event or a line is about a token.
void Proxied::count_generated(std::string_view bytes) {
  if (form_ == StreamForm::bytes)
    n_plain_bytes_ += std::ssize(bytes);
  else
    n_generated_ += n_whole(form_, bytes);
}

// What was learnt is of an answer that nobody has: the next one has another name.
void Proxied::forget_response() {
  learnt_.clear();
  response_.reset();
  learns_ = request_.path == "/v1/responses";
}

// The name under which a later request may go on from this answer.
void Proxied::learn(std::string_view bytes) {
  if (!learns_) return;
  learnt_ += bytes.substr(0, kLearnBytes - std::min(kLearnBytes, learnt_.size()));
  constexpr std::string_view kField = "\"id\":", kBegin = "resp";
  for (size_t at = learnt_.find(kField); at != std::string::npos; at = learnt_.find(kField, at + 1)) {
    const size_t begin = learnt_.find_first_not_of(' ', at + kField.size());
    if (begin == std::string::npos || learnt_[begin] != '"') continue;
    const size_t end = learnt_.find('"', begin + 1);
    if (end == std::string::npos) break;
    const std::string_view name = std::string_view(learnt_).substr(begin + 1, end - begin - 1);
    if (!name.starts_with(kBegin)) continue;
    response_ = session_of(asker_.tenant, kResponseKind, name);
    pin(*response_);
    learns_ = false;
    break;
  }
  if (learnt_.size() >= kLearnBytes) learns_ = false;
}

void Proxied::on_end(const UpstreamError* error) {
  upstream_ = nullptr;
  if (error != nullptr) return fail(*error);
  if (head_.status < 400) {  // what a client did wrong says nothing of its worker
    context_.fleet->worked(*worker_);
    engine_lease_.worked();
  }
  load_ = {};
  engine_lease_ = {};
  finish();
}

void Proxied::finish() {
  if (!ticket_.empty()) held_ = without_marks(marked_, held_);
  if (phase_ == Phase::streaming) count_generated(held_);
  settle();
  if (phase_ == Phase::streaming) return end_stream(std::move(held_));
  phase_ = Phase::over;
  reply_->send(head_.status, std::move(head_.headers), std::move(held_));
}

HttpError Proxied::bad_worker(std::string_view what) const {
  return {502, "worker " + worker_->name + ": " + std::string(what), "server_error", "", "bad_worker"};
}

// Once for each worker that is asked.
void Proxied::note_failed() {
  if (!std::exchange(failed_, true)) context_.fleet->failed(*worker_);
}

void Proxied::fail(const UpstreamError& error) {
  load_ = {};
  const bool unreached = error.fault == UpstreamFault::unreached;
  if (unreached)
    context_.fleet->unreached(*worker_);
  else
    note_failed();
  if (begun_) {
    if (!go_on_elsewhere(unreached ? Lost::unreached : Lost::failed)) break_off(bad_worker(error.message));
    return;
  }
  held_.clear();
  n_plain_bytes_ = 0;
  learnt_.clear();
  held_lease_.resize(0);
  // What took too long once is not asked again.
  if (error.fault != UpstreamFault::timeout && try_elsewhere(!unreached)) return;
  if (unreached || may_ask_engine_again(error.fault)) {
    phase_ = Phase::looking;
    tried_.clear();
    if (engine_) wait_anew();
    return look();
  }
  context_.counters.failures.add();
  refuse(bad_worker(error.message), {{std::string(kWorkerHeader), worker_->name}});
}

// The last of a stream; where there is no room for it, the client is waited for.
void Proxied::end_stream(std::string tail) {
  phase_ = Phase::ending;
  held_ = std::move(tail);
  if (!held_.empty() && !reply_->write(held_)) {
    self_ = shared_from_this();
    return;
  }
  phase_ = Phase::over;
  reply_->end();
  self_ = nullptr;
}

void Proxied::on_room() {
  const auto self = shared_from_this();
  if (phase_ == Phase::ending) return end_stream(std::move(held_));
  if (phase_ == Phase::streaming && upstream_ != nullptr) upstream_->resume();
}

void Proxied::on_client_gone() {
  const auto self = shared_from_this();
  if (phase_ == Phase::looking) context_.waiting.leave(*this);
  phase_ = Phase::over;
  if (upstream_ != nullptr) upstream_->cancel();
  upstream_ = nullptr;
  if (question_ != nullptr) TokenQuestions::drop(*std::exchange(question_, nullptr));
  load_ = {};
  engine_lease_ = {};
  self_ = nullptr;
}

}  // namespace quire
