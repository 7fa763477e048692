// For this room's tests and benches: workers as models behind the router's own Fleet, over a trace, on a clock that
// moves from event to event. What a policy is worth in tokens found cached and in time to the first token, also when a
// worker dies and comes back empty. One thread; equal arguments, equal results.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "base/nanoseconds.h"
#include "base/rng.h"
#include "route/asked.h"
#include "route/fleet.h"
#include "route/worker_model_testing.h"

namespace quire {

struct ModelRequest {
  int64_t arrival_ns = 0, prompt_tokens = 1, answer_tokens = 1;
  std::vector<uint64_t> blocks;  // of kModelBlock tokens: equal names, equal prompts up to there
  int past_to = -1;              // the worker that somebody gives it past the routers; −1: a router chooses
};

struct ModelFleet {
  int n_workers = 4;
  int n_routers = 1;          // who know nothing of each other and get requests in turn
  int64_t word_every_ns = 0;  // so often the workers say what they have to do; 0: never
  WorkerSpeed speed;
  int64_t dies_ns = -1, down_ns = 0;  // worker 0, once; −1: never
  RouteLimits limits;
  bool informed = false;  // the router is told what each worker holds, and will when it has computed what it was given
  bool measures = false;  // the last three of the result, by a clock of this machine
};

struct FleetResult {
  double cached = 0;                          // of all tokens of prompts
  double first_p50_ms = 0, first_p99_ms = 0;  // from a request's arrival to its first token
  double busiest = 0;                         // tokens of prompts that were computed: the most of a worker, in means
  int64_t n_done = 0, n_moved = 0;            // requests that ended; that went on at another worker
  int64_t left_tokens = 0;                    // of load that nobody has any more
  double choice_p50_us = 0, choice_p99_us = 0;
  std::map<std::string, int64_t> reasons;  // how many requests were given for each
  // Of all looks at all workers, one look each 1000 requests: a load of at most 1.25 × the mean and one request.
  double within = 0;
};

class FleetModel {
 public:
  FleetModel(std::string_view policy, const ModelFleet& how, const std::vector<ModelRequest>& trace)
      : how_(how),
        trace_(trace),
        limits_(how.limits),
        models_(static_cast<size_t>(how.n_workers), WorkerModel(how.speed)),
        leases_(trace.size()),
        first_ns_(trace.size(), -1) {
    std::vector<WorkerSpec> specs;
    for (int i = 0; i < how.n_workers; ++i) specs.push_back({{"w", 1 + i}, ""});
    for (int r = 0; r < how.n_routers; ++r) {
      fleets_.push_back(std::make_shared<Fleet>(policy, limits_, clock_, metrics_));
      fleets_.back()->set_workers(specs);
      workers_.push_back(fleets_.back()->workers());
    }
    for (size_t r = 0; r < fleets_.size(); ++r)
      for (const auto& worker : workers_[r]) fleets_[r]->probed(*worker, Probe::well);
  }

  FleetResult run() {
    constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
    size_t next = 0;
    int64_t dies_ns = how_.dies_ns < 0 ? kNever : how_.dies_ns, back_ns = kNever;
    int64_t says_ns = how_.word_every_ns > 0 ? how_.word_every_ns : kNever;
    while (true) {
      const int64_t arrives_ns = next < trace_.size() ? trace_[next].arrival_ns : kNever;
      const size_t stepper = next_stepper();
      const int64_t step_ns = stepper < models_.size() ? models_[stepper].ends_ns() : kNever;
      const int64_t now = std::min({arrives_ns, step_ns, dies_ns, back_ns, says_ns});
      if (now == kNever || (step_ns == kNever && arrives_ns == kNever)) break;
      clock_.advance_ns(now - clock_.now_ns());
      if (now == step_ns) {
        end_step(stepper);
      } else if (now == dies_ns) {
        dies_ns = kNever;
        back_ns = now + how_.down_ns;
        die(0);
      } else if (now == back_ns) {
        back_ns = kNever;
        for (int64_t i = 0; i < limits_.n_recoveries; ++i)
          for (size_t r = 0; r < fleets_.size(); ++r) fleets_[r]->probed(*workers_[r][0], Probe::well);
      } else if (now == says_ns) {
        says_ns = now + how_.word_every_ns;
        say_all();
      } else {
        const ModelRequest& r = trace_[next];
        send({next, r.prompt_tokens, r.answer_tokens, r.blocks});
        ++next;
      }
    }
    return result();
  }

 private:
  static constexpr int64_t kAnswerTokens = 256;  // as the router takes it where the request does not say
  size_t router_of(const ModelJob& job) const { return job.request % fleets_.size(); }
  void say_all() {
    for (size_t r = 0; r < fleets_.size(); ++r)
      for (size_t i = 0; i < models_.size(); ++i) {
        Worker& worker = *workers_[r][i];
        const auto n = static_cast<int64_t>(models_[i].n_jobs());
        const int64_t n_running = std::min(n, static_cast<int64_t>(how_.speed.n_running));
        fleets_[r]->said(worker, WorkerWord{n_running, n - n_running}, fleets_[r]->n_known(worker));
      }
  }
  // Steps of those who died since stay in the queue until it is their turn.
  size_t next_stepper() {
    while (!steps_.empty()) {
      const auto [ends_ns, i] = steps_.top();
      if (models_[i].in_step() && models_[i].ends_ns() == ends_ns) return i;
      steps_.pop();
    }
    return models_.size();
  }
  void begin_step(size_t i) {
    models_[i].begin_step(clock_.now_ns());
    steps_.emplace(models_[i].ends_ns(), i);
  }

  // What the router would see of it: text of four bytes a token, in its blocks.
  RouteAsk ask_for(const ModelJob& job) const {
    RouteAsk out;
    out.prompt_tokens = job.prompt_tokens;
    out.answer_tokens = kAnswerTokens;
    const int64_t n_bytes = 4 * kModelBlock * std::ssize(job.blocks);
    for (int64_t n = 1; n <= kMostBlocks && bytes_of_blocks(n) <= n_bytes; ++n) {
      const int64_t last_byte = bytes_of_blocks(n) - 1;
      out.blocks.push_back(random_bits(job.blocks[static_cast<size_t>(last_byte / (4 * kModelBlock))],
                                       static_cast<uint64_t>(last_byte)));
    }
    out.key = out.blocks.empty() ? job.request : out.blocks[std::min<size_t>(15, out.blocks.size() - 1)];  // 1 KiB
    return out;
  }

  void inform(const ModelJob& job, RouteAsk& ask) const {
    for (size_t i = 0; i < models_.size(); ++i)
      ask.held.push_back({workers_[0][i]->id, models_[i].n_held(job.blocks) * kModelBlock});
    std::ranges::sort(ask.held, {}, &KvIndex::Hit::worker);
  }

  void enter(size_t worker, ModelJob job) {
    job.sent_ns = clock_.now_ns();
    job.to_compute = -1;
    models_[worker].enter(job);
    if (!models_[worker].in_step()) begin_step(worker);
  }

  void send(ModelJob job) {
    if (const int past_to = trace_[job.request].past_to; past_to >= 0) return enter(static_cast<size_t>(past_to), job);
    RouteAsk ask = ask_for(job);
    if (how_.informed) inform(job, ask);
    const auto before = std::chrono::steady_clock::now();
    const size_t router = router_of(job);
    auto picked = fleets_[router]->choose(ask, {});
    if (how_.measures) measure(std::chrono::steady_clock::now() - before);
    QR_CHECK(picked.has_value(), "no worker is left");
    const auto& workers = workers_[router];
    const auto at = std::find(workers.begin(), workers.end(), picked->worker);
    leases_[job.request] = std::move(picked->load);
    ++reasons_[std::string(picked->reason)];
    enter(static_cast<size_t>(at - workers.begin()), job);
  }

  void measure(std::chrono::nanoseconds took) {
    choices_ns_.push_back(static_cast<int64_t>(took.count()));
    if (choices_ns_.size() % 1000 != 0) return;
    const std::vector<WorkerState> states = fleets_[0]->states();
    int64_t sum = 0;
    for (const WorkerState& w : states) sum += w.load_tokens;
    const double most = 1.25 * static_cast<double>(sum) / static_cast<double>(states.size());
    for (size_t i = 0; i < states.size(); ++i) {
      const int64_t newest = models_[i].has_work() ? models_[i].newest().prompt_tokens + kAnswerTokens : 0;
      n_within_ += static_cast<int64_t>(static_cast<double>(states[i].load_tokens - newest) <= most);
    }
    n_looked_ += std::ssize(states);
  }

  void end_step(size_t i) {
    const int64_t now = clock_.now_ns();
    const StepNews news = models_[i].end_step();
    for (const ModelJob& job : news.begun) {
      leases_[job.request].begins(now - job.sent_ns);
      if (first_ns_[job.request] < 0) first_ns_[job.request] = now - trace_[job.request].arrival_ns;
    }
    for (const ModelJob& job : news.done) {
      fleets_[router_of(job)]->worked(*workers_[router_of(job)][i]);
      leases_[job.request] = {};
      ++n_done_;
    }
    if (models_[i].has_work()) begin_step(i);
  }

  // Streams go on elsewhere, what they have said behind their prompts.
  void die(size_t i) {
    std::vector<ModelJob> lost = models_[i].die();
    for (size_t r = 0; r < fleets_.size(); ++r) fleets_[r]->unreached(*workers_[r][i]);
    for (ModelJob& job : lost) {
      leases_[job.request] = {};
      job.prompt_tokens = trace_[job.request].prompt_tokens + trace_[job.request].answer_tokens - job.answer_tokens;
      send(job);
      ++n_moved_;
    }
  }

  FleetResult result() {
    FleetResult out;
    int64_t cached = 0, all = 0, most = 0;
    for (const WorkerModel& model : models_) {
      cached += model.cached_tokens();
      all += model.prompt_tokens();
      most = std::max(most, model.prompt_tokens() - model.cached_tokens());
    }
    out.cached = static_cast<double>(cached) / static_cast<double>(std::max<int64_t>(all, 1));
    out.busiest = static_cast<double>(most * how_.n_workers) / static_cast<double>(std::max<int64_t>(all - cached, 1));
    const auto at = [](const std::vector<int64_t>& sorted, double q) {
      const auto i = static_cast<size_t>(q * static_cast<double>(std::ssize(sorted) - 1));
      return sorted.empty() ? 0 : static_cast<double>(sorted[i]) / static_cast<double>(kNsPerMs);
    };
    std::vector<int64_t> firsts = first_ns_;
    std::sort(firsts.begin(), firsts.end());
    out.first_p50_ms = at(firsts, 0.5);
    out.first_p99_ms = at(firsts, 0.99);
    std::sort(choices_ns_.begin(), choices_ns_.end());
    out.choice_p50_us = 1e3 * at(choices_ns_, 0.5);
    out.choice_p99_us = 1e3 * at(choices_ns_, 0.99);
    out.within = static_cast<double>(n_within_) / static_cast<double>(std::max<int64_t>(n_looked_, 1));
    out.n_done = n_done_;
    out.reasons = reasons_;
    out.n_moved = n_moved_;
    for (const auto& fleet : fleets_)
      for (const WorkerState& w : fleet->states()) out.left_tokens += w.load_tokens + w.n_requests;
    return out;
  }

  const ModelFleet how_;
  const std::vector<ModelRequest>& trace_;
  const RouteLimits limits_;
  ManualClock clock_;
  Metrics metrics_;
  std::vector<std::shared_ptr<Fleet>> fleets_;                 // of each router,
  std::vector<std::vector<std::shared_ptr<Worker>>> workers_;  // and its workers
  std::vector<WorkerModel> models_;
  std::vector<LoadLease> leases_;              // by request
  std::vector<int64_t> first_ns_;              // likewise; −1: not yet
  using StepEnd = std::pair<int64_t, size_t>;  // when, and whose
  std::priority_queue<StepEnd, std::vector<StepEnd>, std::greater<>> steps_;
  int64_t n_done_ = 0, n_moved_ = 0, n_within_ = 0, n_looked_ = 0;
  std::vector<int64_t> choices_ns_;
  std::map<std::string, int64_t> reasons_;
};

}  // namespace quire
