// A tier below memory under the simulation's clock, without threads: reads come block by block when their time has
// come. By chance they take long, never end or bring nothing. What lies there, and what else befalls it, is a tier's
// own (SimTier, a disk; SimRemote, a store of several servers). One thread.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "kv/tiers/tier.h"

namespace quire::sim {

class TimedTier : public Tier {
 public:
  struct Counts {
    int64_t given = 0, lost = 0, stalled = 0, let_go = 0;  // blocks; reads that nobody wanted any more
  };
  struct Speed {
    int64_t read_ns = 0;   // of a block, and up to twice as long
    int one_fault_in = 0;  // 0: nothing goes wrong
  };

  TimedTier(uint64_t seed, const Speed& speed) : rng_(seed), speed_(speed) {}

  void bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) override;
  int64_t predict_ns(int64_t n_blocks) override;
  TierStats stats() const override { return {}; }
  void on_arrival(std::function<void()> call) override { on_arrival_ = std::move(call); }
  void stop() override {}

  // Before a step: takes in what was offered, gives what has come by now.
  void tell_time(int64_t now_ns);
  // When something comes next; -1: nothing does.
  virtual int64_t next_ns() const;
  // Whether somebody waits for a block whose tokens these have, at a whole number of blocks of `block_tokens`.
  bool brings(const std::vector<Token>& tokens, int block_tokens) const;
  // Whether somebody waits for what it will say of one of these names.
  virtual bool answers(const std::vector<Hash128>& /*names*/) const { return false; }
  // What somebody has a right to still.
  virtual size_t n_wanted() const;
  const Counts& counts() const { return counts_; }

 protected:
  // What lies there under that name and spells the same; none: it cannot be had.
  virtual std::optional<TierBlock> read(const Spelling& wanted) = 0;
  // Before anything comes; true: something else came.
  virtual bool take_time() = 0;

  bool one_in(int64_t n) { return n > 0 && rng_.between(1, n) == 1; }
  // When what begins then is due: up to twice as long as usual, by chance fifty times as long, or never.
  int64_t due_ns(int64_t usual_ns, int64_t since_ns);
  Rng& rng() { return rng_; }
  int one_fault_in() const { return speed_.one_fault_in; }
  int64_t now_ns() const { return now_ns_; }
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

 private:
  struct Job {
    std::shared_ptr<TierRead> read;
    size_t next = 0, end = 0;
    int64_t since_ns = 0, due_ns = 0;
  };
  void begin_block(Job& job, int64_t since_ns);
  void bring_block(Job& job);

  Rng rng_;
  const Speed speed_;
  std::function<void()> on_arrival_;
  std::vector<Job> jobs_;
  int64_t now_ns_ = 0;
  double mean_read_ns_ = 0;
  Counts counts_;
};

}  // namespace quire::sim
