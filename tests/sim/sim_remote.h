// The remote tier under the simulation's clock: values as the real one writes them, in a map in place of Redis, which
// may be what another world has left there. A question is answered when its time has come, blocks come in any order. By
// chance an answer is late, never comes or lies; a value is changed, cut, lost, or another's; the store is full, away
// or emptied. One thread.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/tiers/known_names.h"
#include "kv/tiers/segment_format.h"
#include "tests/sim/script.h"
#include "tests/sim/timed_tier.h"

namespace quire::sim {

using StoredValues = std::map<Hash128, std::string>;

class SimRemote final : public TimedTier {
 public:
  struct Told {
    int64_t asked = 0, answered = 0, lies = 0, full = 0, away = 0;
  };

  // `values` outlives it.
  SimRemote(const Script& script, StoreShape shape, StoredValues& values);

  TierPlace place() const override { return TierPlace::remote; }
  TierWish wish(const LeavingBlock& block) override;
  bool take(const Spelling& block, TierBlock bytes) override;
  uint8_t find(const Hash128& name) override { return up() ? known_.find(name, now_ns()) : uint8_t{0}; }
  std::shared_ptr<TierAnswer> ask(std::vector<Hash128> names) override;
  void bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) override;
  int64_t predict_ns(int64_t n_blocks) override;

  int64_t next_ns() const override;
  size_t n_wanted() const override;
  bool answers(const std::vector<Hash128>& names) const override;
  const Told& told() const { return told_; }

 private:
  struct Question {
    std::shared_ptr<TierAnswer> answer;
    int64_t since_ns = 0, due_ns = 0;
  };

  std::optional<TierBlock> read(const Spelling& wanted) override;
  bool take_time() override;
  bool up() const { return now_ns() >= away_until_ns_; }
  void store_all();
  void store(const Spelling& spelling, const TierBlock& block);
  void damage();
  void spoil(std::string& value);
  std::vector<uint8_t> answer_to(std::span<const Hash128> names);
  StoredValues::iterator any_value();

  const StoreShape shape_;
  const int64_t ask_ns_;
  const size_t most_values_;
  const bool evicts_;  // when it is full; or else it takes nothing for a while
  StoredValues& values_;
  KnownNames known_;
  std::vector<std::pair<Spelling, TierBlock>> offered_;
  std::vector<Question> questions_;
  int64_t away_until_ns_ = 0, off_until_ns_ = 0;
  double mean_ask_ns_ = 0;
  Told told_;
};

}  // namespace quire::sim
