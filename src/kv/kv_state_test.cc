// States in the cache: where they are left, found, forgotten. Blocks of 16 tokens; a state of 64 bytes. What a kernel
// would do is done here: behind a step a state says how many tokens led to it.
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "base/sanitized.h"
#include "kv/kv_cache.h"
#include "kv/kv_image.h"
#include "kv/pins.h"

namespace quire {
namespace {

constexpr int kBlock = 16;

struct States {
  explicit States(int n_blocks, int n_states) {
    KvLayout layout;
    layout.claim(KvGroup{}, 4);
    layout.claim_state(64);
    std::vector<Buffer> memory;
    memory.push_back(std::move(*Buffer::allocate(int64_t{4} * kBlock * n_blocks)));
    memory.push_back(std::move(*Buffer::allocate(int64_t{64} * n_states)));
    KvCacheOptions options;
    options.block_tokens = kBlock;
    options.n_blocks = n_blocks;
    options.n_states = n_states;
    cache = std::make_unique<KvCache>(layout, std::move(memory), options);
  }
  int32_t& at(int32_t block) {
    const KvGroupView group = cache->view().groups[1];
    return *reinterpret_cast<int32_t*>(group.base + block * group.block_bytes);
  }
  // Starts a sequence of these tokens; how many of them are known.
  int begin(SeqKv& seq, std::span<const Token> tokens, int n_prompt) {
    seq.n_lead = n_prompt - 1;
    const int n = cache->match(seq, {tokens, {}, {}});
    EXPECT_TRUE(n == 0 || at(seq.table.back()[1].id()) == n) << "the state that was found is another one";
    return n;
  }
  // One step, to n_end tokens; false where there is no room.
  bool step(SeqKv& seq, std::span<const Token> tokens, int n_begin, int n_end) {
    if (!cache->grow(seq, n_end)) return false;
    EXPECT_TRUE(cache->exclusive(seq, n_begin, n_end));
    const auto before = static_cast<size_t>(std::max(n_begin - 1, 0) / kBlock);
    EXPECT_TRUE(n_begin == 0 || at(seq.table[before][1].id()) == n_begin);
    for (int n = n_begin + 1; n <= n_end; ++n) {
      const BlockRef& state = seq.table[static_cast<size_t>((n - 1) / kBlock)][1];
      if (state && (n % kBlock == 0 || n == n_end)) at(state.id()) = n;
    }
    cache->index(seq, {tokens, {}, {}}, n_end);
    cache->slide(seq, n_end);
    EXPECT_EQ(cache->check(), "");
    return true;
  }
  // A step of one token and guesses, of which n_right came true at most; how many tokens there are then.
  int guess(SeqKv& seq, std::span<const Token> tokens, int n_begin, int n_guesses, int n_right) {
    EXPECT_TRUE(cache->grow(seq, n_begin + 1) && cache->grow(seq, n_begin + 1 + n_guesses));
    EXPECT_EQ(at(seq.table[static_cast<size_t>(n_begin - 1) / kBlock][1].id()), n_begin);
    n_guesses = cache->add_guess_states(seq, n_guesses, 1);
    cache->truncate(seq, n_begin + 1 + n_guesses);
    EXPECT_TRUE(cache->exclusive(seq, n_begin, n_begin + 1 + n_guesses));
    EXPECT_EQ(seq.guess_states.size(), static_cast<size_t>(n_guesses));
    n_right = std::min(n_right, n_guesses);
    const int n_end = n_begin + 1 + n_right;
    at(seq.table[static_cast<size_t>(n_begin) / kBlock][1].id()) = n_begin + 1;
    for (int i = 0; i < n_guesses; ++i) at(seq.guess_states[static_cast<size_t>(i)].id()) = n_begin + 2 + i;
    cache->settle_guess_states(seq, n_begin + 1, n_right);
    EXPECT_TRUE(seq.guess_states.empty());
    cache->truncate(seq, n_end);
    for (int n = n_begin / kBlock * kBlock + kBlock; n < n_end; n += kBlock) {
      const BlockRef& state = seq.table[static_cast<size_t>(n / kBlock) - 1][1];
      EXPECT_TRUE(state && at(state.id()) == n) << "of a whole block, at its end";
    }
    cache->index(seq, {tokens, {}, {}}, n_end);
    EXPECT_EQ(cache->check(), "");
    return n_end;
  }
  // All of it, `chunk` tokens a step.
  int run(SeqKv& seq, std::span<const Token> tokens, int n_prompt, int chunk) {
    const int n_known = begin(seq, tokens, n_prompt);
    const auto n_all = static_cast<int>(tokens.size());
    for (int n = n_known; n < n_all; n += chunk) EXPECT_TRUE(step(seq, tokens, n, std::min(n + chunk, n_all)));
    return n_known;
  }
  int n_cached() const { return cache->pool(1).n_cached(); }
  int n_free() const { return cache->pool(1).n_free(); }

  std::unique_ptr<KvCache> cache;
};

std::vector<Token> tokens_of(int n, int last = 0) {
  std::vector<Token> out;
  out.reserve(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) out.push_back(i + last * 1000);
  return out;
}

//  prompt of 50      [0 ……… 47|48 49]        a state at 48, behind the last whole block that a match may take
TEST(KvStates, AMatchEndsWhereKeysAndAStateAre) {
  for (const int chunk : {1, 7, 16, 50}) {
    States states(64, 16);
    SeqKv seq;
    EXPECT_EQ(states.run(seq, tokens_of(50), 50, chunk), 0);
    states.cache->release(seq);
    SeqKv again, longer, shorter;
    EXPECT_EQ(states.begin(again, tokens_of(50), 50), 48) << chunk;
    EXPECT_EQ(states.begin(longer, tokens_of(60), 60), 48);
    EXPECT_EQ(states.begin(shorter, tokens_of(40), 40), 0) << "keys of 32 tokens are there, a state is not";
    EXPECT_EQ(states.cache->peek({tokens_of(60), {}, {}}), 48);
    for (SeqKv* each : {&again, &longer, &shorter}) states.cache->release(*each);
  }
}

// An answer leaves a state behind every block, of which the last stays: the next turn goes on from there.
TEST(KvStates, AnAnswersLastStateStays) {
  States states(64, 16);
  SeqKv seq;
  states.begin(seq, tokens_of(40), 40);
  states.step(seq, tokens_of(40), 0, 40);
  const std::vector<Token> all = tokens_of(150);
  for (int n = 40; n < 150; ++n) {
    ASSERT_TRUE(states.step(seq, all, n, n + 1));
    EXPECT_LE(states.cache->pool(1).n_blocks() - states.n_free(), 4) << "at the prompt, behind the last block, now";
  }
  states.cache->release(seq);
  SeqKv next, other;
  EXPECT_EQ(states.begin(next, tokens_of(170), 170), 144);
  EXPECT_EQ(states.begin(other, tokens_of(100), 100), 32) << "where the prompt ended";
  states.cache->release(next);
  states.cache->release(other);
  EXPECT_EQ(states.n_cached(), 2);
}

TEST(KvStates, EveryManyBlocksAStateStays) {
  States states(256, 16);
  SeqKv seq;
  states.run(seq, tokens_of(1300), 1300, 512);
  states.cache->release(seq);
  for (const auto& [n, found] : {std::pair{520, 512}, {600, 512}, {1100, 1024}, {1300, 1296}, {500, 0}}) {
    SeqKv other;
    EXPECT_EQ(states.begin(other, tokens_of(n), n), found) << n;
    states.cache->release(other);
  }
}

// A sequence that goes on from another's state forgets its own on its way, and never that.
TEST(KvStates, OthersStatesAreNotForgotten) {
  States states(64, 16);
  SeqKv first;
  states.run(first, tokens_of(50), 50, 50);
  states.cache->release(first);
  SeqKv second;
  EXPECT_EQ(states.run(second, tokens_of(120), 60, 1), 48);
  states.cache->release(second);
  SeqKv third;
  EXPECT_EQ(states.begin(third, tokens_of(50), 50), 48);
  states.cache->release(third);
}

TEST(KvStates, ThoseThatAreCachedMakeRoom) {
  States states(64, 3);
  std::vector<SeqKv> seqs(2);
  SeqKv old;
  states.run(old, tokens_of(40, 1), 40, 40);
  states.cache->release(old);
  EXPECT_EQ(states.n_cached(), 1);
  EXPECT_EQ(states.run(seqs[0], tokens_of(40, 2), 40, 40), 0);
  EXPECT_EQ(states.run(seqs[1], tokens_of(40, 3), 40, 40), 0);
  SeqKv again;
  EXPECT_EQ(states.begin(again, tokens_of(40, 1), 40), 0) << "its keys are there, its state made room";
  const KvCache::Shortage lack = states.cache->shortage(again, {41, 40, 2});
  EXPECT_TRUE(lack && lack.of_states);
  for (SeqKv& seq : seqs) states.cache->release(seq);
  states.cache->release(again);
}

// States on the way are for later: they take none that others who run may ask for in this step.
TEST(KvStates, ThoseOnTheWayLeaveRoomToOthers) {
  States states(64, 3);
  SeqKv old, prompt, other;
  states.run(old, tokens_of(40, 1), 40, 40);
  states.cache->release(old);
  states.begin(prompt, tokens_of(40, 2), 40);
  ASSERT_TRUE(states.cache->grow(prompt, 40, 2));
  EXPECT_FALSE(prompt.table[1][1]) << "behind 32 tokens: the two that are left are another's";
  EXPECT_EQ(states.n_free() + states.n_cached(), 2);
  EXPECT_TRUE(states.cache->grow(other, 16));
  EXPECT_TRUE(states.cache->grow(other, 32));
  states.cache->release(prompt);
  states.cache->release(other);
  states.begin(prompt, tokens_of(40, 2), 40);
  ASSERT_TRUE(states.cache->grow(prompt, 40, 1));
  EXPECT_TRUE(prompt.table[1][1]) << "one is left besides";
  states.cache->release(prompt);
}

// A state is of one place, so what parts within a block is computed again.
TEST(KvStates, NoPartOfABlockIsCopied) {
  States states(64, 16);
  SeqKv from, to;
  states.run(from, tokens_of(40), 40, 40);
  EXPECT_EQ(states.begin(to, tokens_of(38), 38), 32);
  EXPECT_FALSE(states.cache->copy_next_block(to, from));
  states.cache->release(from);
  states.cache->release(to);
}

// However long a sequence is and whoever else is there: two states of its own are enough to go on.
TEST(KvStates, TwoAreEnoughForOne) {
  for (const int chunk : {1, 5, 16, 40}) {
    States states(64, 2);
    SeqKv seq;
    states.run(seq, tokens_of(300), 200, chunk);
    states.cache->release(seq);
    EXPECT_EQ(states.n_free() + states.n_cached(), 2);
  }
}

// A pin holds the state behind its last whole block, and others need no less room for that.
TEST(KvStates, APinnedPromptKeepsItsState) {
  States states(64, 4);
  PinLimits limits{4, {8, 2}, 4096};
  Pins pins(*states.cache, limits);
  SeqKv seq;
  states.run(seq, tokens_of(50), 50, 16);
  const std::vector<Token> pinned = tokens_of(50);
  ASSERT_TRUE(pins.add(1, {pinned, {}, {}}));
  EXPECT_EQ(pins.n_blocks(0), 3);
  EXPECT_EQ(pins.n_blocks(1), 1);
  EXPECT_EQ(pins.bytes(), 3 * 4 * kBlock + 64);
  states.cache->release(seq);
  for (int other = 1; other < 20; ++other) {
    states.run(seq, tokens_of(60, other), 60, 16);
    states.cache->release(seq);
    ASSERT_EQ(states.cache->peek({pinned, {}, {}}), 48) << other;
  }
  ASSERT_TRUE(pins.remove(1));
  for (int other = 20; other < 40; ++other) {
    states.run(seq, tokens_of(60, other), 60, 16);
    states.cache->release(seq);
  }
  EXPECT_EQ(states.cache->peek({pinned, {}, {}}), 0);
}

// Copied out and back, a sequence goes on behind the same state, whatever others did to what the tree had of it.
TEST(KvStates, ACopyComesBackAsItWas) {
  for (const int n : {50, 48, 17}) {
    States states(12, 4);
    SeqKv seq;
    const std::vector<Token> tokens = tokens_of(n + 30);
    const std::span<const Token> first = std::span(tokens).first(static_cast<size_t>(n));
    states.run(seq, first, n, 16);
    EXPECT_TRUE(states.cache->parts_with_past(seq, n));
    const KvImage image = *states.cache->copy_out(seq, n);
    EXPECT_EQ(image.n_bytes, (n + kBlock - 1) / kBlock * kBlock * 4 + 64) << "every block, and one state";
    states.cache->release(seq);
    SeqKv others;
    states.run(others, tokens_of(12 * kBlock, 2), 12 * kBlock, 64);
    EXPECT_FALSE(states.cache->put_back(seq, image)) << "no room";
    EXPECT_TRUE(seq.table.empty());
    states.cache->release(others);
    ASSERT_TRUE(states.cache->put_back(seq, image));
    EXPECT_TRUE(states.step(seq, tokens, n, n + 30));
    states.cache->release(seq);
  }
}

// Whatever is guessed and comes true, the state is that of the tokens that there are, what stays findable is what stays
// without guesses, and nothing is left of the others.
TEST(KvStates, OfGuessesTheStateBehindTheLastThatCameTrueStays) {
  Rng rng(7);
  const int n_rounds = fewer_if_sanitized(60);
  for (int round = 0; round < n_rounds; ++round) {
    const int n_states = 4 + round % 40;
    States plain(128, 64), guessing(128, n_states);
    const std::vector<Token> tokens = tokens_of(900, round);
    SeqKv one, other;
    plain.run(one, tokens, 50, 1);
    guessing.begin(other, tokens, 50);
    EXPECT_TRUE(guessing.step(other, tokens, 0, 50));
    for (int n = 50; n < 900;) {
      const auto n_guesses = static_cast<int>(rng.between(0, std::min(40, 900 - n - 1)));
      n = guessing.guess(other, tokens, n, n_guesses, static_cast<int>(rng.between(0, 40)));
    }
    plain.cache->release(one);
    guessing.cache->release(other);
    EXPECT_EQ(guessing.n_free() + guessing.n_cached(), n_states);
    if (n_states < 40) continue;
    EXPECT_EQ(guessing.n_cached(), plain.n_cached());
    EXPECT_EQ(guessing.cache->peek({tokens, {}, {}}), plain.cache->peek({tokens, {}, {}}));
  }
}

}  // namespace
}  // namespace quire
