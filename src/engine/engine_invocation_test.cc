// Activated adapters: what comes before their invocation is the model's own, in every answer and in the cache. Truth is
// the scripted model's answer, in which a token's past depends on the adapter that it has. Blocks have 16 tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "engine/test_proposer.h"
#include "engine/test_schedules.h"
#include "engine/watched_engine.h"
#include "kv/prefix_tree.h"

namespace quire {
namespace {

constexpr int kCtx = 200;
const std::vector<Token> kInvocation{7, 8, 7};

std::shared_ptr<const Adapter> adapter(uint64_t content, std::vector<Token> invocation = kInvocation) {
  auto out = std::make_shared<Adapter>();
  out->content = content;
  out->invocation = std::move(invocation);
  return out;
}

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = kCtx;
  return out;
}

// Of n tokens, the same for the same seed but for the invocation, which stands at these places alone.
std::vector<Token> prompt(uint64_t seed, int n, const std::vector<int>& places) {
  std::vector<Token> out = random_tokens(seed, n);
  std::ranges::replace(out, kInvocation[0], 9);
  for (const int at : places) std::ranges::copy(kInvocation, out.begin() + at);
  return out;
}

Request request(std::vector<Token> prompt, std::shared_ptr<const Adapter> adapter) {
  Request out;
  out.sampling.temperature = 0.8F;
  out.sampling.seed = prompt.size();
  out.prompt = std::move(prompt);
  out.adapter = std::move(adapter);
  out.max_tokens = 20;
  return out;
}

// What the cache has of it, behind an answer that is right.
int ask(TestEngine& t, const std::vector<Token>& prompt, const std::shared_ptr<const Adapter>& adapter) {
  const auto heard = t.submit(request(prompt, adapter));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(heard->answer, alone(request(prompt, adapter), kCtx));
  return heard->usage.n_cached;
}

// The kind of a request: none, an adapter for all tokens, two that are activated.
const std::shared_ptr<const Adapter> kKinds[] = {nullptr, adapter(3, {}), adapter(4), adapter(5)};
// At the beginning, at both sides of a block's edge, within one, at the end, nowhere, twice.
const std::vector<std::vector<int>> kPlaces{{0}, {15}, {16}, {17}, {40}, {57}, {}, {5, 44}};

// However it is scheduled, found, preempted, guessed ahead and whoever else is there.
TEST(EngineInvocation, AnswersAreThoseOfTheAdapterFromItsInvocationOn) {
  for (const TestSchedule& schedule : kTestSchedules) {
    for (const bool guesses : {false, true}) {
      SCOPED_TRACE("in chunks of " + std::to_string(schedule.max_chunk) + (guesses ? ", guessed ahead" : ""));
      std::map<SeqId, ExpectedAnswer> truth;
      TestSetup setup{.n_blocks = schedule.n_blocks};
      if (guesses) {
        setup.proposer = std::make_shared<ScriptedProposer>(
            4, kTestVocab, 1, [&](SeqId id) { return std::span<const Token>(truth.at(id).tokens); },
            std::vector{Guess::right, Guess::half, Guess::wrong});
      }
      EngineOptions wanted = schedule.options(kCtx);
      wanted.max_draft = guesses ? 4 : wanted.max_draft;
      TestEngine t(wanted, setup);
      std::vector<std::shared_ptr<Heard>> heard;
      for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < 3 * std::size(kKinds) * kPlaces.size(); ++i) {  // each three times: two follow
          const auto& kind = kKinds[i / 3 % std::size(kKinds)];
          const std::vector<Token> text = prompt(1, 100, kPlaces[i / 3 / std::size(kKinds)]);
          heard.push_back(t.submit(request(text, kind)));
          truth[heard.back()->seq] = alone(request(text, kind), kCtx);
          if (i % 5 == 4) {
            ASSERT_EQ(t.step(), "");
          }
        }
        ASSERT_EQ(t.run(), "");
      }
      for (const auto& one : heard) ASSERT_EQ(one->answer, truth[one->seq]) << one->seq;
      const EngineStats stats = t.engine->stats();
      EXPECT_EQ(stats.n_preempted > 0, schedule.n_blocks > 0);
      EXPECT_EQ(stats.spent.computed[static_cast<size_t>(Cause::draft)] > 0, guesses);
    }
  }
}

TEST(EngineInvocation, WhatComesBeforeItIsSharedWithTheModel) {
  const struct {
    std::vector<int> places;
    int n_shared;  // of whole blocks before the last place
  } cases[] = {{{50}, 48}, {{48}, 48}, {{47}, 32}, {{0}, 0}, {{9}, 0}, {{20, 81}, 80}, {{97}, 96}, {{}, 109}};
  for (const auto& [places, n_shared] : cases) {
    SCOPED_TRACE(places.empty() ? "nowhere" : std::to_string(places.back()));
    const std::vector<Token> text = prompt(2, 110, places);
    for (const auto& first : {kKinds[0], kKinds[2], kKinds[3]}) {
      TestEngine t(options());
      EXPECT_EQ(ask(t, text, first), 0);
      for (const auto& second : {kKinds[0], kKinds[2], kKinds[3]}) {
        if (second == first) continue;
        EXPECT_EQ(ask(t, text, second), n_shared);
      }
      const bool last_block = !places.empty() && places.back() > 96;  // no part of a block with a beginning is copied
      for (const auto& again : {kKinds[0], kKinds[2], kKinds[3]})
        EXPECT_EQ(ask(t, text, again), last_block && again != nullptr ? 96 : 109);
      EXPECT_EQ(ask(t, text, kKinds[1]), 0) << "one that adds to all tokens has nothing in common with them";
    }
  }
}

// Of one text that goes on behind the invocation: with another invocation later what lies between is the model's now.
TEST(EngineInvocation, APastDependsOnWhereItBegan) {
  TestEngine t(options());
  EXPECT_EQ(ask(t, prompt(3, 100, {20}), kKinds[2]), 0);
  EXPECT_EQ(ask(t, prompt(3, 130, {20}), kKinds[2]), 100) << "all that was asked for first";
  EXPECT_EQ(ask(t, prompt(3, 130, {20, 110}), kKinds[2]), 16);
  EXPECT_EQ(ask(t, prompt(3, 130, {20, 110}), kKinds[3]), 96);
  EXPECT_EQ(ask(t, prompt(3, 130, {20, 110}), nullptr), 96);
  EXPECT_EQ(ask(t, prompt(3, 130, {20}), nullptr), 110) << "within the block the model's own texts part there";
}

// Those that come together: one computes what both need, the other waits for that alone.
TEST(EngineInvocation, FollowersTakeWhatIsAlike) {
  const std::vector<Token> text = prompt(4, 100, {50});
  for (const bool model_first : {true, false}) {
    TestEngine t(options());
    const auto one = [&](bool is_first) { return request(text, is_first == model_first ? nullptr : kKinds[2]); };
    const auto another = [&] {
      Request out = one(false);
      out.sampling.seed = 1;
      return out;
    };
    const auto first = t.submit(one(true)), second = t.submit(one(false)), third = t.submit(another());
    ASSERT_EQ(t.run(), "");
    EXPECT_EQ(first->usage.cost.n_reused, 0);
    EXPECT_EQ(second->usage.cost.n_reused, 48);
    EXPECT_EQ(third->usage.cost.n_reused, 99);
    EXPECT_EQ(first->answer, alone(one(true), kCtx));
    EXPECT_EQ(second->answer, alone(one(false), kCtx));
    EXPECT_EQ(third->answer, alone(another(), kCtx));
    const EngineStats stats = t.engine->stats();
    EXPECT_EQ(stats.spent.n_wasted, 0) << "nothing was computed twice";
  }
}

// The model's text ends before the invocation: all but its last token is what the other computes.
TEST(EngineInvocation, AShorterTextOfTheModelFollowsToItsEnd) {
  TestEngine t(options());
  const std::vector<Token> text = prompt(4, 100, {50});
  const std::vector<Token> shorter(text.begin(), text.begin() + 45);
  const auto first = t.submit(request(text, kKinds[2]));
  const auto second = t.submit(request(shorter, nullptr));
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(second->usage.cost.n_reused, 44);
  EXPECT_EQ(second->answer, alone(request(shorter, nullptr), kCtx));
}

// Content and bits of blocks say whose they are, one by one.
TEST(EngineInvocation, BlocksAreToldOfUnderTheirOwnKey) {
  struct Watcher final : BlockWatcher {
    void stored(const LeavingBlock& block) override {
      adapters.push_back(block.key.adapter);
      n_extras.push_back(std::ssize(block.extras));
      if (!block.extras.empty()) at = block.extras.front().pos;
    }
    void removed(const Hash128&) override {}
    void step_ended() override {}
    std::vector<uint64_t> adapters;
    std::vector<int64_t> n_extras;
    int at = 0;
  } watcher;
  TestEngine t(options());
  EngineOptions wanted = options();
  wanted.block_tokens = 16;
  wanted.kv_bytes = int64_t{100} * 16 * int64_t{sizeof(TestModel::Cell)};
  EngineEnv env;
  env.clock = &t.clock;
  t.engine = std::move(*make_watched_engine(t.model, t.ops, wanted, env, &watcher));
  ask(t, prompt(5, 100, {37}), kKinds[2]);
  EXPECT_EQ(watcher.adapters, (std::vector<uint64_t>{0, 0, 4, 4, 4, 4, 4}));
  EXPECT_EQ(watcher.n_extras, (std::vector<int64_t>{0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(watcher.at, 37);
  ask(t, prompt(5, 100, {37}), nullptr);
  EXPECT_EQ(watcher.adapters, (std::vector<uint64_t>{0, 0, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0}));
}

// What an explanation says is what would be found, of the request's own and under other roots.
TEST(EngineInvocation, ExplanationsKnowOfIt) {
  struct Explained final : EventSink {
    void on_token(SeqId, const TokenEvent&) override {}
    void on_explained(SeqId, const Explanation& explained) override { found = explained; }
    void on_finish(SeqId, Finish, const Usage&, const std::string&) override {}
    Explanation found;
  };
  const auto explain = [](TestEngine& t, const std::vector<Token>& text, std::shared_ptr<const Adapter> kind,
                          std::vector<ExplainWish::Root> others) {
    Request asked = request(text, std::move(kind));
    asked.explain = std::make_unique<ExplainWish>(ExplainWish{std::move(others), 4, 20});
    auto sink = std::make_shared<Explained>();
    EXPECT_TRUE(t.engine->submit(std::move(asked), sink));
    EXPECT_EQ(t.run(), "");
    return sink->found;
  };
  const std::vector<Token> text = prompt(6, 100, {50});
  TestEngine t(options());
  ask(t, text, nullptr);
  Explanation found = explain(t, text, kKinds[2], {{0, 0}});
  EXPECT_EQ(found.n_memory, 48);
  EXPECT_EQ(found.cause, MissCause::other_root);
  EXPECT_EQ(found.n_other, 96);

  TestEngine other(options());
  ask(other, text, kKinds[2]);
  found = explain(other, text, nullptr, {{3, 0}, {4, 0, kInvocation}});
  EXPECT_EQ(found.n_memory, 48);
  EXPECT_EQ(found.cause, MissCause::other_root);
  EXPECT_EQ(found.other, 1);
  EXPECT_EQ(found.n_other, 96);
}

}  // namespace
}  // namespace quire
