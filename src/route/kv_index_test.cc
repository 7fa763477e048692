// What workers hold, by their events: whole chains of tokens, whoever names them how.
#include "route/kv_index.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kBlock = 4;

std::vector<Token> tokens(int from, int n_blocks) {
  std::vector<Token> out(static_cast<size_t>(n_blocks * kBlock));
  std::iota(out.begin(), out.end(), from * kBlock);
  return out;
}

// Blocks `from` … of a path, named 1000 × worker + their place.
KvEvent stored(uint64_t base, int from, int n_blocks, uint64_t salt = 0) {
  KvEvent out;
  out.kind = KvEvent::Kind::stored;
  out.block_tokens = kBlock;
  out.tokens = tokens(from, n_blocks);
  out.has_parent = from > 0;
  out.parent = base + static_cast<uint64_t>(from) - 1;
  for (int i = 0; i < n_blocks; ++i) out.hashes.push_back(base + static_cast<uint64_t>(from + i));
  if (salt != 0) out.extras.assign(static_cast<size_t>(n_blocks), salt);
  return out;
}

KvEvent removed(std::vector<uint64_t> names) {
  KvEvent out;
  out.kind = KvEvent::Kind::removed;
  out.hashes = std::move(names);
  return out;
}

struct World {
  explicit World(std::vector<uint64_t> workers, int64_t most = 1000) : index(most, 77) {
    index.set_workers(workers);
    for (const uint64_t worker : workers) index.set_whole(worker, true);
  }
  int64_t held(uint64_t worker, const std::vector<Token>& prompt, uint64_t salt = 0, int64_t now = 0) {
    const KvIndex::Sought one{worker, salt};
    const auto hits = index.find(prompt, std::span(&one, 1), now);
    return hits.empty() ? -1 : hits[0].n_tokens;
  }
  KvIndex index;
};

TEST(KvIndex, APromptsTokensFindWhatEachWorkerHasWhateverItCallsIt) {
  World world({1, 2});
  EXPECT_EQ(world.index.take(1, stored(100, 0, 3)), KvIndex::Taken::well);
  EXPECT_EQ(world.index.take(2, stored(900, 0, 1)), KvIndex::Taken::well);
  EXPECT_EQ(world.index.take(2, stored(900, 1, 4)), KvIndex::Taken::well);
  EXPECT_EQ(world.held(1, tokens(0, 9)), 12);
  EXPECT_EQ(world.held(2, tokens(0, 9)), 20);
  EXPECT_EQ(world.held(1, tokens(1, 9)), 0);
  // The last token is always computed.
  EXPECT_EQ(world.held(2, tokens(0, 2)), 4);
  EXPECT_EQ(world.index.n_blocks(), 8);
}

TEST(KvIndex, WhatIsRemovedOrClearedIsNotHeld) {
  World world({1});
  world.index.take(1, stored(100, 0, 4));
  world.index.take(1, removed({102, 555}));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
  world.index.take(1, stored(100, 2, 1));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 16);
  world.index.take(1, removed({102}));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
  KvEvent cleared;
  world.index.take(1, cleared);
  EXPECT_EQ(world.held(1, tokens(0, 9)), 0);
  EXPECT_EQ(world.index.n_blocks(), 0);
}

// As vLLM: it computes the last block of a prompt that it has anew, keeps both, and says of each that it is removed.
TEST(KvIndex, WhatIsThereTwiceIsHeldUntilBothAreRemoved) {
  World world({1, 2});
  for (const uint64_t worker : {uint64_t{1}, uint64_t{2}}) world.index.take(worker, stored(100, 0, 4));
  world.index.take(1, stored(100, 2, 2));
  EXPECT_EQ(world.index.n_blocks(), 8);
  world.index.take(1, removed({102}));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 16);
  // Others go on behind it.
  EXPECT_EQ(world.index.take(1, stored(100, 4, 1)), KvIndex::Taken::well);
  world.index.take(2, removed({102}));
  EXPECT_EQ(world.held(2, tokens(0, 9)), 8);
  world.index.take(1, removed({102, 103}));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
  EXPECT_EQ(world.index.n_blocks(), 7);
  world.index.take(1, stored(100, 2, 1));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 20);
  world.index.take(1, removed({102, 103}));
  world.index.take(1, removed({102, 103}));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
}

// An engine that tells of a block again without a copy, or of its last copy alone as removed, is believed for a while.
TEST(KvIndex, BlocksThatMayBeGoneYieldToOthersAndAreBounded) {
  World few({1}, 6);
  for (int i = 0; i < 3; ++i) few.index.take(1, stored(100, 0, 4));
  few.index.take(1, removed({100, 101, 102, 103}));
  few.index.take(1, stored(100, 0, 1));
  EXPECT_EQ(few.held(1, tokens(0, 9)), 16);
  EXPECT_EQ(few.index.take(1, stored(200, 0, 5)), KvIndex::Taken::well) << "three blocks have to go";
  EXPECT_EQ(few.index.n_blocks(), 6);
  few.index.take(1, removed({200, 201, 202, 203, 204}));
  EXPECT_EQ(few.held(1, tokens(0, 9)), 4) << "what was stored again is there";
  few.index.take(1, stored(300, 0, 5));
  EXPECT_EQ(few.index.take(1, stored(400, 0, 1)), KvIndex::Taken::full);

  const int n = static_cast<int>(KvIndex::kMostDoubtful);
  World many({1}, 10 * n);
  for (int i = 0; i < n + 10; ++i) {
    const uint64_t name = 1'000 + static_cast<uint64_t>(i);
    KvEvent one = stored(name, 0, 1);
    one.tokens = tokens(i, 1);
    many.index.take(1, one);
    many.index.take(1, one);
    many.index.take(1, removed({name}));
  }
  EXPECT_EQ(many.index.n_blocks(), n);
  EXPECT_EQ(many.held(1, tokens(9, 2)), 0);
  EXPECT_EQ(many.held(1, tokens(10, 2)), kBlock);
}

TEST(KvIndex, WhoIsNotWholeIsNotAnsweredFor) {
  World world({1});
  world.index.take(1, stored(100, 0, 4));
  world.index.set_whole(1, false);
  EXPECT_EQ(world.held(1, tokens(0, 9)), -1);
  EXPECT_FALSE(world.index.any_whole());
  EXPECT_EQ(world.held(3, tokens(0, 9)), -1);
}

// What it was given just now would not be seen here, so it is for others to guess.
TEST(KvIndex, WhoHasNeverSaidABlockIsNotAnsweredFor) {
  World world({1, 2});
  world.index.take(2, stored(900, 0, 1));
  EXPECT_EQ(world.held(1, tokens(0, 9)), -1);
  EXPECT_EQ(world.held(2, tokens(0, 9)), 4);
  world.index.take(1, stored(100, 0, 3));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 12);
}

TEST(KvIndex, WhatDoesNotFitIsStrange) {
  World world({1});
  EXPECT_EQ(world.index.take(1, stored(100, 3, 1)), KvIndex::Taken::strange);
  world.index.take(1, stored(100, 0, 2));
  KvEvent other = stored(300, 0, 2);
  other.block_tokens = 8;
  other.hashes.pop_back();
  EXPECT_EQ(world.index.take(1, other), KvIndex::Taken::strange);
  // What lies elsewhere, or is of other layers, is neither held nor lost by it.
  other = stored(400, 5, 1);
  other.in_memory = false;
  EXPECT_EQ(world.index.take(1, other), KvIndex::Taken::well);
  other = removed({101});
  other.group = 1;
  EXPECT_EQ(world.index.take(1, other), KvIndex::Taken::well);
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
}

TEST(KvIndex, ASaltsBlocksAreFoundUnderItAloneAndOthersByEverybody) {
  World world({1});
  world.index.take(1, stored(100, 0, 2));
  world.index.take(1, stored(100, 2, 3, 5));  // behind what everybody has
  world.index.take(1, stored(200, 0, 4, 6));  // of its own from the beginning
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
  EXPECT_EQ(world.held(1, tokens(0, 9), 5), 20);
  EXPECT_EQ(world.held(1, tokens(0, 9), 6), 16);
  EXPECT_EQ(world.held(1, tokens(0, 9), 7), 8);
  // Under an adapter nothing of it is held.
  KvEvent adapted = stored(300, 0, 6);
  adapted.adapter = 9;
  world.index.take(1, adapted);
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
}

// As those of an activated adapter do.
TEST(KvIndex, BlocksUnderAnAdapterMayGoOnFromOnesOfTheModel) {
  World world({1});
  world.index.take(1, stored(100, 0, 2));
  KvEvent adapted = stored(100, 2, 3);
  adapted.adapter = 9;
  EXPECT_EQ(world.index.take(1, adapted), KvIndex::Taken::well);
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
  EXPECT_EQ(world.index.n_blocks(), 5);
  world.index.take(1, removed({102, 103, 104}));
  EXPECT_EQ(world.held(1, tokens(0, 9)), 8);
}

// vLLM names the salt at the first block alone.
TEST(KvIndex, ASaltHoldsForWhatFollows) {
  World world({1});
  KvEvent event = stored(100, 0, 3);
  event.extras = {5, 0, 0};
  world.index.take(1, event);
  world.index.take(1, stored(100, 3, 1));
  EXPECT_EQ(world.held(1, tokens(0, 9), 5), 16);
  EXPECT_EQ(world.held(1, tokens(0, 9)), 0);
}

TEST(KvIndex, SaltsAreLearnedByAskerAndWorker) {
  World world({1, 2});
  EXPECT_EQ(world.index.salt_of(1, 0), 0U);
  const uint64_t unknown = world.index.salt_of(1, 40);
  EXPECT_NE(unknown, 0U);
  EXPECT_NE(unknown, world.index.salt_of(1, 41));
  world.index.learn_salt(1, 40, 5);
  EXPECT_EQ(world.index.salt_of(1, 40), 5U);
  EXPECT_EQ(world.index.salt_of(2, 40), unknown);
  for (uint64_t asker = 100; asker < 5'000; ++asker) world.index.learn_salt(1, asker, 6);
  EXPECT_EQ(world.index.salt_of(1, 4'999), 6U);
  EXPECT_EQ(world.index.salt_of(1, 40), unknown);  // they are bounded
}

TEST(KvIndex, WhatAWorkerWasGivenCountsForAWhile) {
  World world({1});
  world.index.take(1, stored(100, 0, 1));
  world.index.expect({1, 0}, tokens(0, 5), 1000);
  EXPECT_EQ(world.held(1, tokens(0, 9), 0, 1001), 16);  // of 5 blocks 4 can be found
  EXPECT_EQ(world.held(1, tokens(0, 9), 0, 1000 + KvIndex::kExpectNs), 4);
  world.index.expect({1, 5}, tokens(0, 5), 1000);
  EXPECT_EQ(world.held(1, tokens(0, 9), 5, 1001), 16);
  EXPECT_EQ(world.held(1, tokens(0, 9), 6, 1001), 4);
  // However many it was given.
  for (int i = 0; i < 10'000; ++i) world.index.expect({1, 0}, tokens(i * 100, 9), 2000);
  EXPECT_EQ(world.held(1, tokens(999'900, 9), 0, 2001), 32);
  EXPECT_EQ(world.held(1, tokens(1'000, 9), 0, 2001), 0);
}

TEST(KvIndex, BlocksBeyondAWorkersShareAreNotKept) {
  World world({1, 2}, 10);
  EXPECT_EQ(world.index.take(1, stored(100, 0, 5)), KvIndex::Taken::well);
  EXPECT_EQ(world.index.take(1, stored(100, 5, 1)), KvIndex::Taken::full);
  EXPECT_EQ(world.index.take(2, stored(100, 0, 4)), KvIndex::Taken::well);
  EXPECT_EQ(world.index.n_blocks(), 9);
  // With more workers shares are smaller: who has more has to begin anew.
  const std::vector<uint64_t> three{1, 2, 3, 4, 5};
  world.index.set_workers(three);
  EXPECT_EQ(world.index.n_blocks(), 0);
  EXPECT_FALSE(world.index.state(1).whole);
  const std::vector<uint64_t> one{2};
  world.index.set_workers(one);
  EXPECT_EQ(world.held(1, tokens(0, 9)), -1);
}

// Against a plain list of what each worker has: any events, in any order.
TEST(KvIndex, AgreesWithAListOfPathsWhateverHappens) {
  World world({1, 2}, 4'000);
  // Block b of path p is named 100 p + b; paths part behind their second block.
  const auto path = [](int p) {
    std::vector<Token> out = tokens(0, 12);
    for (size_t i = 2 * kBlock; i < out.size(); ++i) out[i] += 1000 * (p + 1);
    return out;
  };
  std::map<uint64_t, std::map<uint64_t, int>> has;  // how often
  Rng rng(5);
  for (int step = 0; step < 4'000; ++step) {
    const auto worker = static_cast<uint64_t>(rng.between(1, 2));
    const int p = static_cast<int>(rng.between(0, 5));
    const auto name = [&](int b) { return static_cast<uint64_t>(b < 2 ? b : 100 * (p + 1) + b) + 1; };
    int n_held = 0;
    while (n_held < 12 && has[worker][name(n_held)] > 0) ++n_held;
    if (rng.between(0, 2) > 0 && n_held < 11) {
      const int n = static_cast<int>(rng.between(1, 11 - n_held));
      KvEvent event;
      event.kind = KvEvent::Kind::stored;
      event.block_tokens = kBlock;
      event.has_parent = n_held > 0;
      event.parent = n_held > 0 ? name(n_held - 1) : 0;
      const std::vector<Token> all = path(p);
      event.tokens.assign(all.begin() + n_held * kBlock, all.begin() + (n_held + n) * kBlock);
      for (int b = n_held; b < n_held + n; ++b) {
        event.hashes.push_back(name(b));
        ++has[worker][name(b)];
      }
      ASSERT_EQ(world.index.take(worker, event), KvIndex::Taken::well) << step;
    } else if (n_held > 0) {
      const int b = static_cast<int>(rng.between(0, n_held - 1));
      world.index.take(worker, removed({name(b)}));
      --has[worker][name(b)];
    }
    int expected = 0;
    while (expected < 11 && has[worker][name(expected)] > 0) ++expected;
    ASSERT_EQ(world.held(worker, path(p)), expected * kBlock) << step;
  }
}

// A worker that says whatever costs the time of a look at it, no more.
TEST(KvIndex, ManyBranchesUnderASaltCostNoMoreThanTheirBound) {
  World world({1}, 1 << 20);
  const int n = 2'000;
  world.index.take(1, stored(1, 0, n));
  for (int from = 0; from < n; from += 20) {
    KvEvent event = stored(1'000'000 + 10'000 * static_cast<uint64_t>(from), from, n - from, 5);
    event.parent = static_cast<uint64_t>(from);
    world.index.take(1, event);
  }
  EXPECT_EQ(world.held(1, tokens(0, n + 1), 5), n * kBlock);
}

}  // namespace
}  // namespace quire
