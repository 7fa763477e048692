// When memory of adapters goes back to the device.
#include "backend/cuda/loaded_memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

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
