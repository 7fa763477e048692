// What an operator sees of requests and of the engine, under vLLM's names with the prefix quire_. Counting is atomics
// on fixed addresses; label values are endpoints, statuses and codes of ours, never a client's words. Any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/metrics.h"
#include "engine/snapshot.h"
#include "serve/api.h"

namespace quire {

// What a step moves and computes, and what the machine could: for the shares of both. 0: not known.
struct MachineFacts {
  double bandwidth = 0, peak = 0;             // bytes and operations per second, probed
  double step_bytes = 0, kv_token_bytes = 0;  // read by a step: the weights, and a cached token
  double row_ops = 0, head_ops = 0;           // of a row, without the head; of the head for one token
};

class ServeMetrics {
 public:
  explicit ServeMetrics(Metrics& metrics);

  void count_request(std::string_view endpoint, int status);
  void count_rejected(std::string_view reason) const;
  void count_finished(FinishReason reason, const Usage& usage);
  void count_asked(int n, int max_tokens);  // of a request that begins
  void count_longest(int64_t n_tokens) { most_tokens_.observe(static_cast<double>(n_tokens)); }
  // Of the longest sequence that has finished, prompt and answer.
  int64_t n_tokens_max() const { return n_tokens_max_.load(std::memory_order_relaxed); }
  // Sets what mirrors the engine's own counters; before each scrape.
  void refresh(const EngineStats& stats, int64_t n_preparing);
  // What tiers below the cache have and did, where there are some; likewise.
  void refresh_tiers(const EngineStats& stats);
  // Who guessed ahead, where somebody did, by the engine's list of proposers; likewise.
  void refresh_drafters(const EngineStats& stats, std::string_view proposers);
  // What is pinned, where something may be; likewise.
  void refresh_pins(const EngineStats& stats);
  void refresh_swaps(const EngineStats& stats);
  void refresh_retention(const EngineStats& stats);
  // What the engine has moved and computed, and what the machine could; before each scrape.
  void refresh_machine(const EngineStats& stats, const MachineFacts& facts);

  Histogram &first_token, &inter_token, &request;  // seconds
  Counter& aborted;                                // sequences whose client left
  Counter &cancelled, &failed, &stalled;

 private:
  void refresh_tier(const TierStats& tier);  // REQUIRES mu_
  void refresh_drafts(const EngineStats& stats);
  // REQUIRE mu_. A counter of ours becomes the total that the engine counted.
  void set(std::string_view name, std::string_view help, double v, const MetricLabels& labels = {});
  void count(std::string_view name, std::string_view help, int64_t total, const MetricLabels& labels = {});
  void mirror(Counter& counter, int64_t total);

  Metrics& metrics_;
  Histogram &queue_, &prefill_, &decode_, &inference_, &per_token_, &prompt_tokens_, &generation_tokens_, &most_tokens_,
      &max_tokens_, &n_;
  Counter* finished_[3];  // by FinishReason
  std::atomic<int64_t> n_tokens_max_{0};
  std::mutex mu_;
};

}  // namespace quire
