// Copies of cache blocks beside what the device computes: bytes, order, and that an order that is left out is told.
#include "backend/cuda/block_copies.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/emulated/counting_runtime.h"

namespace quire::cuda {
namespace {

constexpr int kSeeds = 24;
constexpr int64_t kBlock = 512;

using Bytes = std::vector<std::byte>;

Bytes pattern(int64_t n, int what) {
  Bytes out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<std::byte>(i * 7 + what * 31 + i / 251));
  return out;
}

// Device memory, and copies of it.
struct Device {
  explicit Device(std::shared_ptr<Runtime> of, int64_t bytes = 4 * kBlock)
      : runtime(std::move(of)), copies(runtime), memory(*runtime->allocate(bytes, Place::device)) {}
  ~Device() {
    runtime->wait();
    copies.wait();
    runtime->release(memory);
  }
  void put(const std::byte* at, const Bytes& bytes) {
    EXPECT_TRUE(copies.begin_writes());
    EXPECT_EQ(copies.state(copies.write(const_cast<std::byte*>(at), bytes.data(), std::ssize(bytes)), true),
              CopyState::done);
  }
  Bytes get(const std::byte* at, int64_t n) {
    Bytes out(static_cast<size_t>(n));
    EXPECT_EQ(copies.state(copies.read(out.data(), at, n), true), CopyState::done);
    return out;
  }

  std::shared_ptr<Runtime> runtime;
  BlockCopies copies;
  std::byte* memory;
};

TEST(BlockCopies, BytesComeAndGoThroughARing) {
  constexpr int kBlocks = 3 * kCopyMarks;
  for (const int64_t bytes : {int64_t{4}, int64_t{5000}, BlockCopies::kSlotBytes, 2 * BlockCopies::kSlotBytes + 100}) {
    RuntimeCalls calls;
    Device device(std::make_shared<CountingRuntime>(calls), kBlocks * bytes);
    std::vector<Bytes> back(kBlocks, Bytes(static_cast<size_t>(bytes)));
    Bytes source;
    int64_t last = 0;
    for (int i = 0; i < kBlocks; ++i) {
      source = pattern(bytes, i);
      last = device.copies.write(device.memory + i * bytes, source.data(), bytes);
      std::ranges::fill(source, std::byte{0});  // it is the caller's again
    }
    EXPECT_EQ(device.copies.state(last, true), CopyState::done);
    for (size_t i = 0; i < back.size(); ++i)
      last = device.copies.read(back[i].data(), device.memory + static_cast<int64_t>(i) * bytes, bytes);
    EXPECT_EQ(device.copies.state(last, true), CopyState::done);
    for (int i = 0; i < kBlocks; ++i) EXPECT_EQ(back[static_cast<size_t>(i)], pattern(bytes, i)) << i;
    EXPECT_EQ(calls.n_waits, 0) << "for nothing but copies";
    EXPECT_EQ(calls.n_beside, 2 * kBlocks * ((bytes + BlockCopies::kSlotBytes - 1) / BlockCopies::kSlotBytes));
    EXPECT_EQ(calls.n_alive, 1 + 2 * kCopyMarks);
  }
}

TEST(BlockCopies, WhetherOneIsDoneIsAskedWithoutWaiting) {
  int n_under_way = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Device device(make_fake_runtime({.seed = seed}));
    const Bytes bytes = pattern(kBlock, 1);
    const int64_t copy = device.copies.write(device.memory, bytes.data(), kBlock);
    int n_asked = 0;
    while (device.copies.state(copy, false) == CopyState::under_way) ASSERT_LT(++n_asked, 100);
    n_under_way += n_asked;
    EXPECT_EQ(device.copies.state(copy, false), CopyState::done);
    EXPECT_EQ(device.get(device.memory, kBlock), bytes);
  }
  EXPECT_GT(n_under_way, 0);
}

// How often one of the seeds leaves what it should not.
template <class F>
int n_wrong(FakeOptions options, const F& is_right) {
  int out = 0;
  for (options.seed = 0; options.seed < kSeeds; ++options.seed) {
    Device device(make_fake_runtime(options));
    out += is_right(device) ? 0 : 1;
  }
  return out;
}

// A row of a sequence that has ended may still be computed into a block that is written anew.
TEST(BlockCopies, WritesComeBehindWhatIsUnderWay) {
  const Bytes row = pattern(kBlock, 1), block = pattern(kBlock, 2);
  const auto is_right = [&](Device& device) {
    device.runtime->upload(device.memory, row.data(), kBlock);
    device.put(device.memory, block);
    device.runtime->wait();
    return device.get(device.memory, kBlock) == block;
  };
  EXPECT_EQ(n_wrong({}, is_right), 0);
  EXPECT_GT(n_wrong({.forgets_put_behind = true}, is_right), 0);
}

TEST(BlockCopies, WhatIsReadIsNotOverwrittenByWhoTakesItNext) {
  const Bytes block = pattern(kBlock, 1), row = pattern(kBlock, 2);
  const auto is_right = [&](Device& device) {
    device.put(device.memory + kBlock, block);
    Bytes back(kBlock);
    const int64_t copy = device.copies.read(back.data(), device.memory + kBlock, kBlock);
    EXPECT_FALSE(device.copies.reuse(device.memory, kBlock)) << "that is another one";
    device.copies.reuse(device.memory + kBlock, kBlock);
    device.runtime->upload(device.memory + kBlock, row.data(), kBlock);
    device.runtime->wait();
    EXPECT_EQ(device.copies.state(copy, true), CopyState::done);
    return back == block;
  };
  EXPECT_EQ(n_wrong({}, is_right), 0);
  EXPECT_GT(n_wrong({.forgets_wait_on_device = true}, is_right), 0);
}

// Whose load was given up has blocks on their way.
TEST(BlockCopies, AWriteThatNobodyWantsComesBeforeWhoTakesTheBlockNext) {
  const Bytes block = pattern(kBlock, 1), row = pattern(kBlock, 2);
  const auto is_right = [&](Device& device) {
    device.copies.write(device.memory, block.data(), kBlock);
    device.copies.reuse(device.memory, kBlock);
    device.runtime->upload(device.memory, row.data(), kBlock);
    device.runtime->wait();
    device.copies.wait();
    return device.get(device.memory, kBlock) == row;
  };
  EXPECT_EQ(n_wrong({}, is_right), 0);
  EXPECT_GT(n_wrong({.forgets_wait_on_device = true}, is_right), 0);
}

// And where it is a load that takes it.
TEST(BlockCopies, ABlockThatIsReadIsWrittenAfterwards) {
  const Bytes before = pattern(kBlock, 1), after = pattern(kBlock, 2);
  const auto is_right = [&](Device& device) {
    device.put(device.memory, before);
    Bytes back(kBlock);
    const int64_t copy = device.copies.read(back.data(), device.memory, kBlock);
    device.copies.reuse(device.memory, kBlock);
    device.put(device.memory, after);
    EXPECT_EQ(device.copies.state(copy, true), CopyState::done);
    return back == before && device.get(device.memory, kBlock) == after;
  };
  EXPECT_EQ(n_wrong({}, is_right), 0);
  EXPECT_GT(n_wrong({.forgets_put_behind = true}, is_right), 0);
}

TEST(BlockCopies, PinnedMemoryUnderWayIsNotTouched) {
  const auto runtime = make_fake_runtime({});
  std::byte *device = *runtime->allocate(64, Place::device), *pinned = *runtime->allocate(64, Place::pinned);
  const auto touch = [&] { pinned[3] = std::byte{1}; };
  touch();
  EXPECT_TRUE(runtime->copy_beside(CopyStream::in, device, pinned, 64, 0));
  EXPECT_EQ(pinned[3], std::byte{1});
  EXPECT_DEATH(touch(), "");
  runtime->wait();  // the streams beside are not waited for
  EXPECT_TRUE(runtime->wait_beside(CopyStream::in, 0));
  touch();
  EXPECT_TRUE(runtime->copy_beside(CopyStream::out, pinned, device, 64, 0));
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile std::byte*>(pinned)), "");
  EXPECT_DEATH(runtime->release(pinned), "a copy of it is under way");
  EXPECT_TRUE(runtime->wait_beside(CopyStream::out));
  touch();
  runtime->release(pinned);
  runtime->release(device);
}

// Where one fails those under way have failed, and the next ones are done.
TEST(BlockCopies, OneThatFailsTakesThoseUnderWayAlong) {
  class Failing final : public CountingRuntime {
   public:
    using CountingRuntime::CountingRuntime;
    Status copy_beside(CopyStream stream, std::byte* to, const std::byte* from, int64_t bytes, int mark) override {
      if (--n_left == 0) return fail(Code::internal, "cuMemcpyHtoDAsync_v2: not today");
      return CountingRuntime::copy_beside(stream, to, from, bytes, mark);
    }
    int n_left = 0;
  };
  RuntimeCalls calls;
  const auto runtime = std::make_shared<Failing>(calls);
  Device device(runtime);
  const Bytes bytes = pattern(kBlock, 1);
  Bytes back(kBlock), other(kBlock);
  const auto write = [&] { return device.copies.write(device.memory, bytes.data(), kBlock); };
  const int64_t done = write();
  EXPECT_EQ(device.copies.state(done, true), CopyState::done);
  const int64_t read = device.copies.read(back.data(), device.memory, kBlock);
  runtime->n_left = 2;
  const int64_t first = write();
  EXPECT_EQ(write(), Copier::kFailed);
  EXPECT_EQ(device.copies.state(first, true), CopyState::failed);
  EXPECT_EQ(device.copies.state(read, true), CopyState::done) << "of the other direction";
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(device.copies.state(write(), true), CopyState::done);
  const int64_t given_up = device.copies.read(other.data(), device.memory, kBlock);
  device.copies.give_up();
  EXPECT_EQ(device.copies.state(given_up, false), CopyState::failed);
  EXPECT_EQ(other, Bytes(kBlock));
  EXPECT_EQ(device.get(device.memory, kBlock), bytes);
}

}  // namespace
}  // namespace quire::cuda
