// One worker's KV events, in order, into the index. The one idea: what is known of a worker is all or it is not used.
// Batches are numbered, so one that is missing is seen; then the worker is asked for what is missing, or for all that
// it has, and until that is there it counts as not known. Numbers that begin anew are another process. What asks and
// listens is elsewhere (kv_feeds.h); this is told what came, and what the time is. One thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "route/kv_index.h"

namespace quire {

struct KvCounters {
  explicit KvCounters(Metrics& m);
  Counter &batches, &gaps, &restarts, &replays, &dumps, &bad, &full, &floods;
};

class KvFollower {
 public:
  // `may_ask`: the worker has an address for questions. `index` and `counters` outlive it.
  KvFollower(KvIndex& index, KvCounters& counters, uint64_t worker, std::string name, bool may_ask);

  // A message of the worker's. REQUIRES not asking(): what was published meanwhile waits in its socket.
  void hear(const std::vector<std::string>& frames, int64_t now_ns);
  // A number to ask for the batches from there on, kAll for all that there is; nullopt: nothing is to be asked now.
  // From then on it is asking, until it was told the end or gave up. Who is whole is asked for its last batch now and
  // then: nobody hears that the last one of all was lost, or that another process has come as far.
  std::optional<uint64_t> question(int64_t now_ns);
  static constexpr uint64_t kAll = UINT64_MAX;
  bool asking() const { return asked_.has_value(); }
  void told(const std::vector<std::string>& frames, int64_t now_ns);
  void give_up(int64_t now_ns);
  // What the worker has is not known any more: it was gone, or was not listened to.
  void restart(int64_t now_ns);

  bool whole() const { return whole_; }

 private:
  enum class Read : uint8_t { well, bad, full };
  Read apply(std::string_view payload, bool only_from_clear, bool& cleared);
  bool take(std::string_view payload, int64_t now_ns);
  void lose(std::string_view why, int64_t now_ns);
  void back_off(int64_t now_ns);
  void become_whole(int64_t now_ns);
  void miss(int64_t now_ns);
  bool may_log(int64_t now_ns);
  void finish(bool well, int64_t now_ns);
  bool told_batch(uint64_t number, std::string_view payload, int64_t now_ns);
  bool told_again(uint64_t number, std::string_view payload, int64_t now_ns);

  KvIndex& index_;
  KvCounters& counters_;
  const uint64_t worker_;
  const std::string name_;
  const bool may_ask_;

  bool whole_ = false;
  uint64_t next_ = 0;             // the batch that goes on from what the index has
  std::optional<uint64_t> last_;  // the last number that was heard
  std::vector<uint64_t> plan_;    // what to ask, one after the other until one answer does
  std::optional<uint64_t> asked_;
  int64_t n_told_ = 0, told_bytes_ = 0, told_messages_ = 0;  // in answer to it
  int64_t ask_at_ns_ = 0, wait_ms_ = 0;
  static constexpr int64_t kFirstConfirmMs = 1'000;  // it was not heard yet what was published at once
  int64_t confirm_at_ns_ = 0, confirm_ms_ = kFirstConfirmMs;
  uint64_t last_payload_ = 0;  // a hash of the batch before next_, 0: not known
  int64_t n_good_ = 0;         // batches since something was wrong
  int64_t log_at_ns_ = 0;      // what changes before is not logged
};

}  // namespace quire
