#include "backend/cuda/loaded_memory.h"

#include <algorithm>

namespace quire::cuda {

Result<Buffer> LoadedMemory::load(const std::shared_ptr<LoadedMemory>& memory, std::span<const std::byte> bytes) {
  QR_TRY(std::byte * data, memory->runtime_->load(bytes));
  return Buffer::of({data, [memory](std::byte* p) { memory->give_up(p); }}, std::ssize(bytes));
}

void LoadedMemory::give_up(std::byte* data) {
  const std::lock_guard held(mu_);
  if (is_under_way_) return gone_.push_back({data, kNone});
  runtime_->release(data);
}

void LoadedMemory::begun() {
  const std::lock_guard held(mu_);
  is_under_way_ = true;
}

void LoadedMemory::sent(int mark) {
  const std::lock_guard held(mu_);
  for (Gone& one : gone_) one.mark = one.mark == kNone ? mark : one.mark;
}

void LoadedMemory::arrived(int mark) {
  const std::lock_guard held(mu_);
  std::erase_if(gone_, [&](const Gone& one) {
    if (one.mark == mark) runtime_->release(one.data);
    return one.mark == mark;
  });
}

void LoadedMemory::finished() {
  const std::lock_guard held(mu_);
  is_under_way_ = false;
  for (const Gone& one : gone_) runtime_->release(one.data);
  gone_.clear();
}

}  // namespace quire::cuda
