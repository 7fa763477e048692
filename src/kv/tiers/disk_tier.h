// The tier on disk: a segment store with a thread that writes and two that read. The engine's thread only copies and
// looks up. Blocks that wait to be written are bounded, and so are bytes that were read and not yet taken; what comes
// beyond is refused, and computed again when it is wanted. All that waits is written and synced together: while one
// sync runs the next group gathers. A write that fails turns writing off for a while, longer each time, with one line
// in the log; reading goes on. Its threads outlive a lack of memory: what they could not do has failed.
#pragma once
#include <atomic>
#include <deque>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "kv/tiers/segment_store.h"
#include "kv/tiers/tier.h"

namespace quire {

struct DiskTierOptions {
  StoreOptions store;
  int64_t queue_bytes = int64_t{64} << 20;    // that wait to be written
  int64_t staging_bytes = int64_t{64} << 20;  // that were read and not taken
  int64_t retry_ns = 1'000'000'000;           // after a write that failed; doubles up to a minute
};

class DiskTier final : public Tier {
 public:
  // `clock` outlives it and is asked by every thread. Fails as open_tier_folder and SegmentStore::open do.
  static Result<std::unique_ptr<DiskTier>> open(const std::string& path, const DiskTierOptions& options, Clock& clock);
  static Result<std::unique_ptr<DiskTier>> open(std::unique_ptr<TierFolder> folder,
                                                const DiskTierOptions& options,
                                                Clock& clock);
  ~DiskTier() override { stop(); }

  bool offer(const LeavingBlock& block, const KvView& memory) override;
  uint8_t find(const Hash128& name) override { return store_->find(name); }
  std::shared_ptr<TierRead> read(std::vector<Spelling> wanted) override;
  int64_t predict_ns(int64_t n_blocks) override;
  TierStats stats() const override;
  void on_arrival(std::function<void()> call) override { on_arrival_ = std::move(call); }
  void stop() override;

  void wait_until_written();  // of what was offered so far, or given up; for tests

 private:
  using Block = SegmentStore::Block;
  struct Job {
    std::shared_ptr<TierRead> read;
    size_t next = 0;
  };

  DiskTier(std::unique_ptr<SegmentStore> store, const DiskTierOptions& options, Clock& clock);
  bool take(const LeavingBlock& block, const KvView& memory);
  void write_all();
  void write(std::vector<Block> blocks, const std::vector<Hash128>& names);
  void read_all();
  bool next_block(std::shared_ptr<TierRead>& read, size_t& i);
  void bring(TierRead& read, size_t i);
  void observe(int64_t ns, int64_t bytes);

  const DiskTierOptions options_;
  Clock& clock_;
  const std::unique_ptr<SegmentStore> store_;
  const std::shared_ptr<StagingRoom> room_;
  std::function<void()> on_arrival_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable to_write_, to_read_, written_;
  std::vector<Block> queue_;
  std::vector<Hash128> names_;  // of the queue's blocks
  std::set<Hash128> queued_;    // in the queue, or being written
  int64_t queued_bytes_ = 0;
  bool busy_writing_ = false, writing_off_ = false;
  std::atomic<bool> stopping_{false};
  int64_t off_until_ns_ = 0, pause_ns_ = 0;
  std::deque<Job> jobs_;
  std::vector<int64_t> reading_since_ns_;  // of each read that runs now
  double mean_read_ns_ = 0;
  int64_t read_at_ns_ = 0;  // when the last was measured
  TierStats counts_;
  std::atomic<int64_t> engine_ns_{0};

  std::thread writer_;
  std::vector<std::thread> readers_;
};

}  // namespace quire
