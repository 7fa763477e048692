// Pins: a prompt stays in the cache whatever else needs room, changes no answer and never keeps a whole context from
// running; it goes when it is given up. Blocks have 16 tokens.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/limits.h"
#include "engine/recording.h"
#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kCtx = 200;  // 13 blocks
constexpr int64_t kBlockBytes = 16 * int64_t{sizeof(TestModel::Cell)};
constexpr uint64_t kOwner = 7;

EngineOptions options(int n_pin_blocks) {
  EngineOptions out;
  out.n_ctx = kCtx;
  out.pin_bytes = n_pin_blocks * kBlockBytes;
  return out;
}

Request request(uint64_t seed, int n_prompt, int n_answer = 12) {
  Request out;
  out.prompt = random_tokens(seed, n_prompt);
  out.max_tokens = n_answer;
  out.sampling.temperature = 0.8F;
  out.sampling.seed = seed;
  return out;
}

Request pin(uint64_t id, uint64_t seed, int n_prompt) {
  Request out = request(seed, n_prompt, 1);
  out.pin = {id, kOwner, 100};
  return out;
}

// Runs it to its end.
std::shared_ptr<Heard> ask(TestEngine& t, Request r) {
  const auto heard = t.submit(std::move(r));
  EXPECT_EQ(t.run(), "");
  return heard;
}

// More than there is room for, all of it right.
void flood(TestEngine& t) {
  std::vector<std::shared_ptr<Heard>> heard;
  for (uint64_t i = 0; i < 30; ++i) heard.push_back(t.submit(request(1000 + i, 150)));
  ASSERT_EQ(t.run(), "");
  for (uint64_t i = 0; i < 30; ++i) EXPECT_EQ(heard[i]->answer, alone(request(1000 + i, 150), kCtx));
}

TEST(EnginePins, StayWhateverElseNeedsRoomUntilTheyAreGivenUp) {
  for (const int window : {0, 40}) {
    EngineOptions wanted = options(window > 0 ? 6 + 3 : 6);
    wanted.n_window_blocks = window > 0 ? 40 : 0;
    TestEngine t(wanted, TestSetup{.n_blocks = 40, .window = window});
    const auto pinned = ask(t, pin(1, 5, 100));
    EXPECT_EQ(pinned->usage.n_pinned, 96);
    EXPECT_EQ(pinned->answer, alone(request(5, 100, 1), kCtx));
    flood(t);
    const auto again = ask(t, request(5, 100));
    EXPECT_EQ(again->usage.n_cached, 96);
    EXPECT_EQ(again->answer, alone(request(5, 100), kCtx)) << "the same bits, found or computed";
    const EngineStats stats = t.engine->stats();
    EXPECT_EQ(stats.n_pins, 1);
    EXPECT_EQ(stats.n_pinned_blocks, 6);
    EXPECT_EQ(stats.pinned_bytes, (window > 0 ? 6 + 3 : 6) * kBlockBytes);
    ASSERT_EQ(t.engine->pins(kOwner).size(), 1U);
    EXPECT_EQ(t.engine->pins(kOwner)[0].n_tokens, 96);
    EXPECT_FALSE(t.engine->unpin(1, kOwner + 1)) << "another's";
    EXPECT_FALSE(t.engine->unpin(2, kOwner));
    EXPECT_TRUE(t.engine->unpin(1, kOwner));
    EXPECT_TRUE(t.engine->pins(kOwner).empty()) << "at once";
    EXPECT_EQ(t.step(), "");
    EXPECT_EQ(t.engine->stats().n_pins, 0) << "in a step, though nothing runs";
    EXPECT_EQ(t.engine->snapshot().n_held_blocks, 0);
    flood(t);
    const auto last = ask(t, request(5, 100));
    EXPECT_EQ(last->usage.n_cached, 0);
    EXPECT_EQ(last->answer, again->answer);
  }
}

// Before a pin what the cache has is found, so a prompt that others are at is not computed twice; text goes on behind
// it.
TEST(EnginePins, WhatFollowsAPinnedPromptGoesOnBehindIt) {
  TestEngine t(options(12), 40);
  ask(t, request(5, 100));
  EXPECT_EQ(ask(t, pin(1, 5, 100))->usage.n_cached, 96);
  flood(t);
  Request longer = request(5, 100);
  const std::vector<Token> more = random_tokens(6, 50);
  longer.prompt.insert(longer.prompt.end(), more.begin(), more.end());
  EXPECT_EQ(ask(t, std::move(longer))->usage.n_cached, 96);
}

// However much is pinned, a whole context runs, and several do one after the other.
TEST(EnginePins, AWholeContextRunsBesideAllThatMayBePinned) {
  for (const int window : {0, 40}) {
    EngineOptions wanted = options(window > 0 ? 20 : 10);
    wanted.max_chunk = wanted.step_tokens = 32;
    wanted.n_window_blocks = window > 0 ? 16 : 0;
    TestEngine t(wanted, TestSetup{.n_blocks = 13 + 10, .window = window});
    int n_pinned = 0;
    for (uint64_t i = 0; i < 5; ++i) n_pinned += ask(t, pin(1 + i, 50 + i, 33))->usage.n_pinned;
    EXPECT_EQ(n_pinned, 5 * 32);
    EXPECT_EQ(t.engine->stats().pinned_bytes, t.engine->options().pin_bytes);
    std::vector<std::shared_ptr<Heard>> heard;
    for (uint64_t i = 0; i < 4; ++i) heard.push_back(t.submit(request(i, 20 + 40 * static_cast<int>(i), kCtx)));
    ASSERT_EQ(t.run(), "");
    for (uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(heard[i]->answer, alone(request(i, 20 + 40 * static_cast<int>(i), kCtx), kCtx));
    }
    EXPECT_EQ(ask(t, request(50, 33))->usage.n_cached, 32);
  }
}

TEST(EnginePins, LimitsAreNamedWithTheirValues) {
  TestEngine t(options(6), 40);
  const auto refused = [&](Request r) {
    const auto id = t.engine->submit(std::move(r), std::make_shared<Heard>());
    EXPECT_FALSE(id);
    EXPECT_EQ(id ? Code::internal : id.error().code, Code::invalid);
    return id ? "" : id.error().message;
  };
  EXPECT_EQ(refused(pin(1, 1, 16)),
            "whole blocks of 16 tokens before the last token are pinned; the prompt of 16 tokens has none");
  EXPECT_EQ(refused(pin(1, 1, 113)), "112 tokens take 7 blocks of 256 bytes; pins may hold 27 blocks and 1536 bytes")
      << "before anything is computed";
  EXPECT_EQ(t.engine->stats().n_submitted, 0);
  EXPECT_EQ(ask(t, pin(1, 1, 65))->usage.n_pinned, 64);
  const auto beyond = ask(t, pin(2, 2, 49));
  EXPECT_EQ(beyond->answer.finish, Finish::error);
  EXPECT_EQ(beyond->usage.n_pinned, -1);
  EXPECT_EQ(beyond->error, "with it pins would hold 1792 bytes; 1536 may be pinned");
  EXPECT_EQ(ask(t, pin(3, 1, 65))->usage.n_pinned, 64) << "of the same blocks: they count once";
  EXPECT_EQ(ask(t, pin(4, 2, 33))->usage.n_pinned, 32);
  EXPECT_EQ(t.engine->stats().n_pinned_blocks, 6);
  EXPECT_TRUE(t.engine->unpin(1, kOwner));
  EXPECT_EQ(ask(t, request(1, 65))->usage.n_cached, 64);
  EXPECT_EQ(t.engine->stats().n_pinned_blocks, 6) << "another pin has them";
  Request greedy = pin(5, 2, 33);
  greedy.pin.n_most = 2;
  EXPECT_EQ(ask(t, std::move(greedy))->error, "this client has 2 pins, which is the limit");
  EXPECT_EQ(t.engine->pins(kOwner).size(), 2U);
}

TEST(EnginePins, AsManyAsTheOptionsSay) {
  EngineOptions wanted = options(6);
  wanted.max_pins = 2;
  TestEngine t(wanted, 40);
  EXPECT_EQ(ask(t, pin(1, 1, 17))->usage.n_pinned, 16);
  EXPECT_EQ(ask(t, pin(2, 2, 17))->usage.n_pinned, 16);
  EXPECT_EQ(ask(t, pin(3, 3, 17))->error, "there are 2 pins, which is the limit");
}

TEST(EnginePins, TablesOfSharedBlocksAreBoundedToo) {
  KvLayout layout;
  layout.claim(KvGroup{}, 4);
  std::vector<Buffer> memory;
  memory.push_back(std::move(*Buffer::allocate(64 * 20)));
  KvCacheOptions wanted;
  wanted.n_blocks = 20;
  KvCache cache(layout, std::move(memory), wanted);
  PinLimits limits{10, {20}, 20 * 64};
  limits.n_named = 7;
  Pins pins(cache, limits);
  const std::vector<Token> tokens = random_tokens(1, 50);
  SeqKv seq;
  ASSERT_TRUE(cache.grow(seq, 50));
  cache.index(seq, {tokens, {}, {}}, 50);
  EXPECT_TRUE(pins.add(1, {tokens, {}, {}}));
  EXPECT_TRUE(pins.add(2, {tokens, {}, {}}));
  EXPECT_EQ(pins.add(3, {tokens, {}, {}}).error().message,
            "with it all pins together would name 9 blocks, shared ones each time; the limit is 7");
  EXPECT_TRUE(pins.remove(1));
  EXPECT_TRUE(pins.add(3, {tokens, {}, {}}));
  EXPECT_EQ(pins.n_blocks(0), 3);
  cache.release(seq);
}

// What ends otherwise than well pins nothing.
TEST(EnginePins, NothingOfWhatFailsOrIsCancelled) {
  TestEngine t(options(6), 40);
  Request bad = pin(1, 1, 40);
  bad.prompt[3] = kPoison;
  EXPECT_EQ(ask(t, std::move(bad))->answer.finish, Finish::error);
  const auto gone = t.submit(pin(2, 2, 40));
  t.engine->cancel(gone->seq);
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(gone->answer.finish, Finish::cancelled);
  EXPECT_TRUE(t.engine->pins(kOwner).empty());
  EXPECT_EQ(t.engine->snapshot().n_held_blocks, 0);
}

// Salts part as ever; a public beginning is everybody's.
TEST(EnginePins, AreFoundByThoseWhoShareAlone) {
  TestEngine t(options(8), 40);
  Request secret = pin(1, 1, 65);
  secret.cache_salt = 9;
  ask(t, std::move(secret));
  Request open = pin(2, 2, 65);
  open.n_public = 65;
  ask(t, std::move(open));
  flood(t);
  const auto cached = [&](uint64_t seed, uint64_t salt, int n_public) {
    Request r = request(seed, 65);
    r.cache_salt = salt;
    r.n_public = n_public;
    return ask(t, std::move(r))->usage.n_cached;
  };
  EXPECT_EQ(cached(1, 9, 0), 64);
  EXPECT_EQ(cached(1, 0, 0), 0);
  EXPECT_EQ(cached(1, 8, 0), 0);
  EXPECT_EQ(cached(2, 8, 65), 64);
  EXPECT_EQ(cached(2, 8, 0), 0);
}

TEST(EnginePins, BehindALearnedPrefix) {
  TestEngine t(options(8), TestSetup{.n_blocks = 40, .prefixes = {{3, 20}}});
  Request r = pin(1, 1, 60);
  r.prefix = 3;
  EXPECT_EQ(ask(t, std::move(r))->usage.n_pinned, 64 - 20);
  flood(t);
  Request again = request(1, 60);
  again.prefix = 3;
  EXPECT_EQ(ask(t, std::move(again))->usage.n_cached, 64 - 20);
}

TEST(EnginePins, WhereNothingCanBePinnedItIsSaid) {
  const auto error = [](const EngineOptions& wanted, InputRecorder* recorder = nullptr) {
    TestEngine t(wanted, 40, recorder);
    const auto id = t.engine->submit(pin(1, 1, 40), std::make_shared<Heard>());
    return id ? "" : id.error().message;
  };
  EngineOptions none = options(0);
  EXPECT_EQ(error(none), "nothing can be pinned: no memory is set aside for it (pin_bytes is 0)");
  none.pin_bytes = -1;
  EXPECT_EQ(error(none), "");
  none.prefix_cache = false;
  EXPECT_EQ(error(none), "nothing can be pinned: the prefix cache is off");
  class Deaf final : public InputRecorder {
    void record(const EngineInput&) override {}
  } recorder;
  EngineOptions usual = options(0);
  usual.pin_bytes = -1;
  EXPECT_EQ(error(usual, &recorder), "nothing can be pinned: this run is recorded, and a recording holds no pins");
}

TEST(EnginePinLimits, LeaveRoomForAWholeContext) {
  KvLayout layout;
  layout.claim(KvGroup{}, 16);
  EngineOptions o = options(0);
  o.block_tokens = 16;
  const auto limits = [&](int64_t pin_bytes, int n_blocks, bool recorded = false) {
    o.kv_bytes = n_blocks * int64_t{256};
    o.pin_bytes = pin_bytes;
    return limit_pins(o, layout, BlockCounts{n_blocks, 0, 0}, recorded);
  };
  EXPECT_EQ(limits(-1, 104)->bytes, 26 * 256) << "a quarter";
  EXPECT_EQ(limits(-1, 15)->bytes, 2 * 256) << "or what is left beside a context of 13 blocks";
  EXPECT_EQ(limits(-1, 15)->n_blocks[0], 2);
  EXPECT_EQ(limits(-1, 13)->n_pins, 0);
  EXPECT_EQ(limits(-1, 4)->bytes, 0);
  EXPECT_EQ(limits(2 * 256, 15)->bytes, 2 * 256);
  EXPECT_EQ(limits(2 * 256 + 1, 15).error().message,
            "pin_bytes must be at most 512: kv memory of 3840 bytes has to hold a context of 200 tokens beside what is "
            "pinned; got 513");
  EXPECT_EQ(limits(0, 104)->n_pins, 0);
  EXPECT_EQ(limits(-1, 104, true)->n_pins, 0);
  EXPECT_EQ(limits(256, 104, true).error().message, "pin_bytes excludes a recording: no pins are in it");
  o.prefix_cache = false;
  EXPECT_EQ(limits(-1, 104)->n_pins, 0);
  EXPECT_EQ(limits(256, 104).error().message, "pin_bytes needs the prefix cache, which is off");
}

}  // namespace
}  // namespace quire
