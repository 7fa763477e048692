// The disk tier under the simulation's clock: its segments over a folder in memory, without its threads. What is
// offered is written before the next step. By chance writes and reads fail, bits flip, and one block's record lies
// where another's was. One thread.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "kv/tiers/segment_store.h"
#include "kv/tiers/test_folder.h"
#include "tests/sim/script.h"
#include "tests/sim/timed_tier.h"

namespace quire::sim {

class SimTier final : public TimedTier {
 public:
  SimTier(const Script& script, const StoreShape& shape);

  TierPlace place() const override { return TierPlace::disk; }
  TierWish wish(const LeavingBlock& block) override;
  bool take(const Spelling& block, TierBlock bytes) override;
  uint8_t find(const Hash128& name) override { return store_->find(name); }
  std::shared_ptr<TierAnswer> ask(std::vector<Hash128>) override { return nullptr; }

 private:
  struct Record {
    std::string file;
    int64_t offset;
    size_t n_bytes;
  };

  std::optional<TierBlock> read(const Spelling& wanted) override;
  bool take_time() override;
  void write();
  void damage();

  TestDisk disk_;
  std::unique_ptr<SegmentStore> store_;
  std::vector<SegmentStore::Block> offered_;
  std::vector<Record> records_;
};

}  // namespace quire::sim
