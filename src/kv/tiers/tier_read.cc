#include "base/check.h"
#include "kv/tiers/tier.h"

namespace quire {

TierRead::~TierRead() { abandon(); }

void TierRead::give(size_t i, TierBlock block) {
  const auto bytes = static_cast<int64_t>(block.bytes.size());
  const std::lock_guard lock(mutex_);
  if (abandoned_) return;
  QR_CHECK(slots_[i].state == State::coming, "a block came twice");
  if (room_ != nullptr) room_->take(bytes);
  slots_[i] = {State::here, std::move(block)};
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
  slots_[i] = {State::missing, {}};
  if (room_ != nullptr) room_->give_back(static_cast<int64_t>(out.bytes.size()));
  return state;
}

void TierRead::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  for (Slot& slot : slots_) {
    if (slot.state != State::here) continue;
    if (room_ != nullptr) room_->give_back(static_cast<int64_t>(slot.block.bytes.size()));
    slot = {State::missing, {}};
  }
  if (room_ != nullptr) room_->wake();
}

}  // namespace quire
