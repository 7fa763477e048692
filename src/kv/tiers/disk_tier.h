// The tier on disk: a segment store with a thread that writes and two that read. The engine's thread only copies and
// looks up. Blocks that wait to be written are bounded, and so are bytes that were read and not yet taken; what comes
// beyond is refused, and computed again when it is wanted. All that waits is written and synced together: while one
// sync runs the next group gathers. A write that fails turns writing off for a while, longer each time, with one line
// in the log; reading goes on. Its threads outlive a lack of memory: what they could not do has failed.
#pragma once
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "kv/tiers/read_jobs.h"
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

  TierPlace place() const override { return TierPlace::disk; }
  TierWish wish(const LeavingBlock& block) override;
  bool take(const Spelling& block, TierBlock bytes) override;
  uint8_t find(const Hash128& name) override { return store_->find(name); }
  std::shared_ptr<TierAnswer> ask(std::vector<Hash128>) override { return nullptr; }
  int retain(std::span<const NamedWish> wishes, int64_t now_ns) override { return store_->retain(wishes, now_ns); }
  void bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) override;
  int64_t predict_ns(int64_t n_blocks) override;
  TierStats stats() const override;
  void on_arrival(std::function<void()> call) override { on_arrival_ = std::move(call); }
  void stop() override;

  void wait_until_written();  // of what was offered so far, or given up; for tests

 private:
  static constexpr int kReaders = 2;
  using Block = SegmentStore::Block;
  DiskTier(std::unique_ptr<SegmentStore> store, const DiskTierOptions& options, Clock& clock);
  TierWish wish_for(const Hash128& name, int64_t bytes, int64_t now_ns);
  void write_all();
  void write(std::vector<Block> blocks, const std::vector<Hash128>& names);
  void read_all();
  bool next_block(std::shared_ptr<TierRead>& read, size_t& i);
  void bring_block(TierRead& read, size_t i);

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
  ReadJobs jobs_;
  CallTimes times_{kReaders};  // of reads
  TierStats counts_;
  std::atomic<int64_t> engine_ns_{0};

  std::thread writer_;
  std::vector<std::thread> readers_;
};

}  // namespace quire
