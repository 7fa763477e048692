#include "tests/sim/sim_tier.h"

#include <algorithm>
#include <cstring>

#include "kv/tiers/tier_copy.h"

namespace quire::sim {
namespace {

constexpr size_t kMostOffered = 256;

}  // namespace

SimTier::SimTier(const Script& script, const StoreShape& shape)
    : TimedTier(mix64(script.seed ^ 0x71e4), {script.knobs.tier_read_ns, script.knobs.tier_fault_in}) {
  disk_.fails = [this](TestDisk::Op op, const std::string&) {
    return (op == TestDisk::Op::read || op == TestDisk::Op::write) && one_in(one_fault_in());
  };
  const int64_t a_block = shape.bytes_of(shape.all_groups()) + 512;
  const int64_t most = std::max(least_store_bytes(shape), script.knobs.tier_blocks * a_block);
  auto opened = SegmentStore::open(std::make_unique<TestFolder>(disk_), {shape, most, 0});
  QR_CHECK(opened.has_value());
  store_ = std::move(*opened);
}

TierWish SimTier::wish(const LeavingBlock& block) {
  const uint8_t groups = groups_of(block.blocks);
  if ((store_->find(block.name) | groups) == store_->find(block.name)) return TierWish::has;
  return offered_.size() >= kMostOffered ? TierWish::refuses : TierWish::wants;
}

bool SimTier::take(const Spelling& block, TierBlock bytes) {
  offered_.push_back({block, std::move(bytes)});
  return true;
}

// One by one, so that each write is a record.
void SimTier::write() {
  for (SegmentStore::Block& block : offered_) {
    std::vector<SegmentStore::Block> one;
    one.push_back(std::move(block));
    (void)store_->append(std::move(one));
  }
  offered_.clear();
  for (const TestDisk::Entry& entry : disk_.log) {
    if (entry.op == TestDisk::Op::write) records_.push_back({entry.name, entry.offset, entry.bytes.size()});
  }
  disk_.log.clear();
}

// A bit of something, or one record in the place of another of its size.
void SimTier::damage() {
  if (records_.empty()) return;
  const auto any = [this]() -> const Record& {
    return records_[static_cast<size_t>(rng().between(0, std::ssize(records_) - 1))];
  };
  const Record &from = any(), &to = any();
  const auto source = disk_.files.find(from.file), target = disk_.files.find(to.file);
  if (source == disk_.files.end() || target == disk_.files.end()) return;
  const auto to_at = static_cast<size_t>(to.offset);
  if (one_in(2)) {
    target->second[to_at + static_cast<size_t>(rng().between(0, static_cast<int64_t>(to.n_bytes) - 1))] ^=
        std::byte{16};
  } else if (from.n_bytes == to.n_bytes) {
    std::memmove(target->second.data() + to_at, source->second.data() + from.offset, from.n_bytes);
  }
}

std::optional<TierBlock> SimTier::read(const Spelling& wanted) {
  SegmentStore::Read got = store_->read(wanted);
  if (got.outcome != SegmentStore::Read::Outcome::found) return std::nullopt;
  return std::move(got.block);
}

bool SimTier::take_time() {
  write();
  if (one_in(4L * one_fault_in())) damage();
  return false;
}

}  // namespace quire::sim
