// A cache whose blocks a device has: what it asks of the copier, in which order, and what it does where a copy fails.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <numeric>
#include <set>

#include "kv/kv_cache.h"

namespace quire {
namespace {

constexpr int kTokens = 4, kBlocks = 6;
constexpr int64_t kBytes = 8 * kTokens;  // of a block

// Copies when it is waited for, and no sooner. Tells who writes to what was taken without a word in between.
class LateCopier final : public Copier {
 public:
  bool copy(std::byte*, const std::byte*, int64_t) override { return false; }
  int64_t read(std::byte* to, const std::byte* from, int64_t bytes) override { return ask(to, from, bytes, from); }
  int64_t write(std::byte* to, const std::byte* from, int64_t bytes) override {
    EXPECT_EQ(taken_.count(to), 0U) << "a step may still use it";
    sources_.emplace_back(from, from + bytes);  // the caller's is its own again
    return ask(to, sources_.back().data(), bytes, to);
  }
  CopyState state(int64_t copy, bool waits) override {
    if (waits) run(copy);
    return copy > n_done_ ? CopyState::under_way : CopyState::done;
  }
  void begin_writes() override { taken_.clear(); }
  void reuse(const std::byte* data, int64_t) override {
    taken_.insert(data);
    for (int64_t i = n_done_; i < std::ssize(all_); ++i) {
      if (all_[static_cast<size_t>(i)].on_device == data) run(i + 1);
    }
  }

  int failing = 0;  // the copy of that number fails, and those under way with it
  int64_t n_copies() const { return std::ssize(all_); }
  int64_t n_under_way() const { return std::ssize(all_) - n_done_; }
  bool has_taken() const { return !taken_.empty(); }

 private:
  struct One {
    std::byte* to;
    const std::byte* from;
    int64_t bytes;
    const std::byte* on_device;
  };
  int64_t ask(std::byte* to, const std::byte* from, int64_t bytes, const std::byte* on_device) {
    all_.push_back({to, from, bytes, on_device});
    if (std::ssize(all_) != failing) return std::ssize(all_);
    n_done_ = std::ssize(all_);
    return kFailed;
  }
  void run(int64_t end) {
    for (; n_done_ < end; ++n_done_) {
      const One& one = all_[static_cast<size_t>(n_done_)];
      std::memcpy(one.to, one.from, static_cast<size_t>(one.bytes));
    }
  }
  std::deque<One> all_;
  std::deque<std::vector<std::byte>> sources_;
  int64_t n_done_ = 0;
  std::set<const std::byte*> taken_;
};

struct World {
  explicit World(KvCacheOptions options = {}) {
    KvLayout layout;
    layout.claim(KvGroup{}, kBytes / kTokens);
    options.block_tokens = kTokens;
    options.n_blocks = kBlocks;
    std::vector<Buffer> buffers;
    buffers.push_back(Buffer::of({memory.data(), [](std::byte*) {}}, std::ssize(memory), nullptr, &copier));
    cache = std::make_unique<KvCache>(layout, std::move(buffers), options);
  }
  std::byte* bytes_of(const SeqKv& seq, size_t b) { return memory.data() + seq.table[b][0].id() * kBytes; }

  std::vector<std::byte> memory = std::vector<std::byte>(kBlocks * kBytes);
  LateCopier copier;
  std::unique_ptr<KvCache> cache;
};

std::vector<Token> counting(int n) {
  std::vector<Token> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 100);
  return out;
}

// Copied out and back with bytes as they were, though every copy is late.
TEST(KvCopier, AnImageIsWholeWhenItIsThere) {
  World w;
  SeqKv seq;
  ASSERT_TRUE(w.cache->grow(seq, 10));
  for (size_t b = 0; b < 3; ++b) std::memset(w.bytes_of(seq, b), static_cast<int>(b) + 1, kBytes);
  const std::optional<KvImage> image = w.cache->copy_out(seq, 10);
  ASSERT_TRUE(image);
  EXPECT_EQ(w.copier.n_under_way(), 0);
  w.cache->release(seq);
  std::ranges::fill(w.memory, std::byte{9});
  ASSERT_TRUE(w.cache->put_back(seq, *image));
  EXPECT_EQ(w.copier.n_under_way(), 0);
  for (size_t b = 0; b < 3; ++b) EXPECT_EQ(w.bytes_of(seq, b)[kBytes - 1], static_cast<std::byte>(b + 1));
  w.cache->release(seq);
}

TEST(KvCopier, AnImageOfWhichACopyFailsIsNone) {
  for (int nth = 1; nth <= 3; ++nth) {
    World w;
    SeqKv seq;
    ASSERT_TRUE(w.cache->grow(seq, 10));
    w.copier.failing = nth;
    EXPECT_FALSE(w.cache->copy_out(seq, 10));
    EXPECT_EQ(w.copier.n_under_way(), 0);
    const std::optional<KvImage> image = w.cache->copy_out(seq, 10);
    ASSERT_TRUE(image);
    w.cache->release(seq);
    w.copier.failing = static_cast<int>(w.copier.n_copies()) + nth;
    EXPECT_FALSE(w.cache->put_back(seq, *image));
    EXPECT_EQ(w.cache->n_free_blocks(), kBlocks);
    ASSERT_TRUE(w.cache->put_back(seq, *image));
    w.cache->release(seq);
  }
}

// What a tier is to bring may be written to when the run has begun, and its blocks are found when they have arrived.
TEST(KvCopier, ARunIsFoundWhenItHasArrived) {
  World w({.keep = [](const LeavingBlock&) { return true; }, .n_elsewhere = kBlocks});
  const std::vector<Token> tokens = counting(9);
  SeqKv seq;
  ASSERT_TRUE(w.cache->grow(seq, 9));
  w.cache->index(seq, {tokens, {}, {}}, 9);
  w.cache->release(seq);
  ASSERT_TRUE(w.cache->grow(seq, kBlocks * kTokens));  // they leave
  w.cache->release(seq);
  ASSERT_EQ(w.cache->n_blocks_elsewhere(), 2);
  Fetch run;
  ASSERT_EQ(w.cache->fetch(seq, {tokens, {}, {}}, 2, run), KvCache::Below::begun);
  EXPECT_FALSE(w.copier.has_taken());
  const KvView memory = w.cache->view();
  const std::vector<std::byte> bytes(kBytes, std::byte{7});
  const int64_t copy = memory.groups[0].write(run.blocks(0)[0].id(), bytes.data());
  EXPECT_EQ(memory.state(copy, false), CopyState::under_way);
  EXPECT_EQ(w.cache->peek({tokens, {}, {}}), 0);
  EXPECT_EQ(memory.state(copy, true), CopyState::done);
  run.arrived();
  EXPECT_EQ(w.cache->peek({tokens, {}, {}}), kTokens);
}

// The copy of a block that somebody else takes comes before what he does with it.
TEST(KvCopier, WhoTakesABlockComesBehindItsCopies) {
  World w;
  SeqKv seq;
  ASSERT_TRUE(w.cache->grow(seq, kBlocks * kTokens));
  std::memset(w.bytes_of(seq, 2), 5, kBytes);
  std::vector<std::byte> out(kBytes);
  const KvView memory = w.cache->view();
  const int64_t copy = memory.groups[0].read(out.data(), seq.table[2][0].id());
  w.cache->release(seq);
  EXPECT_EQ(memory.state(copy, false), CopyState::under_way);
  ASSERT_TRUE(w.cache->grow(seq, kBlocks * kTokens));
  std::ranges::fill(w.memory, std::byte{9});
  EXPECT_EQ(memory.state(copy, false), CopyState::done);
  EXPECT_EQ(out, std::vector<std::byte>(kBytes, std::byte{5}));
  w.cache->release(seq);
}

}  // namespace
}  // namespace quire
