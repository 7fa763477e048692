#include "backend/cuda/loaded_memory.h"

#include <algorithm>
#include <chrono>

namespace quire::cuda {
namespace {

constexpr std::chrono::seconds kMostWait{5};  // longer than a step; not measured

}  // namespace

Result<Buffer> LoadedMemory::load(const std::shared_ptr<LoadedMemory>& memory, std::span<const std::byte> bytes) {
  const int64_t n_returns = memory->expect_one();
  auto data = memory->runtime_->load(bytes);
  if (!data && data.error().code == Code::exhausted && memory->wait_for_more(n_returns)) {
    data = memory->runtime_->load(bytes);
  }
  if (data) return Buffer::of({*data, [memory](std::byte* p) { memory->give_up(p); }}, std::ssize(bytes));
  const std::lock_guard held(memory->mu_);
  --memory->n_held_;
  return tl::make_unexpected(std::move(data).error());
}

int64_t LoadedMemory::expect_one() {
  const std::lock_guard held(mu_);
  gone_.reserve(gone_.size() + n_held_ + 1);
  ++n_held_;
  return n_returns_;
}

bool LoadedMemory::wait_for_more(int64_t n_returns) {
  std::unique_lock held(mu_);
  if (engine_ != std::this_thread::get_id()) returned_.wait_for(held, kMostWait, [&] { return gone_.empty(); });
  return n_returns_ != n_returns;
}

void LoadedMemory::release(std::byte* data) {
  runtime_->release(data);
  ++n_returns_;
  returned_.notify_all();
}

void LoadedMemory::give_up(std::byte* data) {
  const std::lock_guard held(mu_);
  --n_held_;
  if (is_under_way_) return gone_.push_back({data, kNone});
  release(data);
}

void LoadedMemory::begun() {
  const std::lock_guard held(mu_);
  is_under_way_ = true;
  engine_ = std::this_thread::get_id();
}

void LoadedMemory::sent(int mark) {
  const std::lock_guard held(mu_);
  for (Gone& one : gone_) one.mark = one.mark == kNone ? mark : one.mark;
}

void LoadedMemory::arrived(int mark) {
  const std::lock_guard held(mu_);
  std::erase_if(gone_, [&](const Gone& one) {
    if (one.mark == mark) release(one.data);
    return one.mark == mark;
  });
}

void LoadedMemory::finished() {
  const std::lock_guard held(mu_);
  is_under_way_ = false;
  for (const Gone& one : gone_) release(one.data);
  gone_.clear();
}

}  // namespace quire::cuda
