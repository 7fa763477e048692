// What a load run saw, added up as it goes: memory does not grow with the number of requests, but for one row a second.
// One thread at a time.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "app/load/histogram.h"
#include "app/remote.h"
#include "base/json.h"

namespace quire {

// What a request must keep to count as good; 0: not asked.
struct LoadSlo {
  double ttft_ms = 0;  // to the first text
  double tpot_ms = 0;  // mean time per token after the first
  double e2e_ms = 0;
  bool any() const { return ttft_ms > 0 || tpot_ms > 0 || e2e_ms > 0; }
};

class LoadReport {
 public:
  LoadReport(LoadSlo slo, int64_t start_ns) : slo_(slo), start_ns_(start_ns) {}

  // `due_ns`: when the request should have been sent. Every latency counts from there, whenever it was sent, so a
  // server (or a client) that falls behind cannot hide it.
  void add(int64_t due_ns, const RemoteAnswer& answer);

  // Rates are over the time from the start to the last answer.
  Json json() const;
  std::string text() const;
  // second,begun,ended,failed,pieces (events with text): one line a second.
  std::string timeline_csv() const;
  int64_t n_ended() const { return n_ok_ + n_left_ + n_failed_; }
  int64_t n_ok() const { return n_ok_; }

 private:
  struct Second {
    int64_t n_begun = 0, n_ended = 0, n_failed = 0, n_pieces = 0;
  };
  Second& second_of(int64_t at_ns);
  bool is_good(int64_t due_ns, const RemoteAnswer& answer, int64_t n_tokens) const;
  double seconds() const { return static_cast<double>(end_ns_ - start_ns_) * 1e-9; }

  LoadSlo slo_;
  int64_t start_ns_, end_ns_ = 0;
  int64_t n_ok_ = 0, n_left_ = 0, n_failed_ = 0, n_good_ = 0, n_good_tokens_ = 0;
  int64_t n_prompt_ = 0, n_cached_ = 0, n_tokens_ = 0;
  std::map<std::string, int64_t> failures_;
  std::map<std::string, std::string> examples_;  // the first message of each failure
  LatencyHistogram ttft_, itl_, tpot_, e2e_, lag_, refusal_;
  std::vector<Second> timeline_;
};

}  // namespace quire
