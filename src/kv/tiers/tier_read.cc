#include "base/check.h"
#include "kv/tiers/tier.h"

namespace quire {

TierRead::~TierRead() { abandon(); }

std::string_view name_of(TierPlace place) { return place == TierPlace::disk ? "disk" : "remote"; }

void TierRead::leave_room(Slot& slot, size_t n_bytes) {
  if (slot.room != nullptr) slot.room->give_back(static_cast<int64_t>(n_bytes));
  slot = {State::missing, {}, nullptr};
}

void TierRead::give(size_t i, TierBlock block, const std::shared_ptr<StagingRoom>& room) {
  const std::lock_guard lock(mutex_);
  if (abandoned_) return;
  QR_CHECK(slots_[i].state == State::coming, "a block came twice");
  if (room != nullptr) room->take(static_cast<int64_t>(block.bytes.size()));
  slots_[i] = {State::here, std::move(block), room};
}

void TierRead::lose(size_t i) {
  const std::lock_guard lock(mutex_);
  slots_[i].state = State::missing;
}

TierRead::State TierRead::take(size_t i, TierBlock& out) {
  const std::lock_guard lock(mutex_);
  const State state = slots_[i].state;
  if (state != State::here) return state;
  out = std::move(slots_[i].block);
  leave_room(slots_[i], out.bytes.size());
  return state;
}

void TierRead::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  for (Slot& slot : slots_) {
    if (slot.state == State::here) leave_room(slot, slot.block.bytes.size());
  }
}

}  // namespace quire
