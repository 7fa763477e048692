// What an operator sees of requests and of the engine, under vLLM's names with the prefix quire_. Counting is atomics
// on fixed addresses; label values are endpoints, statuses and codes of ours, never a client's words. Any thread.
#pragma once
#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/metrics.h"
#include "engine/snapshot.h"
#include "serve/api.h"

namespace quire {

class ServeMetrics {
 public:
  explicit ServeMetrics(Metrics& metrics);

  void count_request(std::string_view endpoint, int status);
  void count_rejected(std::string_view reason);
  void count_finished(FinishReason reason, const Usage& usage);
  // Sets what mirrors the engine's own counters; before each scrape.
  void refresh(const EngineStats& stats, int64_t n_preparing);

  Histogram &first_token, &inter_token, &request;  // seconds
  Counter &cancelled, &failed, &stalled;

 private:
  void mirror(Counter& counter, int64_t total);  // REQUIRES mu_

  Metrics& metrics_;
  Histogram &queue_, &prefill_, &decode_, &prompt_tokens_, &generation_tokens_;
  Counter* finished_[2];
  std::mutex mu_;
};

}  // namespace quire
