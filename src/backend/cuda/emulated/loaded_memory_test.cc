// When memory of adapters goes back to the device.
#include "backend/cuda/loaded_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "backend/cuda/backend.h"
#include "backend/cuda/emulated/runtime_fake.h"

namespace quire::cuda {
namespace {

struct Fixture {
  std::shared_ptr<Runtime> runtime = make_fake_runtime({.bytes = 1 << 20});
  std::shared_ptr<LoadedMemory> memory = std::make_shared<LoadedMemory>(runtime);
  const int64_t all = runtime->free_bytes();
  Buffer load(int64_t bytes) const {
    return *LoadedMemory::load(memory, std::vector<std::byte>(static_cast<size_t>(bytes)));
  }
  bool has_all() const { return runtime->free_bytes() == all; }
};

TEST(LoadedMemory, GoesAtOnceWhereNothingIsUnderWay) {
  const Fixture of;
  {
    const Buffer one = of.load(100);
    EXPECT_EQ(one.bytes(), 100);
    EXPECT_FALSE(of.has_all());
  }
  EXPECT_TRUE(of.has_all());
}

TEST(LoadedMemory, StaysWhileAKernelMayReadIt) {
  const Fixture of;
  std::optional<Buffer> one(of.load(100));
  of.memory->begun();
  std::thread([&] { one.reset(); }).join();
  EXPECT_FALSE(of.has_all());
  of.memory->finished();
  EXPECT_TRUE(of.has_all());
}

// Behind a mark that was set when it went, not behind an earlier one.
TEST(LoadedMemory, GoesBehindTheNextMark) {
  const Fixture of;
  std::optional<Buffer> one(of.load(100));
  of.memory->begun();
  of.memory->sent(0);
  one.reset();
  of.memory->arrived(0);
  EXPECT_FALSE(of.has_all());
  of.memory->sent(1);
  of.memory->sent(0);
  of.memory->arrived(0);
  EXPECT_FALSE(of.has_all());
  of.memory->arrived(1);
  EXPECT_TRUE(of.has_all());
}

// Steps that overlap, as an engine asks for them: two slots in turns, of which each arrives before the host waits.
class Steps {
 public:
  Buffer load() {
    const std::vector<float> numbers(16, 1.0F);
    const LowRankSource from[] = {{.a = numbers, .b = numbers, .rank = 1, .n_in = 16, .n_out = 16}};
    LowRank to[1];
    return *ops_->load_low_rank(from, to);
  }
  void ask() { ops_->scale(x_, 2.0F); }
  void send(int slot) { ops_->ahead()->send({at(sent_), picked(sent_)}, {x_, picked(rows_)}, slot); }
  void take(int slot) { EXPECT_TRUE(ops_->ahead()->arrived(slot)); }
  int64_t free_bytes() const { return ops_->free_bytes(); }

 private:
  static constexpr int64_t kVocab = 8;
  static Tensor at(const Buffer& of) { return Tensor::dense(of.data(), DType::f32, {1, kVocab}); }
  static Tensor picked(const Buffer& of) { return Tensor::dense(of.data() + kVocab * 4, DType::i32, {1}); }
  std::unique_ptr<Ops> ops_ = *CudaOps::make(make_fake_runtime({}), plain_sample_kernels());
  Buffer rows_ = *ops_->allocate(64), sent_ = *ops_->ahead()->allocate_sent(64);
  Tensor x_ = at(rows_);
};

TEST(LoadedMemory, GoesAtOnceWhereEveryStepHasArrived) {
  Steps steps;
  const int64_t all = steps.free_bytes();
  for (int turn = 0; turn < 2; ++turn) {
    std::optional<Buffer> first(steps.load()), second(steps.load()), third(steps.load());
    for (const int slot : {0, 1}) {
      steps.ask();
      steps.send(slot);
    }
    first.reset();
    steps.take(0);
    second.reset();
    EXPECT_LT(steps.free_bytes(), all);  // the other step may read them
    steps.take(1);
    EXPECT_LT(steps.free_bytes(), all);
    third.reset();
    EXPECT_EQ(steps.free_bytes(), all);
  }
}

// Behind the last mark more was asked for.
TEST(LoadedMemory, StaysWhileWhatNoMarkStandsBehindMayReadIt) {
  Steps steps;
  const int64_t all = steps.free_bytes();
  std::optional<Buffer> one(steps.load());
  steps.ask();
  steps.send(0);
  steps.ask();
  steps.take(0);
  one.reset();
  EXPECT_LT(steps.free_bytes(), all);
  steps.send(1);
  steps.take(1);
  EXPECT_EQ(steps.free_bytes(), all);
}

// A load that needs what was given up before waits for the step that may still read it.
TEST(LoadedMemory, WhatIsOnItsWayBackMakesRoom) {
  const Fixture of;
  std::optional<Buffer> one(of.load(700 << 10));
  of.memory->begun();
  one.reset();
  std::atomic<bool> is_loaded = false;
  std::thread other([&] {
    EXPECT_TRUE(LoadedMemory::load(of.memory, std::vector<std::byte>(600 << 10)));
    is_loaded = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(is_loaded);
  of.memory->sent(0);
  of.memory->arrived(0);
  other.join();
  of.memory->finished();
  EXPECT_TRUE(of.has_all());
}

// It would wait for itself.
TEST(LoadedMemory, TheThreadThatAsksTheDeviceDoesNotWait) {
  const Fixture of;
  std::optional<Buffer> one(of.load(700 << 10));
  of.memory->begun();
  one.reset();
  EXPECT_EQ(LoadedMemory::load(of.memory, std::vector<std::byte>(600 << 10)).error().code, Code::exhausted);
  of.memory->finished();
  EXPECT_TRUE(LoadedMemory::load(of.memory, std::vector<std::byte>(600 << 10)));
}

TEST(LoadedMemory, WhatDoesNotFitIsRefusedWithItsSize) {
  const Fixture of;
  const auto got = LoadedMemory::load(of.memory, std::vector<std::byte>(2 << 20));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::exhausted);
  EXPECT_EQ(got.error().message, "cannot allocate 2097152 bytes on the device, 1048576 are left");
  EXPECT_TRUE(of.has_all());
}

}  // namespace
}  // namespace quire::cuda
