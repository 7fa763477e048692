// The workers that there are now, and the choice among them. The one idea: a worker's load is charged in the same
// moment in which it is chosen, under one lock, so no two requests choose by the same numbers. Workers may come and go
// while requests are under way: who holds one keeps it. Any thread; nothing here waits for a worker.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "route/kv_index.h"
#include "route/policy.h"
#include "route/prefix_map.h"
#include "route/replicas.h"
#include "route/session_map.h"
#include "route/worker.h"
#include "route/worker_word.h"

namespace quire {

// What is asked of the fleet.
struct RouteAsk {
  std::optional<Hash128> session;                // stays where it was, while that is within the bound of load
  bool pinned = false;                           // what it goes on from is there and nowhere else: no other will do
  std::string model;                             // only workers that list it, where any does
  std::string local;                             // the local engine of this model alone; empty: none of them
  std::vector<uint64_t> blocks;                  // asked.h
  std::vector<KvIndex::Hit> held;                // what workers say that they have of it, in place of what is guessed
  uint64_t key = 0;                              // where there is no session: of the prompt's beginning
  int64_t prompt_tokens = 0, answer_tokens = 0;  // as estimated
  int64_t n_requests = 1;                        // as workers count: each choice of each prompt
};

inline constexpr std::string_view kAtHome = "session";  // the reason where a session stays
struct Picked {
  std::shared_ptr<Worker> worker;
  std::string_view reason;
  LoadLease load;
  int64_t hit_tokens = 0;  // of the prompt's beginning that it is thought to hold
};

// How a worker is, for /workers and the metrics.
struct WorkerState {
  uint64_t id = 0;
  std::string name;
  bool up = false, ejected = false, usable = false;
  int64_t load_tokens = 0, n_requests = 0, others_tokens = 0, unseen_requests = 0;
  uint64_t n_given = 0, n_failures = 0;
};

// What is remembered of prompts grows with the workers, up to so many.
inline constexpr int64_t kMostKnownWorkers = 1024;

class Fleet : public std::enable_shared_from_this<Fleet> {
 public:
  // REQUIRES `policy` is registered; `limits`, `clock` and `metrics` outlive the fleet.
  Fleet(std::string_view policy, const RouteLimits& limits, Clock& clock, Metrics& metrics);

  // The workers from now on: those that are new are asked for their health, those that are not named any more get no
  // further requests. The same ones keep what is known of them.
  void set_workers(const std::vector<WorkerSpec>& workers);
  // Called, without a lock, when a worker may be given requests that might not before.
  void on_more(std::function<void()> fn);

  // None of `not_these`. Nullopt: no other worker may be given this now. A session that is pinned to a worker of the
  // fleet goes there or, while that may be given nothing, nowhere; its place stays the same whatever is chosen.
  std::optional<Picked> choose(const RouteAsk& ask, std::span<const std::shared_ptr<Worker>> not_these);
  // Who may be asked for the tokens of this prompt, the least loaded first in mind; null: nobody. Nothing is charged.
  std::shared_ptr<Worker> who_may_say(const RouteAsk& ask);
  // The model whose cached beginnings an activated adapter of this name shares, by its workers' word; empty: none.
  std::string base_of(const std::string& model) const;
  // Whether the policy goes by what workers hold, and a worker's adapter is not what this model's name stands for.
  bool goes_by_tokens(const std::string& model) const;
  // Where a later request of this session belongs: a worker's id. One that is not of the fleet is not taken.
  void remember(const Hash128& session, uint64_t worker, bool pinned);
  // Whether that is known.
  bool knows(const Hash128& session) const;

  void worked(Worker& worker);
  void failed(Worker& worker);
  void unreached(Worker& worker);
  void rest(Worker& worker, int64_t ms);
  void probed(Worker& worker, Probe probe);
  void set_models(Worker& worker, Json::Array models);

  // What this router gave its workers that they have not answered; those that have nothing are left out.
  std::vector<WorkerLoad> loads() const;
  // What all other routers gave them, from now on: it counts as load. Ids that are not of the fleet mean nothing.
  void set_others(std::span<const WorkerLoad> others);
  // Requests at a worker that this router knows of: what it gave itself, and what other routers say. As workers count.
  int64_t n_known(const Worker& worker) const;
  // What the worker said that it has to do; nullopt, or it is not up: nothing. `n_known_before`: when it was asked.
  // What it has beyond what is known, in the mean of its words, counts as load, each request as much as one of ours
  // usually.
  void said(Worker& worker, const std::optional<WorkerWord>& word, int64_t n_known_before);

  // What this router has given its workers, but for local engines. `n_waiting`: requests for which there is none now.
  FleetWork work(int64_t n_waiting) const;

  std::vector<std::shared_ptr<Worker>> workers() const;
  std::vector<WorkerState> states() const;
  // The name of the worker that a session is at; empty: nobody knows, or that is not of the fleet.
  std::string home(const Hash128& session) const;
  // The model of the local engine that a session is at; empty: it is at none, or nobody knows.
  std::string local_home(const Hash128& session) const;
  // Whether there are workers beside local engines.
  bool has_remote() const;
  // Entries of /v1/models of all workers that may be given requests, each id once; of a local engine its model alone.
  Json::Array models() const;
  bool any_usable() const;
  // Whether the worker of this name is well by its own word.
  bool is_up(std::string_view name) const;

 private:
  friend class LoadLease;
  void release(Worker& worker, const Charge& charge, bool has_begun);
  void begins(Worker& worker, const Charge& charge, int64_t after_ns);
  void drop_hints(Worker& worker);
  void note_failure(Worker& worker);
  bool has(uint64_t worker) const;
  const Worker* home_of(const Hash128& session) const;  // null: nobody knows, or it is not of the fleet
  void find_candidates(const RouteAsk& ask,
                       uint64_t only,
                       std::span<const std::shared_ptr<Worker>> not_these,
                       int64_t now_ns);
  void fill_hits(const RouteAsk& ask);
  void count_source(const RouteAsk& ask, uint64_t worker);
  RouteChoice pick(const RouteAsk& ask, uint64_t last);
  void number_models();
  uint32_t number_of_model(std::string_view name) const;
  void note_charge(const Charge& charge);
  double token_ns_of(const Worker& worker) const;
  void forget_word(Worker& worker);
  void count(std::string_view reason);

  const RoutePolicyEntry policy_;
  const RouteLimits& limits_;
  Clock& clock_;
  Metrics& metrics_;
  mutable std::mutex mu_;  // guards what follows
  std::vector<std::shared_ptr<Worker>> workers_;
  SessionMap sessions_;
  PrefixMap prefixes_;
  std::unordered_map<uint64_t, const Worker*> holders_;  // of workers_, by their number in the prefix map
  uint64_t next_holder_ = 1;
  uint64_t turn_ = 0;
  double given_ns_ = 0;                          // that prompts take, of all that were given
  double usual_tokens_ = 0, usual_prefill_ = 0;  // of a request's charge; 0: there was none
  double usual_token_ns_ = 0;                    // as Worker has it, of all; 0: no answer has begun yet
  std::map<std::string_view, Counter*> by_reason_;
  Counter &known_by_events_, &known_by_text_;
  std::map<std::string, uint32_t, std::less<>> models_;    // of workers that are there, from 1
  std::set<std::string, std::less<>> adapters_;            // of them, those that say they have a parent,
  std::map<std::string, std::string, std::less<>> bases_;  // and the parents of those that are activated
  std::vector<size_t> from_;                               // of one choice: places in workers_,
  std::vector<WorkerView> views_;                          // and what is seen there
  std::function<void()> on_more_;
};

}  // namespace quire
