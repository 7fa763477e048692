// Wishes of requests for what lies in a store: kept while their time is not over, bounded.
#include "kv/tiers/stored_wishes.h"

#include <gtest/gtest.h>

#include "kv/tiers/segment_store.h"
#include "kv/tiers/test_folder.h"

namespace quire {
namespace {

const StoreShape kShape{0x1234, 4, {64}};

std::vector<SegmentStore::Block> blocks(std::initializer_list<uint64_t> numbers) {
  std::vector<SegmentStore::Block> out;
  for (const uint64_t n : numbers) {
    SegmentStore::Block& block = out.emplace_back();
    block.spelling = {{n, n + 1}, {n + 2, n}, {7, 0, n}, {1, 2, 3, static_cast<Token>(n)}, {}};
    block.block = {1, std::vector<std::byte>(64, static_cast<std::byte>(n))};
  }
  return out;
}

bool has(const SegmentStore& store, uint64_t n) { return store.find({n, n + 1}) != 0; }

// Room for about a thousand blocks in segments of a quarter of it; eight may be kept for longer.
std::unique_ptr<SegmentStore> open(TestDisk& disk) {
  auto out = SegmentStore::open(std::make_unique<TestFolder>(disk),
                                {kShape, 1 << 18, 1 << 16, 1 << 21, 8 * usual_record_bytes(kShape)});
  EXPECT_TRUE(out.has_value()) << (out ? "" : out.error().message);
  return out ? std::move(*out) : nullptr;
}

// For a name: how urgent, until when, whose.
NamedWish wish(uint64_t n, int priority, int64_t until_ns, uint64_t whose = 1) {
  return {{n, n + 1}, {static_cast<uint8_t>(priority), until_ns, whose}};
}

// What is to stay for longer outlives segments that go, until its time is over; what was not wished for does not.
TEST(StoredWishes, WhatIsToStayMovesOnUntilItsTimeIsOver) {
  TestDisk disk;
  const int64_t each = usual_record_bytes(kShape);
  const auto opened = open(disk);
  ASSERT_NE(opened, nullptr);
  SegmentStore& store = *opened;
  ASSERT_TRUE(store.append(blocks({1, 2, 3, 4})));
  const std::vector<NamedWish> wishes = {wish(1, 80, 1000), wish(3, 50, 1000), wish(4, 0, 1000)};
  EXPECT_EQ(store.retain(wishes, 0), 0);
  EXPECT_EQ(store.counts().retained_bytes, 2 * each) << "less than usual says nothing";
  uint64_t next = 100;
  const auto flood = [&](int n) {
    for (int i = 0; i < n; ++i) ASSERT_TRUE(store.append(blocks({next++})));
  };
  flood(3000);
  EXPECT_TRUE(has(store, 1) && has(store, 3));
  EXPECT_TRUE(!has(store, 2) && !has(store, 4));
  store.tell_time(1000);
  flood(3000);
  EXPECT_FALSE(has(store, 1));
  EXPECT_EQ(store.counts().retained_bytes, 0) << "who has left is not counted";
}

TEST(StoredWishes, HaveABoundInAllAndForEachTenant) {
  TestDisk disk;
  const int64_t each = usual_record_bytes(kShape);
  const auto opened = open(disk);
  ASSERT_NE(opened, nullptr);
  SegmentStore& store = *opened;
  std::vector<NamedWish> of_one, of_two, of_three;
  for (uint64_t n = 0; n < 6; ++n) {
    of_one.push_back(wish(n, 80, 2'000'000'000, 1));
    of_two.push_back(wish(10 + n, 80, 9'000'000'000, 2));
    of_three.push_back(wish(20 + n, 80, 9'000'000'000, 3));
  }
  EXPECT_EQ(store.retain(of_one, 0), 2) << "half of it is a tenant's";
  EXPECT_EQ(store.retain(of_one, 0), 2) << "the same again counts once";
  EXPECT_EQ(store.retain(of_two, 0), 2);
  EXPECT_EQ(store.retain(of_three, 0), 6);
  EXPECT_EQ(store.counts().retained_bytes, 8 * each);
  EXPECT_EQ(store.retain(of_three, 3'000'000'000), 2) << "the first tenant's time is over";
  const std::vector<NamedWish> shared = {wish(10, 90, 9'000'000'000, 4)};
  EXPECT_EQ(store.retain(shared, 3'000'000'000), 0) << "who asks for more is charged";
  EXPECT_EQ(store.retain(std::vector{wish(30, 80, 9'000'000'000, 2)}, 3'000'000'000), 1) << "all of it is taken";
}

}  // namespace
}  // namespace quire
