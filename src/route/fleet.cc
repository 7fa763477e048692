#include "route/fleet.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/nanoseconds.h"
#include "route/asked.h"

namespace quire {
namespace {

RoutePolicyEntry policy_of(std::string_view name) {
  const RoutePolicyEntry* entry = Registry<RoutePolicyEntry>::get().find(name);
  QR_CHECK(entry != nullptr, "no such policy");
  return *entry;
}

Counter& known_by(Metrics& metrics, const char* source) {
  return metrics.counter("quire_route_known_by_total",
                         "Workers chosen by what they hold, by how that of the chosen one was known.",
                         {{"source", source}});
}

const KvIndex::Hit* said_by(const RouteAsk& ask, uint64_t worker) {
  const auto at = std::ranges::lower_bound(ask.held, worker, {}, &KvIndex::Hit::worker);
  return at != ask.held.end() && at->worker == worker ? &*at : nullptr;
}

}  // namespace

Fleet::Fleet(std::string_view policy, const RouteLimits& limits, Clock& clock, Metrics& metrics)
    : policy_(policy_of(policy)),
      limits_(limits),
      clock_(clock),
      metrics_(metrics),
      sessions_(limits.n_sessions, limits.session_s * kNsPerSecond),
      prefixes_(0),
      known_by_events_(known_by(metrics, "events")),
      known_by_text_(known_by(metrics, "text")) {}

void Fleet::set_workers(const std::vector<WorkerSpec>& workers) {
  std::vector<std::string> names;
  names.reserve(workers.size());
  for (const WorkerSpec& spec : workers) names.push_back(spec.name());
  const std::lock_guard lock(mu_);
  std::unordered_map<std::string_view, std::shared_ptr<Worker>> old;
  for (const auto& worker : workers_) old.emplace(worker->name, worker);
  std::unordered_set<std::string_view> named;
  std::vector<std::shared_ptr<Worker>> next;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (!named.insert(names[i]).second) continue;  // one server that two names have over TLS is one worker
    const auto at = old.find(names[i]);
    const bool stays = at != old.end() && at->second->spec == workers[i];
    next.push_back(stays ? at->second : std::make_shared<Worker>(workers[i], limits_));
    if (stays) old.erase(at);
  }
  for (const auto& worker : workers_) {
    worker->gone = old.contains(worker->name);
    if (worker->gone) drop_hints(*worker);
  }
  workers_ = std::move(next);
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->place = i;
  // A local engine is the only one for its model.
  const auto n_remote = std::ranges::count_if(workers_, [](const auto& w) { return !w->spec.is_local(); });
  prefixes_.set_most_blocks(std::min<int64_t>(n_remote, kMostKnownWorkers) * limits_.n_prefix_blocks);
  number_models();
}

void Fleet::on_more(std::function<void()> fn) {
  const std::lock_guard lock(mu_);
  on_more_ = std::move(fn);
}

// Its next prompt gets it a number that the prefix map does not know.
void Fleet::drop_hints(Worker& worker) {
  worker.n_downs.fetch_add(1);
  forget_word(worker);
  if (worker.holder == 0) return;
  holders_.erase(worker.holder);
  prefixes_.forget(std::exchange(worker.holder, 0));
}

bool Fleet::has(uint64_t worker) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& w) { return w->id == worker; });
}

uint32_t Fleet::number_of_model(std::string_view name) const {
  const auto found = models_.find(name);
  return found == models_.end() ? 0 : found->second;
}

// Those that may be given something now and serve the model (0: nobody lists it, so anybody may know it); or `only` the
// worker of this id, whatever it serves. A local engine is asked for its model alone, and for that nobody else is.
void Fleet::find_candidates(const RouteAsk& ask,
                            uint64_t only,
                            std::span<const std::shared_ptr<Worker>> not_these,
                            int64_t now_ns) {
  const uint32_t model = number_of_model(ask.model);
  from_.clear();
  views_.clear();
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Worker& w = *workers_[i];
    if (!w.health.usable(now_ns) || w.spec.model != ask.local) continue;
    if (only != 0 ? w.id != only : model != 0 && !w.serves(model)) continue;
    if (std::find(not_these.begin(), not_these.end(), workers_[i]) != not_these.end()) continue;
    from_.push_back(i);
    views_.push_back({w.id, w.load_tokens + w.others.load_tokens + w.unseen.load_tokens,
                      w.n_requests + w.others.n_requests + w.unseen.n_requests, 0,
                      w.prefill_tokens + w.others.prefill_tokens + w.unseen.prefill_tokens,
                      w.n_decoding + w.others.n_decoding + w.unseen.n_decoding, w.token_ns});
  }
}

void Fleet::fill_hits(const RouteAsk& ask) {
  if (!policy_.needs_hits) return;
  for (const PrefixMap::Hit& hit : prefixes_.find(ask.blocks)) {
    const auto holder = holders_.find(hit.holder);
    if (holder == holders_.end()) continue;
    const auto at = std::ranges::lower_bound(from_, holder->second->place);
    if (at != from_.end() && *at == holder->second->place)
      views_[static_cast<size_t>(at - from_.begin())].hit_tokens = tokens_of_bytes(bytes_of_blocks(hit.n_blocks));
  }
  if (ask.held.empty()) return;
  for (WorkerView& view : views_)
    if (const KvIndex::Hit* hit = said_by(ask, view.id)) view.hit_tokens = hit->n_tokens;
}

void Fleet::count_source(const RouteAsk& ask, uint64_t worker) {
  if (!policy_.needs_hits || ask.blocks.empty()) return;
  (said_by(ask, worker) != nullptr ? known_by_events_ : known_by_text_).add();
}

std::shared_ptr<Worker> Fleet::who_may_say(const RouteAsk& ask) {
  const int64_t now = clock_.now_ns();
  const std::lock_guard lock(mu_);
  find_candidates(ask, 0, {}, now);
  const Worker* best = nullptr;
  size_t best_at = 0;
  for (const size_t at : from_) {
    const Worker& w = *workers_[at];
    if (w.silent_until_ns.load() > now || (best != nullptr && w.n_requests >= best->n_requests)) continue;
    best = &w;
    best_at = at;
  }
  return best != nullptr ? workers_[best_at] : nullptr;
}

std::string Fleet::base_of(const std::string& model) const {
  const std::lock_guard lock(mu_);
  const auto found = bases_.find(model);
  return found != bases_.end() ? found->second : "";
}

bool Fleet::goes_by_tokens(const std::string& model) const {
  const std::lock_guard lock(mu_);
  return policy_.needs_hits && !adapters_.contains(model);
}

// A session goes where it was (`last`; 0: nobody knows); elsewhere with a reason of its own.
RouteChoice Fleet::pick(const RouteAsk& ask, uint64_t last) {
  const int64_t tokens = ask.prompt_tokens + ask.answer_tokens;
  const RouteQuery query{ask.session ? ask.session->lo : ask.key, tokens, turn_++, ask.prompt_tokens};
  if (last == 0) return policy_.choose(views_, query);
  const auto at = std::find_if(views_.begin(), views_.end(), [&](const WorkerView& v) { return v.id == last; });
  if (at != views_.end() && (ask.pinned || LoadBound(views_, tokens).keeps(*at)))
    return {static_cast<size_t>(at - views_.begin()), kAtHome};
  RouteChoice moved = policy_.choose(views_, query);
  moved.reason = at == views_.end() ? "session_gone" : "session_full";
  return moved;
}

std::optional<Picked> Fleet::choose(const RouteAsk& ask, std::span<const std::shared_ptr<Worker>> not_these) {
  const int64_t now = clock_.now_ns();
  const std::lock_guard lock(mu_);
  const uint64_t last = ask.session ? sessions_.find(*ask.session, now) : 0;
  const bool stays = ask.pinned && has(last);
  find_candidates(ask, stays ? last : 0, not_these, now);
  if (from_.empty()) return std::nullopt;
  fill_hits(ask);
  const RouteChoice choice = pick(ask, last);
  const auto& worker = workers_[from_[choice.index]];
  const int64_t cached = std::min(views_[choice.index].hit_tokens, ask.prompt_tokens);
  const int64_t prefill = ask.prompt_tokens - cached;
  const Charge charge{prefill + ask.answer_tokens, prefill, worker->prefill_tokens + prefill, ask.n_requests};
  LoadLease load(shared_from_this(), worker, charge);
  worker->load_tokens += charge.tokens;
  worker->prefill_tokens += charge.prefill_tokens;
  worker->n_requests += charge.n_requests;
  worker->n_given.add();
  given_ns_ += static_cast<double>(prefill) * token_ns_of(*worker);
  note_charge(charge);
  if (ask.session && (stays || !ask.pinned)) sessions_.set(*ask.session, worker->id, ask.pinned, now);
  if (policy_.needs_hits && !ask.blocks.empty() && !worker->spec.is_local()) {
    if (worker->holder == 0) holders_.emplace(worker->holder = next_holder_++, worker.get());
    prefixes_.add(ask.blocks, worker->holder);
  }
  count(choice.reason);
  if (choice.reason != kAtHome) count_source(ask, worker->id);
  return Picked{worker, choice.reason, std::move(load), cached};
}

void Fleet::note_charge(const Charge& charge) {
  constexpr double kShare = 0.05;  // of the newest in the mean
  const double share = usual_tokens_ == 0 ? 1 : kShare;
  const auto n = static_cast<double>(charge.n_requests);
  usual_tokens_ += share * (static_cast<double>(charge.tokens) / n - usual_tokens_);
  usual_prefill_ += share * (static_cast<double>(charge.prefill_tokens) / n - usual_prefill_);
}

void Fleet::count(std::string_view reason) {
  Counter*& counter = by_reason_[reason];
  if (counter == nullptr)
    counter =
        &metrics_.counter("quire_route_choices_total", "Workers chosen, by reason.", {{"reason", std::string(reason)}});
  counter->add();
}

void Fleet::release(Worker& worker, const Charge& charge, bool has_begun) {
  const std::lock_guard lock(mu_);
  worker.load_tokens -= charge.tokens;
  worker.n_requests -= charge.n_requests;
  if (has_begun)
    worker.n_decoding -= charge.n_requests;
  else
    worker.prefill_tokens -= charge.prefill_tokens;
}

// Few tokens say more of the way to the worker than of its speed.
void Fleet::begins(Worker& worker, const Charge& charge, int64_t after_ns) {
  constexpr int64_t kLeastTokens = 64;
  constexpr double kShare = 0.2;  // of the newest in the mean
  const std::lock_guard lock(mu_);
  worker.prefill_tokens -= charge.prefill_tokens;
  worker.n_decoding += charge.n_requests;
  if (charge.ahead_tokens < kLeastTokens || after_ns <= 0) return;
  const double token_ns = static_cast<double>(after_ns) / static_cast<double>(charge.ahead_tokens);
  for (double* mean : {&worker.token_ns, &usual_token_ns_}) *mean += (token_ns - *mean) * (*mean == 0 ? 1 : kShare);
}

void Fleet::remember(const Hash128& session, uint64_t worker, bool pinned) {
  const std::lock_guard lock(mu_);
  if (has(worker)) sessions_.set(session, worker, pinned, clock_.now_ns());
}

bool Fleet::knows(const Hash128& session) const {
  const std::lock_guard lock(mu_);
  return sessions_.find(session, clock_.now_ns()) != 0;
}

void Fleet::worked(Worker& worker) {
  const std::lock_guard lock(mu_);
  worker.health.worked();
}

// Left out are never over half: then it is not the worker that is at fault, or nobody would be left. REQUIRES mu_.
void Fleet::note_failure(Worker& worker) {
  worker.n_failures.add();
  const auto n_out = std::count_if(workers_.begin(), workers_.end(), [](const auto& w) { return w->health.ejected(); });
  const bool may_eject = !worker.gone && !worker.spec.is_local() && 2 * (n_out + 1) <= std::ssize(workers_);
  if (worker.health.failed(clock_.now_ns(), may_eject)) log_warn("route: " + worker.name + " fails and is left out");
}

void Fleet::failed(Worker& worker) {
  const std::lock_guard lock(mu_);
  note_failure(worker);
}

void Fleet::unreached(Worker& worker) {
  const std::lock_guard lock(mu_);
  note_failure(worker);
  if (worker.health.up()) log_warn("route: " + worker.name + " cannot be reached");
  worker.health.unreached();
  drop_hints(worker);
}

void Fleet::rest(Worker& worker, int64_t ms) {
  const std::lock_guard lock(mu_);
  worker.health.rest(clock_.now_ns(), ms);
}

void Fleet::probed(Worker& worker, Probe probe) {
  std::function<void()> more;
  {
    const std::lock_guard lock(mu_);
    const int64_t now = clock_.now_ns();
    const bool was_up = worker.health.up(), was_usable = worker.health.usable(now);
    worker.health.probed(probe, now);
    if (was_up && !worker.health.up()) {
      log_warn("route: " + worker.name + " is down");
      drop_hints(worker);
    }
    if (!was_up && worker.health.up()) log_info("route: " + worker.name + " is up");
    if (!was_usable && worker.health.usable(now)) more = on_more_;
  }
  if (more) more();
}

// Names are numbered anew: lists are short and seldom.
void Fleet::set_models(Worker& worker, Json::Array models) {
  const std::lock_guard lock(mu_);
  worker.models = std::move(models);
  number_models();
}

void Fleet::number_models() {
  models_.clear();
  adapters_.clear();
  bases_.clear();
  for (const auto& worker : workers_) {
    worker->model_ids.clear();
    if (worker->spec.is_local()) continue;  // it is asked by that name
    for (const Json& model : worker->models) {
      const std::string* id = id_of(model);
      if (id == nullptr) continue;
      const Json* parent = model.find("parent");
      if (parent != nullptr && parent->as_string() != nullptr) {
        adapters_.insert(*id);
        const Json* activated = model.find("activated");
        if (activated != nullptr && activated->as_bool() != nullptr && *activated->as_bool())
          bases_.emplace(*id, *parent->as_string());
      }
      const auto number = static_cast<uint32_t>(models_.size() + 1);
      worker->model_ids.push_back(models_.try_emplace(*id, number).first->second);
    }
  }
}

const Worker* Fleet::home_of(const Hash128& session) const {
  const uint64_t id = sessions_.find(session, clock_.now_ns());
  const auto at = std::ranges::find(workers_, id, [](const auto& worker) { return worker->id; });
  return at != workers_.end() ? at->get() : nullptr;
}

std::string Fleet::home(const Hash128& session) const {
  const std::lock_guard lock(mu_);
  const Worker* worker = home_of(session);
  return worker != nullptr ? worker->name : "";
}

std::string Fleet::local_home(const Hash128& session) const {
  const std::lock_guard lock(mu_);
  const Worker* worker = home_of(session);
  return worker != nullptr ? worker->spec.model : "";
}

std::vector<WorkerLoad> Fleet::loads() const {
  const std::lock_guard lock(mu_);
  std::vector<WorkerLoad> out;
  for (const auto& w : workers_)
    if (w->n_requests > 0 && !w->spec.is_local())
      out.push_back({w->id, w->load_tokens, w->n_requests, w->prefill_tokens, w->n_decoding});
  return out;
}

void Fleet::set_others(std::span<const WorkerLoad> others) {
  std::unordered_map<uint64_t, const WorkerLoad*> by_id;
  for (const WorkerLoad& load : others) by_id.emplace(load.worker, &load);
  const std::lock_guard lock(mu_);
  for (const auto& w : workers_) {
    const auto found = by_id.find(w->id);
    w->others = found != by_id.end() && !w->spec.is_local() ? *found->second : WorkerLoad{};
  }
}

int64_t Fleet::n_known(const Worker& worker) const {
  const std::lock_guard lock(mu_);
  return worker.n_requests + worker.others.n_requests;
}

// Known is the most that was known while it was asked: what ended or came meanwhile may be in its word or not. A worker
// that lies, or has far more than the others, is the busiest; more than that would only raise the mean that bounds the
// others. What others say of themselves does not count for that, or liars would lift each other. A mean of words, for
// routers that all went by the newest one would all go to the same worker until the next.
void Fleet::said(Worker& worker, const std::optional<WorkerWord>& word, int64_t n_known_before) {
  constexpr double kUsualTokens = 512, kUsualPrefill = 256;  // where nothing was given yet
  constexpr int64_t kMostTimes = 4, kMostBeside = 16;        // of the busiest other one's requests, and beside them
  constexpr double kShare = 0.1;                             // of the newest word in the mean
  const std::lock_guard lock(mu_);
  if (!word || !worker.health.up()) return forget_word(worker);
  int64_t busiest = 0;
  for (const auto& w : workers_)
    if (w.get() != &worker) busiest = std::max(busiest, w->n_requests + w->others.n_requests);
  const int64_t n_here = worker.n_requests + worker.others.n_requests;
  const int64_t n_known = std::max(n_known_before, n_here);
  const int64_t most = std::max<int64_t>(kMostTimes * busiest + kMostBeside - n_here, 0);
  const int64_t n = std::clamp<int64_t>(word->n() - n_known, 0, most);
  const int64_t n_known_waiting = n_known - worker.n_decoding - worker.others.n_decoding;
  const int64_t n_waiting = std::clamp<int64_t>(word->n_waiting - n_known_waiting, 0, n);
  const double share = worker.mean_unseen < 0 ? 1 : kShare;
  worker.mean_unseen += share * (static_cast<double>(n) - worker.mean_unseen);
  worker.mean_unseen_waiting += share * (static_cast<double>(n_waiting) - worker.mean_unseen_waiting);
  const double tokens = usual_tokens_ > 0 ? usual_tokens_ : kUsualTokens;
  const double prefill = usual_tokens_ > 0 ? usual_prefill_ : kUsualPrefill;
  worker.unseen = {worker.id, std::llround(worker.mean_unseen * tokens), std::llround(worker.mean_unseen),
                   std::llround(worker.mean_unseen_waiting * prefill),
                   std::llround(worker.mean_unseen - worker.mean_unseen_waiting)};
}

void Fleet::forget_word(Worker& worker) {
  worker.unseen = {};
  worker.mean_unseen = -1;
  worker.mean_unseen_waiting = 0;
}

// Of one that was not measured yet it is what workers usually take; 0: none was.
double Fleet::token_ns_of(const Worker& worker) const {
  return worker.token_ns > 0 ? worker.token_ns : usual_token_ns_;
}

FleetWork Fleet::work(int64_t n_waiting) const {
  constexpr auto kNs = static_cast<double>(kNsPerSecond);
  const std::lock_guard lock(mu_);
  const int64_t now = clock_.now_ns();
  FleetWork out;
  out.given_s = given_ns_ / kNs;
  out.n_requests = n_waiting;
  for (const auto& w : workers_) {
    if (w->spec.is_local()) continue;
    out.backlog_s += static_cast<double>(w->prefill_tokens) * token_ns_of(*w) / kNs;
    out.n_requests += w->n_requests;
    out.n_usable += w->health.usable(now) ? 1 : 0;
  }
  out.backlog_s += static_cast<double>(n_waiting) * usual_prefill_ * usual_token_ns_ / kNs;
  return out;
}

bool Fleet::has_remote() const {
  const std::lock_guard lock(mu_);
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& w) { return !w->spec.is_local(); });
}

std::vector<std::shared_ptr<Worker>> Fleet::workers() const {
  const std::lock_guard lock(mu_);
  return workers_;
}

std::vector<WorkerState> Fleet::states() const {
  const std::lock_guard lock(mu_);
  const int64_t now = clock_.now_ns();
  std::vector<WorkerState> out;
  out.reserve(workers_.size());
  for (const auto& w : workers_)
    out.push_back({w->id, w->name, w->health.up(), w->health.ejected(), w->health.usable(now), w->load_tokens,
                   w->n_requests, w->others.load_tokens, w->unseen.n_requests, w->n_given.value(),
                   w->n_failures.value()});
  return out;
}

Json::Array Fleet::models() const {
  const std::lock_guard lock(mu_);
  Json::Array out;
  for (const auto& worker : workers_) {
    if (!worker->health.up()) continue;
    for (const Json& model : worker->models) {
      const std::string* id = id_of(model);
      if (worker->spec.is_local() && (id == nullptr || *id != worker->spec.model)) continue;
      const auto same = [&](const Json& other) { return *id_of(other) == *id; };
      if (id != nullptr && std::none_of(out.begin(), out.end(), same)) out.push_back(model);
    }
  }
  return out;
}

bool Fleet::is_up(std::string_view name) const {
  const std::lock_guard lock(mu_);
  return std::ranges::any_of(workers_, [&](const auto& w) { return w->name == name && w->health.up(); });
}

bool Fleet::any_usable() const {
  const std::lock_guard lock(mu_);
  const int64_t now = clock_.now_ns();
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& w) { return w->health.usable(now); });
}

}  // namespace quire
