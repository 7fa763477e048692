// A tier below memory under the simulation's clock: the disk tier's segments over a folder in memory, without its
// threads. What is offered is written before the next step, what is read comes block by block when its time has come.
// By chance reads take long, never end or fail, writes fail, bits flip, and one block's record lies where another's
// was. One thread.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "kv/tiers/segment_store.h"
#include "kv/tiers/test_folder.h"
#include "kv/tiers/tier.h"
#include "tests/sim/script.h"

namespace quire::sim {

class SimTier final : public Tier {
 public:
  struct Counts {
    int64_t given = 0, lost = 0, stalled = 0, let_go = 0;  // blocks; reads that nobody wanted any more
  };

  SimTier(const Script& script, const StoreShape& shape);

  TierPlace place() const override { return TierPlace::disk; }
  bool offer(const LeavingBlock& block, const KvView& memory) override;
  uint8_t find(const Hash128& name) override { return store_->find(name); }
  std::shared_ptr<TierAnswer> ask(std::vector<Hash128>) override { return nullptr; }
  void bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) override;
  int64_t predict_ns(int64_t n_blocks) override;
  TierStats stats() const override { return {}; }
  void on_arrival(std::function<void()> call) override { on_arrival_ = std::move(call); }
  void stop() override {}

  // Before a step: writes what was offered, gives what has come by now.
  void tell_time(int64_t now_ns);
  // When the next block comes; -1: none does.
  int64_t next_ns() const;
  // Whether somebody waits for a block that is part of these tokens.
  bool brings(const std::vector<Token>& tokens) const;
  // Reads that somebody has a right to still.
  size_t n_wanted() const;
  const Counts& counts() const { return counts_; }

 private:
  struct Job {
    std::shared_ptr<TierRead> read;
    size_t next = 0, end = 0;
    int64_t since_ns = 0, due_ns = 0;
  };
  struct Record {
    std::string file;
    int64_t offset;
    size_t n_bytes;
  };

  bool one_in(int64_t n) { return n > 0 && rng_.between(1, n) == 1; }
  void begin_block(Job& job);
  void bring_block(Job& job);
  void write();
  void damage();

  const int block_tokens_;
  const int64_t read_ns_;
  const int one_fault_in_;  // 0: nothing goes wrong
  Rng rng_;
  TestDisk disk_;
  std::unique_ptr<SegmentStore> store_;
  std::function<void()> on_arrival_;
  std::vector<SegmentStore::Block> offered_;
  std::vector<Job> jobs_;
  std::vector<Record> records_;
  int64_t now_ns_ = 0;
  double mean_read_ns_ = 0;
  Counts counts_;
};

}  // namespace quire::sim
