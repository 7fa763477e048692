#include "kv/tiers/segment_store.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "base/rng.h"
#include "kv/tiers/test_folder.h"

namespace quire {
namespace {

using Outcome = SegmentStore::Read::Outcome;
using Op = TestDisk::Op;

const StoreShape kShape{0x1234, 4, {40, 24}};

// Everything of it follows from the number.
SegmentStore::Block block(uint64_t n, uint8_t groups = 3) {
  SegmentStore::Block out;
  Rng rng(n + 1);
  const auto any = [&] { return static_cast<uint64_t>(rng.between(1, 1 << 30)); };
  out.spelling.name = {any(), any()};
  out.spelling.parent = {any(), any()};
  out.spelling.key = {any(), any(), any()};
  for (int i = 0; i < kShape.block_tokens; ++i) out.spelling.tokens.push_back(static_cast<Token>(rng.between(0, 9)));
  for (uint64_t i = 0; i < n % 3; ++i) out.spelling.extras.push_back({static_cast<int>(i), 1, {any(), any()}});
  out.block.groups = groups;
  for (int64_t i = 0; i < kShape.bytes_of(groups); ++i) out.block.bytes.push_back(static_cast<std::byte>(any()));
  return out;
}

std::unique_ptr<SegmentStore> open(TestDisk& disk, int64_t most_bytes = 1 << 20, const StoreShape& shape = kShape) {
  auto out = SegmentStore::open(std::make_unique<TestFolder>(disk), {shape, most_bytes, 0});
  EXPECT_TRUE(out.has_value()) << (out ? "" : out.error().message);
  return out ? std::move(*out) : nullptr;
}

std::vector<SegmentStore::Block> blocks(std::initializer_list<uint64_t> numbers) {
  std::vector<SegmentStore::Block> out;
  for (const uint64_t n : numbers) out.push_back(block(n));
  return out;
}

// Whether it has exactly that block.
bool has(SegmentStore& store, uint64_t n, uint8_t groups = 3) {
  const SegmentStore::Block wanted = block(n, groups);
  const SegmentStore::Read read = store.read(wanted.spelling);
  if (read.outcome != Outcome::found) return false;
  EXPECT_EQ(read.block.groups, groups);
  EXPECT_EQ(read.block.bytes, wanted.block.bytes) << "wrong bytes of block " << n;
  return true;
}

TEST(SegmentStore, BringsBackWhatItWasGivenAlsoToTheNextProcess) {
  TestDisk disk;
  {
    const auto store = open(disk);
    ASSERT_TRUE(store->append(blocks({1, 2, 3})));
    EXPECT_TRUE(has(*store, 1) && has(*store, 2) && has(*store, 3));
    EXPECT_FALSE(has(*store, 4));
    EXPECT_EQ(store->find(block(1).spelling.name), 3);
    EXPECT_EQ(store->find(block(4).spelling.name), 0);
  }
  const auto store = open(disk);
  EXPECT_EQ(store->counts().n_blocks, 3);
  EXPECT_TRUE(has(*store, 1) && has(*store, 2) && has(*store, 3));
  ASSERT_TRUE(store->append(blocks({4})));
  EXPECT_TRUE(has(*open(disk), 4));
}

TEST(SegmentStore, StoresABlockOnceAndAgainWhenMoreOfItIsThere) {
  TestDisk disk;
  const auto store = open(disk);
  ASSERT_TRUE(store->append({block(1, 1)}));
  ASSERT_TRUE(store->append({block(1, 1), block(1, 1)}));
  EXPECT_EQ(store->counts().n_written, 1);
  SegmentStore::Block whole = block(1, 3);
  ASSERT_EQ(whole.spelling, block(1, 1).spelling);
  ASSERT_TRUE(store->append({whole}));
  EXPECT_EQ(store->counts().n_written, 2);
  EXPECT_TRUE(has(*store, 1, 3));
  EXPECT_TRUE(has(*open(disk), 1, 3));
}

TEST(SegmentStore, ANameThatSpellsSomethingElseIsAMiss) {
  TestDisk disk;
  const auto store = open(disk);
  ASSERT_TRUE(store->append(blocks({1})));
  const auto read = [&](auto change) {
    Spelling wanted = block(1).spelling;
    change(wanted);
    return store->read(wanted).outcome;
  };
  EXPECT_EQ(read([](Spelling&) {}), Outcome::found);
  EXPECT_EQ(read([](Spelling& s) { ++s.tokens[3]; }), Outcome::other);
  EXPECT_EQ(read([](Spelling& s) { ++s.key.salt; }), Outcome::other);
  EXPECT_EQ(read([](Spelling& s) { ++s.key.adapter; }), Outcome::other);
  EXPECT_EQ(read([](Spelling& s) { ++s.key.model; }), Outcome::other);
  EXPECT_EQ(read([](Spelling& s) { ++s.parent.hi; }), Outcome::other);
  EXPECT_EQ(read([](Spelling& s) { ++s.extras[0].pos; }), Outcome::other);
  EXPECT_EQ(read([](Spelling& s) { s.extras.clear(); }), Outcome::other);
  EXPECT_EQ(read([](Spelling& s) { ++s.name.lo; }), Outcome::none);
  EXPECT_TRUE(has(*store, 1)) << "a collision takes nothing from its owner";
}

TEST(SegmentStore, EveryBitThatFlipsIsAMiss) {
  TestDisk disk;
  ASSERT_TRUE(open(disk)->append(blocks({1, 2})));
  ASSERT_EQ(disk.files.size(), 1U);
  const TestFiles before = disk.files;
  const auto padding = [&](size_t at) {  // behind the bytes of a block; nobody reads it
    return before.begin()->second[at] == std::byte{0};
  };
  size_t n_missed = 0;
  std::vector<std::byte>& file = disk.files.begin()->second;
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      disk.files = before;
      file[at] ^= static_cast<std::byte>(1 << bit);
      const auto store = open(disk);
      const bool first = has(*store, 1), second = has(*store, 2);
      if (!first) {
        ++n_missed;
        EXPECT_EQ(store->find(block(1).spelling.name), 0) << "what is damaged is forgotten";
      }
      EXPECT_TRUE(!first || !second || padding(at)) << "byte " << at << " counts for nothing";
    }
  }
  EXPECT_GT(n_missed, 100U);
}

TEST(SegmentStore, WhatIsAnothersStaysAsItIsAndIsNotRead) {
  TestDisk disk;
  ASSERT_TRUE(open(disk)->append(blocks({1})));
  StoreShape model = kShape, tokens = kShape, bytes = kShape, groups = kShape;
  ++model.fingerprint;
  tokens.block_tokens = 8;
  bytes.group_bytes = {24, 40};
  groups.group_bytes = {64};
  const TestFiles before = disk.files;
  for (const StoreShape& shape : {model, tokens, bytes, groups}) {
    const auto store = open(disk, 1 << 20, shape);
    EXPECT_EQ(store->counts().n_blocks, 0);
    EXPECT_EQ(store->counts().n_skipped_segments, 1);
    EXPECT_GT(store->counts().bytes, 0) << "it counts";
  }
  EXPECT_EQ(disk.files, before);
  EXPECT_TRUE(has(*open(disk), 1));
}

TEST(SegmentStore, FilesThatAreNoSegmentsAreNotTouched) {
  TestDisk disk;
  disk.files["notes.txt"] = std::vector<std::byte>(100);
  disk.files["000000000000000g.kvseg"] = {};
  disk.files["00000000000000ff.kvseg"] = std::vector<std::byte>(1000);  // a name of ours, and nothing of ours in it
  disk.files["00000000000000AA.kvseg"] = {};
  const auto store = open(disk, least_store_bytes(kShape));
  EXPECT_EQ(store->counts().n_skipped_segments, 1);
  for (uint64_t n = 1; n < 100; ++n) ASSERT_TRUE(store->append(blocks({n})));
  EXPECT_TRUE(disk.files.contains("notes.txt") && disk.files.contains("000000000000000g.kvseg") &&
              disk.files.contains("00000000000000AA.kvseg"));
  EXPECT_FALSE(disk.files.contains("00000000000000ff.kvseg")) << "what nobody can read goes first";
}

TEST(SegmentStore, ASwappedOrRenamedFileIsAMissOrRight) {
  TestDisk disk;
  ASSERT_TRUE(open(disk)->append(blocks({1})));
  ASSERT_TRUE(open(disk)->append(blocks({2})));
  ASSERT_EQ(disk.files.size(), 2U);
  std::swap(disk.files.begin()->second, std::next(disk.files.begin())->second);
  const auto store = open(disk);
  EXPECT_FALSE(has(*store, 1) || has(*store, 2));
  EXPECT_EQ(store->counts().n_skipped_segments, 2);
}

TEST(SegmentStore, StaysWithinItsSizeAndDropsTheOldestButForWhatIsUsed) {
  TestDisk disk;
  constexpr int64_t kMost = 40'000;
  const auto store = open(disk, kMost);
  ASSERT_TRUE(store->append(blocks({0})));
  for (uint64_t n = 1; n < 2000; ++n) {
    ASSERT_TRUE(store->append(blocks({n})));
    EXPECT_EQ(store->find(block(n).spelling.name), 3);
    EXPECT_TRUE(has(*store, 0)) << "read all the time, gone after " << n;
    int64_t bytes = 0;
    for (const auto& [name, file] : disk.files) bytes += std::ssize(file);
    ASSERT_EQ(bytes, store->counts().bytes);
    ASSERT_LE(bytes, kMost);
  }
  EXPECT_GT(store->counts().n_dropped_segments, 10);
  EXPECT_GT(store->counts().n_moved, 10);
  EXPECT_FALSE(has(*store, 1));
  const auto again = open(disk, kMost);
  EXPECT_EQ(again->counts().n_blocks, store->counts().n_blocks);
  EXPECT_EQ(again->counts().bytes, store->counts().bytes);
  const auto smaller = open(disk, 30'000);
  ASSERT_TRUE(smaller->append(blocks({5000})));
  EXPECT_LE(smaller->counts().bytes, 30'000) << "a smaller size takes effect with the next block";
}

TEST(SegmentStore, ManySmallSegmentsAreBounded) {
  TestDisk disk;
  for (uint64_t n = 0; n < 400; ++n) ASSERT_TRUE(open(disk)->append(blocks({n})));
  EXPECT_LE(disk.files.size(), 256U);
  EXPECT_TRUE(has(*open(disk), 399));
}

TEST(SegmentStore, RefusesSizesWithoutRoomForAnything) {
  TestDisk disk;
  const int64_t least = least_store_bytes(kShape);
  const auto refused = SegmentStore::open(std::make_unique<TestFolder>(disk), {kShape, least - 1, 0});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(std::to_string(least)), std::string::npos) << refused.error().message;
  const auto store = open(disk, least);
  for (uint64_t n = 0; n < 50; ++n) {
    ASSERT_TRUE(store->append(blocks({n})));
    EXPECT_TRUE(has(*store, n));
  }
}

constexpr int64_t kTight = 27'000;  // a hundred blocks

// Each call of each kind fails once, at every place; what was promised before and after is there.
std::unique_ptr<SegmentStore> open_for(TestDisk& disk, int64_t most_blocks, int64_t most_bytes = 16 << 20) {
  auto out = SegmentStore::open(std::make_unique<TestFolder>(disk),
                                {.shape = kShape, .most_bytes = most_bytes, .most_blocks = most_blocks});
  return out ? std::move(*out) : nullptr;
}

TEST(SegmentStore, TheIndexHasABoundHoweverSmallBlocksAre) {
  constexpr uint64_t kN = 4000;
  TestDisk disk;
  {
    const auto store = open_for(disk, 200);
    for (uint64_t n = 0; n < kN; n += 10) {
      std::vector<SegmentStore::Block> some;
      some.reserve(10);
      for (uint64_t i = n; i < n + 10; ++i) some.push_back(block(i));
      ASSERT_TRUE(store->append(std::move(some)));
      ASSERT_LE(store->counts().n_blocks, 200);
      if (n == 2000) {
        EXPECT_TRUE(has(*store, 2000)) << "it is used";
      }
      if (n == 2250) {
        EXPECT_TRUE(has(*store, 2000)) << "so it moves when its segment goes";
      }
    }
    EXPECT_GT(store->counts().n_blocks, 150);
    EXPECT_TRUE(has(*store, kN - 1));
    EXPECT_FALSE(has(*store, kN - 250));
  }
  EXPECT_TRUE(has(*open_for(disk, 200), kN - 100));
}

// A folder that holds more than there may be is read from its newest end, and the rest goes first.
TEST(SegmentStore, OfAFolderThatIsTooLargeTheNewestIsKnown) {
  constexpr uint64_t kN = 4000;
  TestDisk disk;
  {
    const auto store = open(disk, 16 << 20);
    for (uint64_t n = 0; n < kN; ++n) ASSERT_TRUE(store->append(blocks({n})));
  }
  const int64_t all = open(disk, 16 << 20)->counts().bytes;
  const auto few = open_for(disk, 64);
  EXPECT_LE(few->counts().n_blocks, 64);
  const auto small = open(disk, all / 2);
  EXPECT_LE(small->counts().n_blocks, static_cast<int64_t>(kN / 2));
  ASSERT_TRUE(small->append(blocks({kN})));
  EXPECT_LE(small->counts().bytes, all / 2);
}

TEST(SegmentStore, TheIndexTakesNoMoreOfABlockThanItSays) {
  constexpr uint64_t kN = 20'000;
  TestDisk disk;
  {
    const auto store = open(disk, 64 << 20);
    std::vector<SegmentStore::Block> all;
    all.reserve(kN);
    for (uint64_t n = 0; n < kN; ++n) all.push_back(block(n));
    ASSERT_TRUE(store->append(std::move(all)));
  }
  const auto held = [] { return static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd); };
  const int64_t before = held();
  const auto store = open(disk, 64 << 20);
  ASSERT_EQ(store->counts().n_blocks, static_cast<int64_t>(kN));
  EXPECT_LE(held() - before, kIndexedBytes * static_cast<int64_t>(kN));
}

TEST(SegmentStore, WhateverFailsCostsAMissAndTheNextAppendGoesOn) {
  for (const Op op : {Op::create, Op::write, Op::sync, Op::remove, Op::sync_folder}) {
    for (int at = 0; at < 12; ++at) {
      TestDisk disk;
      int n_left = at;
      disk.fails = [&](Op now, const std::string&) { return now == op && n_left-- == 0; };
      const auto store = open(disk, kTight);
      std::set<uint64_t> promised;
      for (uint64_t n = 0; n < 160; n += 4) {
        if (store->append(blocks({n, n + 1, n + 2, n + 3}))) promised.insert({n, n + 1, n + 2, n + 3});
      }
      EXPECT_GE(promised.size(), 156U) << "one failure is one append";
      for (uint64_t n = 0; n < 160; ++n) {
        EXPECT_TRUE(!has(*store, n) || promised.contains(n)) << "found though nothing was promised";
      }
      for (uint64_t n = 140; n < 160; ++n) EXPECT_TRUE(has(*store, n) || !promised.contains(n));
      const auto again = open(disk, kTight);
      for (uint64_t n = 0; n < 160; ++n) EXPECT_TRUE(has(*again, n) || !has(*store, n));
      EXPECT_LE(again->counts().bytes, kTight);
    }
  }
}

TEST(SegmentStore, AReadThatFailsForgetsTheBlock) {
  TestDisk disk;
  const auto store = open(disk);
  ASSERT_TRUE(store->append(blocks({1, 2})));
  bool failing = true;
  disk.fails = [&](Op op, const std::string&) { return failing && op == Op::read; };
  EXPECT_EQ(store->read(block(1).spelling).outcome, Outcome::failed);
  failing = false;
  EXPECT_EQ(store->read(block(1).spelling).outcome, Outcome::none);
  EXPECT_TRUE(has(*store, 2));
  disk.files.begin()->second.resize(200);
  EXPECT_EQ(store->read(block(2).spelling).outcome, Outcome::damaged) << "a short read is none";
}

// A crash at every entry of the log and at every byte of every write: what append() had said yes to is there, and what
// is there is right.
TEST(SegmentStore, AfterACrashAtAnyPointWhatWasPromisedIsThereAndNothingIsWrong) {
  TestDisk disk;
  std::vector<std::pair<size_t, std::vector<uint64_t>>> promises;  // from this length of the log on
  {
    const auto store = open(disk, 1 << 20);
    for (const auto& batch : std::vector<std::vector<uint64_t>>{{1}, {2, 3, 4}, {5, 6}}) {
      std::vector<SegmentStore::Block> all;
      for (const uint64_t n : batch) all.push_back(block(n));
      ASSERT_TRUE(store->append(std::move(all)));
      promises.emplace_back(disk.log.size(), batch);
    }
  }
  int n_crashes = 0;
  for (size_t n = 0; n <= disk.log.size(); ++n) {
    const bool writes = n > 0 && disk.log[n - 1].op == Op::write;
    for (size_t bytes = 0; bytes <= (writes ? disk.log[n - 1].bytes.size() : 0); ++bytes) {
      for (const auto unsynced : {TestDisk::Unsynced::lost, TestDisk::Unsynced::kept, TestDisk::Unsynced::zeros}) {
        TestDisk after;
        after.files = disk.after_crash(n, bytes, unsynced);
        const auto store = open(after);
        for (const auto& [from, batch] : promises) {
          for (const uint64_t b : batch) ASSERT_TRUE(has(*store, b) || n < from) << "crash " << n << ", byte " << bytes;
        }
        ASSERT_TRUE(store->append(blocks({7, 1})));
        ASSERT_TRUE(has(*store, 7) && has(*store, 1));
        ++n_crashes;
      }
    }
  }
  EXPECT_GT(n_crashes, 3000);
}

// The same while segments are dropped and blocks move: a block that is promised stays until its segment goes.
TEST(SegmentStore, AfterACrashWhileSegmentsGoNothingIsWrong) {
  constexpr uint64_t kBlocks = 160;
  TestDisk disk;
  std::map<size_t, std::set<uint64_t>> there;  // by length of the log, what the store had
  {
    const auto store = open(disk, kTight);
    for (uint64_t n = 0; n < kBlocks; ++n) {
      ASSERT_TRUE(store->append(blocks({n})));
      std::set<uint64_t>& now = there[disk.log.size()];
      for (uint64_t b = 0; b <= n; ++b) {
        if (store->find(block(b).spelling.name) != 0) now.insert(b);
      }
      if (n % 4 == 0) {
        ASSERT_TRUE(has(*store, n));
      }
    }
    ASSERT_GT(store->counts().n_moved, 0);
  }
  for (const auto& [n, wanted] : there) {
    for (const auto unsynced : {TestDisk::Unsynced::lost, TestDisk::Unsynced::kept, TestDisk::Unsynced::zeros}) {
      TestDisk after;
      after.files = disk.after_crash(n, SIZE_MAX, unsynced);
      const auto store = open(after, kTight);
      for (uint64_t b = 0; b < kBlocks; ++b) ASSERT_EQ(has(*store, b), wanted.contains(b)) << "block " << b;
    }
  }
}

// --- the system's own files ---

class OnDisk : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "quire-tier-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    path = pattern + "/kv";
    root = pattern;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + root + "'").c_str()), 0); }
  std::string path, root;
};

TEST_F(OnDisk, BlocksComeBackFromFilesThatTheirOwnerAloneMayRead) {
  for (const uint64_t n : {1U, 2U}) {
    auto folder = open_tier_folder(path);
    ASSERT_TRUE(folder) << folder.error().message;
    auto store = SegmentStore::open(std::move(*folder), {kShape, 1 << 20, 0});
    ASSERT_TRUE(store);
    EXPECT_EQ((*store)->counts().n_blocks, static_cast<int64_t>(n) - 1);
    ASSERT_TRUE((*store)->append(blocks({n})));
    EXPECT_TRUE(has(**store, n) && has(**store, 1));
  }
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat((path + "/0000000000000001.kvseg").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(OnDisk, OneOwnerAtATime) {
  auto first = open_tier_folder(path);
  ASSERT_TRUE(first);
  const auto second = open_tier_folder(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::exhausted);
  EXPECT_NE(second.error().message.find("in use by another process"), std::string::npos);
  first->reset();
  EXPECT_TRUE(open_tier_folder(path));
}

TEST_F(OnDisk, AFolderThatCannotBeSaysWhy) {
  const auto under_nothing = open_tier_folder(path + "/a/b");
  ASSERT_FALSE(under_nothing);
  EXPECT_EQ(under_nothing.error().code, Code::io);
  EXPECT_NE(under_nothing.error().message.find(path + "/a/b"), std::string::npos);
  EXPECT_FALSE(open_tier_folder("/dev/null"));
}

TEST_F(OnDisk, AFullDeviceIsAFailureAndNothingIsPromised) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full";
  auto folder = open_tier_folder(path);
  ASSERT_TRUE(folder);
  ASSERT_EQ(::symlink("/dev/full", (path + "/0000000000000001.kvseg").c_str()), 0);
  auto store = SegmentStore::open(std::move(*folder), {kShape, 1 << 20, 0});
  ASSERT_TRUE(store);
  const Status refused = (*store)->append(blocks({1}));
  EXPECT_FALSE(refused) << "a link is not followed";
  ASSERT_TRUE((*store)->append(blocks({1})));
  EXPECT_TRUE(has(**store, 1));
}

}  // namespace
}  // namespace quire
