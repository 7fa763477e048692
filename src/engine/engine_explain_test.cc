// Why a past is not found: each cause, what is told of others' pasts (nothing), and that what is foretold is what a
// request then finds. Blocks have 16 tokens.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/sanitized.h"
#include "engine/engine.h"
#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kCtx = 400;

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = kCtx;
  return out;
}

class Explained final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent&) override { ++n_tokens; }
  void on_explained(SeqId, const Explanation& explained) override {
    EXPECT_FALSE(done);
    found = explained;
    told = true;
  }
  void on_finish(SeqId, Finish how, const Usage& usage, const std::string&) override {
    finish = how;
    done = true;
    EXPECT_EQ(usage.n_generated, 0);
  }
  Explanation found;
  int n_tokens = 0;
  bool told = false, done = false;
  Finish finish = Finish::error;
};

Request request(std::vector<Token> prompt, uint64_t salt = 0, uint64_t tenant = 0) {
  Request out;
  out.prompt = std::move(prompt);
  out.max_tokens = 1;
  out.cache_salt = salt;
  out.tenant = tenant;
  return out;
}

Request wish(Request asked, std::vector<ExplainWish::Root> others = {}) {
  asked.explain = std::make_unique<ExplainWish>(ExplainWish{std::move(others), 4, 20});
  return asked;
}

int ask(TestEngine& t, Request asked) {
  const auto heard = t.submit(std::move(asked));
  EXPECT_EQ(t.run(), "");
  return heard->usage.n_cached;
}

Explanation explain(TestEngine& t, Request asked) {
  const auto sink = std::make_shared<Explained>();
  const auto id = t.engine->submit(std::move(asked), sink);
  EXPECT_TRUE(id) << (id ? "" : id.error().message);
  EXPECT_EQ(t.run(), "");
  EXPECT_TRUE(sink->told && sink->done);
  EXPECT_EQ(sink->n_tokens, 0) << "nothing is generated";
  EXPECT_EQ(sink->finish, Finish::stop);
  return sink->found;
}

std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(EngineExplain, TellsHowMuchIsThereAndComputesNothing) {
  TestEngine t(options(), 40);
  const std::vector<Token> prompt = random_tokens(1, 100);
  const Explanation before = explain(t, wish(request(prompt)));
  EXPECT_EQ(before.cause, MissCause::never_stored);
  EXPECT_EQ(before.n_memory, 0);
  EXPECT_EQ(before.parts_at, -1);
  EXPECT_EQ(t.engine->stats().n_rows, 0);
  EXPECT_EQ(t.engine->stats().n_prompt_tokens, 0);
  ask(t, request(prompt));
  const Explanation found = explain(t, wish(request(prompt)));
  EXPECT_EQ(found.cause, MissCause::whole);
  EXPECT_EQ(found.n_prompt, 100);
  EXPECT_EQ(found.n_memory, 96);
  EXPECT_EQ(found.n_disk, 0);
  EXPECT_EQ(found.block_tokens, 16);
  const Explanation longer = explain(t, wish(request(joined(prompt, random_tokens(2, 40)))));
  EXPECT_EQ(longer.cause, MissCause::never_stored) << "what was stored ends there";
  EXPECT_EQ(longer.n_memory, 96);
  EXPECT_EQ(explain(t, wish(request(random_tokens(1, 16)))).cause, MissCause::whole) << "all but its last token";
  EXPECT_EQ(explain(t, wish(request(random_tokens(9, 16)))).cause, MissCause::below_block);
}

TEST(EngineExplain, ShowsTheFirstTokenThatDiffersWithWhatStandsAroundIt) {
  for (const int at : {0, 3, 4, 15, 16, 50, 79}) {
    TestEngine t(options(), 60);
    const std::vector<Token> stored = random_tokens(1, 100);
    ask(t, request(random_tokens(7, 100)));
    ask(t, request(stored));
    std::vector<Token> changed = stored;
    changed[static_cast<size_t>(at)] = (changed[static_cast<size_t>(at)] + 1) % kPoison;
    const Explanation found = explain(t, wish(request(changed)));
    EXPECT_EQ(found.n_memory, at % 16 < 4 ? at / 16 * 16 : at) << "of the last block a quarter at least";
    if (at < 4) {  // of the first block a quarter
      EXPECT_EQ(found.cause, MissCause::never_stored);
      EXPECT_EQ(found.parts_at, -1);
      continue;
    }
    EXPECT_EQ(found.cause, MissCause::differs) << at;
    EXPECT_EQ(found.parts_at, at);
    const auto slice = [&](const std::vector<Token>& from, int begin, int end) {
      return std::vector<Token>(from.begin() + begin, from.begin() + std::min(end, 96));
    };
    EXPECT_EQ(found.before, slice(changed, std::max(at - 4, 0), at));
    EXPECT_EQ(found.stored, slice(stored, at, at + 20));
    EXPECT_EQ(found.asked, std::vector<Token>(changed.begin() + at, changed.begin() + std::min(at + 20, 100)));
  }
}

TEST(EngineExplain, OfSeveralStoredPathsTheOneThatGoesAlongLongestIsShown) {
  TestEngine t(options(), 80);
  const std::vector<Token> head = random_tokens(1, 32), near = random_tokens(2, 32);
  std::vector<Token> other = near;
  other[3] = (other[3] + 1) % kPoison;
  ask(t, request(joined(head, near)));
  ask(t, request(joined(head, other)));
  std::vector<Token> mine = near;
  mine[9] = (mine[9] + 1) % kPoison;
  const Explanation found = explain(t, wish(request(joined(head, mine))));
  EXPECT_EQ(found.cause, MissCause::differs);
  EXPECT_EQ(found.parts_at, 32 + 9);
  ASSERT_FALSE(found.stored.empty());
  EXPECT_EQ(found.stored[0], near[9]);
}

TEST(EngineExplain, AnotherSaltOrAdapterIsNamedOnlyWhereTheAskerNamesIt) {
  TestEngine t(options(), 60);
  const std::vector<Token> prompt = random_tokens(1, 100);
  ask(t, request(prompt, 5));
  EXPECT_EQ(explain(t, wish(request(prompt, 6))).cause, MissCause::never_stored) << "not told of salts unknown to it";
  const Explanation found = explain(t, wish(request(prompt, 6), {{0, 9}, {0, 5}}));
  EXPECT_EQ(found.cause, MissCause::other_root);
  EXPECT_EQ(found.other, 1);
  EXPECT_EQ(found.n_other, 96);
  EXPECT_EQ(found.n_memory, 0);
  EXPECT_EQ(found.parts_at, -1) << "the other salt's tokens are not looked at";
  const Explanation adapter = explain(t, wish(request(prompt, 5), {{77, 5}}));
  EXPECT_EQ(adapter.cause, MissCause::whole);
}

TEST(EngineExplain, SaysWhenAndForWhomABlockWasEvicted) {
  for (const bool own : {true, false}) {
    TestEngine t(options(), 30);
    const std::vector<Token> prompt = random_tokens(1, 100);
    ask(t, request(prompt, 0, 1));
    for (uint64_t i = 0; i < 30; ++i) {
      t.clock.advance_ns(1'000'000'000);
      ask(t, request(random_tokens(100 + i, 300), 0, own ? 1 : 2));
    }
    t.clock.advance_ns(2'000'000'000);
    const Explanation found = explain(t, wish(request(prompt, 0, 1)));
    EXPECT_EQ(found.cause, MissCause::evicted);
    EXPECT_EQ(found.made_way_for_own, own);
    EXPECT_GE(found.evicted_ago_ns, 2'000'000'000);
    EXPECT_LE(found.evicted_ago_ns, 32'000'000'000);
    EXPECT_LT(found.n_memory, 96);
    EXPECT_EQ(explain(t, wish(request(prompt, 0, 3))).cause, MissCause::never_stored) << "another's evictions";
    ask(t, request(prompt, 0, 1));
    EXPECT_EQ(explain(t, wish(request(prompt, 0, 1))).cause, MissCause::whole) << "it was computed again";
  }
}

// Under one salt, and where there is none, text of another tenant is neither shown nor does anything depend on it.
TEST(EngineExplain, TwoTenantsNeverSeeEachOthersTokens) {
  for (const uint64_t salt : {uint64_t{0}, uint64_t{4}}) {
    TestEngine t(options(), 80);
    const std::vector<Token> secret = random_tokens(1, 100);
    ask(t, request(secret, salt, 1));
    for (int n = 1; n < 96; ++n) {
      std::vector<Token> guess = secret;
      guess[static_cast<size_t>(n)] = (guess[static_cast<size_t>(n)] + 1) % kPoison;
      const Explanation found = explain(t, wish(request(guess, salt, 2)));
      EXPECT_EQ(found.cause, MissCause::never_stored) << n;
      EXPECT_EQ(found.parts_at, -1);
      EXPECT_TRUE(found.stored.empty());
    }
    EXPECT_EQ(explain(t, wish(request(secret, salt + 1, 2))).n_memory, 0);
  }
}

// Behind a public beginning every tenant's continuations hang under one block.
TEST(EngineExplain, BehindAPublicBeginningOnlyTheOwnContinuationsAreSeen) {
  TestEngine t(options(), 80);
  const std::vector<Token> common = random_tokens(1, 32), tail = random_tokens(2, 32);
  const auto salted = [&](const std::vector<Token>& rest, uint64_t who) {
    Request out = request(joined(common, rest), who, who);
    out.n_public = 32;
    return out;
  };
  ask(t, salted(tail, 1));
  std::vector<Token> mine = tail;
  mine[5] = (mine[5] + 1) % kPoison;
  const Explanation other = explain(t, wish(salted(mine, 2)));
  EXPECT_EQ(other.n_memory, 32);
  EXPECT_EQ(other.cause, MissCause::never_stored);
  EXPECT_EQ(other.parts_at, -1);
  const Explanation own = explain(t, wish(salted(mine, 1)));
  EXPECT_EQ(own.cause, MissCause::differs);
  EXPECT_EQ(own.parts_at, 37);
}

TEST(EngineExplain, WaitsItsTurnIsCancelledAndRefusedLikeAnyRequest) {
  TestEngine t(options(), 40);
  std::vector<std::shared_ptr<Explained>> sinks;
  std::vector<SeqId> ids;
  for (int i = 0; i < 5; ++i) {
    const auto id = t.engine->submit(wish(request(random_tokens(1, 40))), sinks.emplace_back(new Explained));
    ASSERT_TRUE(id);
    ids.push_back(*id);
  }
  t.engine->cancel(ids[3]);
  EXPECT_EQ(t.step(), "");
  EXPECT_TRUE(sinks[0]->told);
  EXPECT_FALSE(sinks[1]->told) << "a step explains one";
  EXPECT_TRUE(sinks[3]->done);
  EXPECT_EQ(sinks[3]->finish, Finish::cancelled);
  EXPECT_EQ(t.engine->stats().n_waiting, 3);
  t.engine->stop();
  EXPECT_EQ(sinks[1]->finish, Finish::cancelled);
  EXPECT_FALSE(sinks[4]->told);
  EXPECT_TRUE(sinks[4]->done);

  TestEngine other(options(), 40);
  const auto refused = [&](Request r) {
    const auto id = other.engine->submit(std::move(r), std::make_shared<Explained>());
    return id ? "" : id.error().message;
  };
  EXPECT_EQ(refused(wish(request(random_tokens(1, 40)), std::vector<ExplainWish::Root>(17))),
            "17 other adapters and salts are to be looked at: the limit is 16");
  Request pinned = wish(request(random_tokens(1, 40)));
  pinned.pin = {1, 1, 1};
  EXPECT_EQ(refused(std::move(pinned)), "a request is explained or pinned, not both");
  EngineOptions uncached = options();
  uncached.prefix_cache = false;
  TestEngine without(uncached, 40);
  const auto id = without.engine->submit(wish(request(random_tokens(1, 40))), std::make_shared<Explained>());
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().message, "nothing can be explained: the prefix cache is off");
}

// Whatever was asked before, with windows too: what is foretold is found.
TEST(EngineExplain, TheMatchIsWhatTheRequestThenFinds) {
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(fewer_if_sanitized(60)); ++seed) {
    const int window = seed % 3 == 2 ? 40 : 0;
    EngineOptions wanted = options();
    wanted.n_window_blocks = window > 0 ? 40 : 0;
    TestEngine t(wanted, TestSetup{.n_blocks = 30, .window = window});
    uint64_t n = 0;
    const auto draw = [&](uint64_t below) { return static_cast<int>(random_bits(seed, n++) % below); };
    std::vector<std::vector<Token>> known;
    int n_misses = 0;
    for (int i = 0; i < 60; ++i) {
      std::vector<Token> prompt;
      if (!known.empty() && draw(4) > 0) {
        prompt = known[static_cast<size_t>(draw(known.size()))];
        prompt.resize(static_cast<size_t>(1 + draw(prompt.size())));
      }
      prompt = joined(std::move(prompt), random_tokens(random_bits(seed, n++), 1 + draw(80)));
      prompt.resize(std::min<size_t>(prompt.size(), 250));
      const auto salt = static_cast<uint64_t>(draw(2)), tenant = static_cast<uint64_t>(draw(2));
      const Explanation foretold = explain(t, wish(request(prompt, salt, tenant)));
      EXPECT_EQ(foretold.n_memory, ask(t, request(prompt, salt, tenant))) << "seed " << seed << " step " << i;
      EXPECT_EQ(foretold.n_prompt, static_cast<int>(prompt.size()));
      n_misses += foretold.cause != MissCause::whole ? 1 : 0;
      known.push_back(std::move(prompt));
    }
    EXPECT_GT(n_misses, 5);
  }
}

}  // namespace
}  // namespace quire
