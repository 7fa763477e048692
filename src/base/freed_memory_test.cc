#include "base/freed_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <memory>
#include <thread>
#include <vector>

namespace quire {
namespace {

int64_t resident() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, pages = 0;
  file >> all >> pages;
  return pages * 4096;
}

// Whether what is allocated and freed is in the C library's count: with a sanitizer it is not.
bool counted() {
  const auto used = [] { return static_cast<int64_t>(::mallinfo2().uordblks); };
  const int64_t before = used();
  const std::vector<std::unique_ptr<char[]>> blocks = [] {
    std::vector<std::unique_ptr<char[]>> out(1000);
    for (auto& b : out) b = std::make_unique<char[]>(600);
    return out;
  }();
  return used() >= before + 600'000;
}

// Small blocks of which the last lies above all others: nothing of them is given back by itself.
void fill_and_free(std::vector<std::unique_ptr<char[]>>& left) {
  std::vector<std::unique_ptr<char[]>> blocks;
  blocks.reserve(100'000);
  for (int i = 0; i < 100'000; ++i) blocks.push_back(std::make_unique<char[]>(600));
  left.push_back(std::move(blocks.back()));
}

TEST(FreedMemory, PagesOfSmallBlocksAreGivenBack) {
  if (!counted()) GTEST_SKIP() << "another allocator";
  constexpr int64_t kFilled = 50 << 20;
  FreedPages pages(8 << 20);
  pages.give_back();
  std::vector<std::unique_ptr<char[]>> left;
  const int64_t before = resident();
  for (int round = 0; round < 3; ++round) {
    std::thread(fill_and_free, std::ref(left)).join();
    EXPECT_TRUE(pages.give_back());
    EXPECT_LT(resident(), before + kFilled / 4) << "round " << round;
    EXPECT_FALSE(pages.give_back()) << "there is nothing more";
  }
}

// What was in use when pages were given back is freed later, and the process does not grow any more.
TEST(FreedMemory, WhatIsFreedAfterwardsIsGivenBackToo) {
  if (!counted()) GTEST_SKIP() << "another allocator";
  FreedPages pages(8 << 20);
  std::vector<std::unique_ptr<char[]>> blocks, left;
  std::thread([&] {
    blocks.reserve(100'000);
    for (int i = 0; i < 100'000; ++i) blocks.push_back(std::make_unique<char[]>(600));
    left.push_back(std::move(blocks.back()));
  }).join();
  pages.give_back();
  const int64_t before = resident();
  blocks.clear();
  EXPECT_TRUE(pages.give_back());
  EXPECT_LT(resident(), before - (40 << 20));
}

TEST(FreedMemory, LittleIsLeftAlone) {
  FreedPages pages(int64_t{1} << 40);
  std::vector<std::unique_ptr<char[]>> left;
  fill_and_free(left);
  EXPECT_FALSE(pages.give_back());
}

TEST(FreedMemory, ItsThreadEndsWithIt) {
  for (int i = 0; i < 10; ++i) const FreedMemory memory;
}

}  // namespace
}  // namespace quire
