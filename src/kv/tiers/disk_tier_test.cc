#include "kv/tiers/disk_tier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "kv/tiers/test_blocks.h"
#include "kv/tiers/test_folder.h"

namespace quire {
namespace {

using Op = TestDisk::Op;

constexpr int kBlockBytes = 64;

// A clock that every thread may ask and a test moves.
class SharedClock final : public Clock {
 public:
  int64_t now_ns() override { return now; }
  std::atomic<int64_t> now{1};
};

// A tier over a disk in memory, and what is offered to it.
struct World : TestBlocks<kBlockBytes> {
  explicit World(DiskTierOptions options = {}) {
    options.store.shape = {7, kTokens, {kBlockBytes}};
    if (options.store.most_bytes == 0) options.store.most_bytes = 1 << 20;
    settings = options;
    reopen();
  }
  void reopen() {
    tier.reset();
    auto made = DiskTier::open(std::make_unique<TestFolder>(disk), settings, clock);
    QR_CHECK(made.has_value());
    tier = std::move(*made);
    tier->on_arrival([this] {
      const std::lock_guard lock(mutex);
      ++n_arrivals;
      arrived.notify_all();
    });
  }
  bool offer(uint64_t n) const { return offer_to(*tier, n); }
  TierRead::State wait(TierRead& read, size_t i, TierBlock& out) {
    TierRead::State state = TierRead::State::coming;
    std::unique_lock lock(mutex);
    arrived.wait(lock, [&] { return (state = read.take(i, out)) != TierRead::State::coming; });
    return state;
  }
  std::shared_ptr<TierRead> read(std::vector<Spelling> wanted) const { return read_from(*tier, std::move(wanted)); }
  bool has(uint64_t n) {
    TierBlock got;
    const auto read = this->read({spelling(n)});
    if (wait(*read, 0, got) != TierRead::State::here) return false;
    EXPECT_EQ(got.bytes, bytes(n));
    return true;
  }

  TestDisk disk;
  SharedClock clock;
  DiskTierOptions settings;
  std::mutex mutex;
  std::condition_variable arrived;
  int n_arrivals = 0;
  std::unique_ptr<DiskTier> tier;
};

TEST(DiskTier, BringsWhatItTookInOrderAlsoAfterAnEnd) {
  World w;
  for (uint64_t n = 0; n < 20; ++n) EXPECT_TRUE(w.offer(n));
  EXPECT_TRUE(w.offer(3)) << "it has it";
  w.tier->wait_until_written();
  for (const bool again : {false, true}) {
    if (again) w.reopen();
    EXPECT_EQ(w.tier->find(World::spelling(3).name), 1);
    EXPECT_EQ(w.tier->find(World::spelling(20).name), 0);
    std::vector<Spelling> wanted;
    for (uint64_t n = 0; n < 20; ++n) wanted.push_back(World::spelling(n));
    wanted.push_back(World::spelling(99));
    const auto read = w.read(wanted);
    TierBlock got;
    for (uint64_t n = 0; n < 20; ++n) {
      ASSERT_EQ(w.wait(*read, n, got), TierRead::State::here);
      EXPECT_EQ(got.bytes, World::bytes(n));
    }
    EXPECT_EQ(w.wait(*read, 20, got), TierRead::State::missing);
    EXPECT_EQ(w.tier->stats().n_blocks, 20);
    EXPECT_EQ(w.tier->stats().n_read, 20);
  }
}

TEST(DiskTier, WhatWaitsIsWrittenAtTheEnd) {
  std::atomic<bool> hold{true};
  World w;
  w.disk.fails = [&](Op op, const std::string&) {
    while (op == Op::sync && hold) std::this_thread::yield();
    return false;
  };
  for (uint64_t n = 0; n < 10; ++n) EXPECT_TRUE(w.offer(n));
  hold = false;
  w.tier->stop();
  EXPECT_FALSE(w.offer(11)) << "it is over";
  w.reopen();
  EXPECT_EQ(w.tier->stats().n_blocks, 10);
  const auto n_syncs =
      std::count_if(w.disk.log.begin(), w.disk.log.end(), [](const auto& e) { return e.op == Op::sync; });
  EXPECT_LE(n_syncs, 10);
}

// The threads of the tier are nobody's request: memory that they lack is a write or a read that failed, no end of all.
TEST(DiskTier, ItsThreadsGoOnWithoutMemory) {
  World w;
  std::atomic<bool> none{true};
  w.disk.fails = [&](Op op, const std::string&) {
    if (none && (op == Op::write || op == Op::read)) throw std::bad_alloc();
    return false;
  };
  EXPECT_TRUE(w.offer(1));
  w.tier->wait_until_written();
  EXPECT_EQ(w.tier->stats().n_write_errors, 1);
  EXPECT_EQ(w.tier->stats().n_blocks, 0);
  none = false;
  w.clock.now = 100'000'000'000;
  EXPECT_TRUE(w.offer(1)) << "it is not thought to be there";
  EXPECT_TRUE(w.offer(2));
  w.tier->wait_until_written();
  none = true;
  EXPECT_FALSE(w.has(1));
  EXPECT_EQ(w.tier->stats().n_read_errors, 1);
  none = false;
  EXPECT_TRUE(w.has(2));
}

TEST(DiskTier, TheQueueIsBoundedAndWhatComesBeyondIsRefused) {
  DiskTierOptions options;
  options.queue_bytes = 4 * kBlockBytes;
  std::atomic<bool> hold{true};
  World w(options);
  w.disk.fails = [&](Op op, const std::string&) {
    while (op == Op::sync && hold) std::this_thread::yield();
    return false;
  };
  int n_taken = 0;
  for (uint64_t n = 0; n < 100; ++n) n_taken += w.offer(n) ? 1 : 0;
  EXPECT_LE(n_taken, 6);
  EXPECT_GE(n_taken, 4);
  EXPECT_EQ(w.tier->stats().n_refused, 100 - n_taken);
  hold = false;
  w.tier->wait_until_written();
  EXPECT_TRUE(w.offer(100));
}

TEST(DiskTier, AWriteThatFailsTurnsWritingOffForAWhileAndReadingGoesOn) {
  World w;
  ASSERT_TRUE(w.offer(1));
  w.tier->wait_until_written();
  std::atomic<bool> full{true};
  w.disk.fails = [&](Op op, const std::string&) { return op == Op::write && full; };
  ASSERT_TRUE(w.offer(2));
  w.tier->wait_until_written();
  EXPECT_FALSE(w.tier->stats().writing);
  EXPECT_EQ(w.tier->stats().n_write_errors, 1);
  EXPECT_FALSE(w.offer(3)) << "off";
  EXPECT_TRUE(w.has(1));
  EXPECT_FALSE(w.has(2));
  w.clock.now += w.settings.retry_ns;
  EXPECT_TRUE(w.offer(3)) << "tried again";
  w.tier->wait_until_written();
  EXPECT_EQ(w.tier->stats().n_write_errors, 2);
  w.clock.now += w.settings.retry_ns;
  EXPECT_FALSE(w.offer(3)) << "the pause has doubled";
  w.clock.now += w.settings.retry_ns;
  full = false;
  EXPECT_TRUE(w.offer(3));
  w.tier->wait_until_written();
  EXPECT_TRUE(w.tier->stats().writing);
  EXPECT_TRUE(w.has(3) && w.has(1));
}

TEST(DiskTier, ReadsThatFailAreMissesAndCounted) {
  World w;
  ASSERT_TRUE(w.offer(1) && w.offer(2));
  w.tier->wait_until_written();
  std::atomic<bool> broken{true};
  w.disk.fails = [&](Op op, const std::string&) { return op == Op::read && broken; };
  EXPECT_FALSE(w.has(1));
  EXPECT_EQ(w.tier->stats().n_read_errors, 1);
  broken = false;
  EXPECT_FALSE(w.has(1)) << "forgotten";
  EXPECT_TRUE(w.has(2));
  ASSERT_TRUE(w.offer(1)) << "and stored again";
  w.tier->wait_until_written();
  EXPECT_TRUE(w.has(1));
}

// What has been read and not taken is bounded; a run that nobody wants any more makes room and is not read further.
TEST(DiskTier, ReadersWaitForRoomAndLeaveWhatIsAbandoned) {
  DiskTierOptions options;
  options.staging_bytes = 2 * kBlockBytes;
  World w(options);
  std::vector<Spelling> wanted;
  for (uint64_t n = 0; n < 50; ++n) {
    ASSERT_TRUE(w.offer(n));
    wanted.push_back(World::spelling(n));
  }
  w.tier->wait_until_written();
  auto read = w.read(wanted);
  TierBlock got;
  ASSERT_EQ(w.wait(*read, 0, got), TierRead::State::here);
  const auto second = w.read({World::spelling(7)});
  read->abandon();
  EXPECT_EQ(w.wait(*second, 0, got), TierRead::State::here);
  EXPECT_EQ(got.bytes, World::bytes(7));
  EXPECT_LE(w.tier->stats().n_read, 8) << "two of room, two readers, one taken, one more";
  const auto third = w.read(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(w.wait(*third, i, got), TierRead::State::here);
}

TEST(DiskTier, PredictsFromWhatReadsTookAndForgetsOldMeasurements) {
  World w;
  for (uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(w.offer(n));
  w.tier->wait_until_written();
  EXPECT_EQ(w.tier->predict_ns(10), 0) << "unknown";
  w.disk.fails = [&](Op op, const std::string&) {
    if (op == Op::read) w.clock.now += 8000;
    return false;
  };
  for (uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(w.has(n));
  w.disk.fails = {};
  EXPECT_NEAR(static_cast<double>(w.tier->predict_ns(10)), 10 * 8000 / 2, 100);
  w.clock.now += 80'000'000'000;
  EXPECT_LT(w.tier->predict_ns(10), 10 * 8000 / 100) << "a disk that was slow is tried again";
}

TEST(DiskTier, AReadThatHangsMakesOthersLookSlow) {
  World w;
  ASSERT_TRUE(w.offer(1) && w.offer(2));
  w.tier->wait_until_written();
  ASSERT_TRUE(w.has(2));
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future();
  w.disk.fails = [&](Op op, const std::string&) {
    if (op == Op::read) gone.wait();
    return false;
  };
  const int64_t before = w.tier->predict_ns(1);
  const auto read = w.read({World::spelling(1)});
  TierBlock got;
  while (w.tier->predict_ns(1) <= before + 1'000'000) w.clock.now += 1'000'000;  // once it hangs, with the clock
  EXPECT_EQ(read->take(0, got), TierRead::State::coming);
  go.set_value();
  EXPECT_EQ(w.wait(*read, 0, got), TierRead::State::here);
}

}  // namespace
}  // namespace quire
