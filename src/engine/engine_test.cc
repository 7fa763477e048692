// One request, one answer: whatever runs beside it, however it is cut, wherever its past comes from. Every answer is
// held against alone(), which knows neither engine nor blocks.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kCtx = 200;
constexpr int kRequests = 24;

// Lengths on both sides of block edges; three of four share a prefix with their neighbours.
Request request(int i) {
  const int lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 64, 90, 120};
  const int n = lengths[i % 12];
  Request out;
  out.prompt = random_tokens(static_cast<uint64_t>(i % 4 == 0 ? i : 1000 + i / 12), n);
  if (i % 4 == 1) out.prompt.back() = static_cast<Token>(i % kPoison);
  out.max_tokens = 1 + i * 7 % 40;
  out.sampling.temperature = i % 3 == 0 ? 0.0F : 0.8F;
  out.sampling.top_k = i % 5 == 0 ? 7 : 0;
  out.sampling.top_p = i % 5 == 1 ? 0.8F : 1.0F;
  out.sampling.seed = static_cast<uint64_t>(i);
  out.stop_ids = {static_cast<Token>(i % kPoison)};
  return out;
}

// Small when it is admitted, large later: what makes others give way.
Request long_answer(int i) {
  Request out = request(i);
  out.prompt.resize(std::min<size_t>(out.prompt.size(), 20));
  out.max_tokens = 60 + i * 3;
  out.stop_ids.clear();
  return out;
}

using Make = Request (*)(int);

std::vector<ExpectedAnswer> all_alone(Make make) {
  std::vector<ExpectedAnswer> out;
  for (int i = 0; i < kRequests; ++i) out.push_back(alone(make(i), kCtx));
  return out;
}

const std::vector<ExpectedAnswer>& truth() {
  static const std::vector<ExpectedAnswer> kAnswers = all_alone(request);
  return kAnswers;
}

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = kCtx;
  return out;
}

std::string text(const EngineOptions& o, int n_blocks) {
  return "seqs " + std::to_string(o.max_seqs) + " chunk " + std::to_string(o.max_chunk) + " step " +
         std::to_string(o.step_tokens) + " blocks " + std::to_string(n_blocks) + (o.prefix_cache ? " cached" : "");
}

// All requests at once, `rounds` times on one engine; its statistics at the end.
EngineStats expect_truth(const EngineOptions& wanted, int n_blocks = 0, int rounds = 1) {
  SCOPED_TRACE(text(wanted, n_blocks));
  TestEngine t(wanted, n_blocks);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::shared_ptr<Heard>> heard;
    for (int i = 0; i < kRequests; ++i) heard.push_back(t.submit(request(i)));
    EXPECT_EQ(t.run(), "");
    for (size_t i = 0; i < heard.size(); ++i) {
      EXPECT_EQ(heard[i]->n_finish, 1);
      EXPECT_EQ(heard[i]->answer, truth()[i]) << "request " << i << " in round " << round;
    }
  }
  const EngineStats stats = t.engine->stats();
  EXPECT_EQ(stats.n_finished, kRequests * rounds);
  EXPECT_EQ(stats.n_running + stats.n_waiting, 0);
  EXPECT_EQ(stats.n_free_blocks + stats.n_cached_blocks, stats.n_blocks);
  return stats;
}

TEST(Engine, BatchedIsAlone) {
  for (const int max_seqs : {1, 2, 7, 24}) {
    EngineOptions o = options();
    o.max_seqs = max_seqs;
    expect_truth(o);
  }
}

TEST(Engine, AnyChunkAndAnyBudget) {
  for (const int max_chunk : {1, 3, 16, 100}) {
    for (const int step_tokens : {1, 2, 17, 64}) {
      EngineOptions o = options();
      o.max_chunk = max_chunk;
      o.step_tokens = step_tokens;
      TestEngine t(o);
      t.model.on_pass = [&](const Batch& batch) {
        EXPECT_LE(batch.ids.dim(0), step_tokens);
        const auto cu_q = batch.attn.cu_q.span<int32_t>();
        for (size_t s = 0; s + 1 < cu_q.size(); ++s) EXPECT_LE(cu_q[s + 1] - cu_q[s], max_chunk);
      };
      std::vector<std::shared_ptr<Heard>> heard;
      for (int i = 0; i < kRequests; ++i) heard.push_back(t.submit(request(i)));
      EXPECT_EQ(t.run(), "");
      for (size_t i = 0; i < heard.size(); ++i)
        EXPECT_EQ(heard[i]->answer, truth()[i]) << text(o, 0) << " request " << i;
    }
  }
}

TEST(Engine, AnyBlockSize) {
  for (const int block_tokens : {16, 32, 64, 256}) {
    EngineOptions o = options();
    o.block_tokens = block_tokens;
    o.prefix_cache = true;
    expect_truth(o, 8 * kCtx / block_tokens + 8, 2);
  }
}

TEST(Engine, AnyOrderOfArrival) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    std::vector<int> order(kRequests);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[static_cast<size_t>(rng.between(0, static_cast<int64_t>(i)))]);
    EngineOptions o = options();
    o.max_seqs = 5;
    TestEngine t(o);
    std::vector<std::shared_ptr<Heard>> heard(kRequests);
    for (const int i : order) {
      heard[static_cast<size_t>(i)] = t.submit(request(i));
      for (int64_t n = rng.between(0, 6); n > 0; --n) EXPECT_EQ(t.step(), "");
    }
    EXPECT_EQ(t.run(), "");
    for (size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(heard[i]->answer, truth()[i]) << "request " << i;
  }
}

TEST(Engine, APrefixHitIsAMiss) {
  for (const int max_seqs : {1, 4, 24}) {
    EngineOptions o = options();
    o.max_seqs = max_seqs;
    const EngineStats stats = expect_truth(o, 0, 2);
    EXPECT_GT(stats.n_cached_tokens, 500) << "the test would prove nothing without hits";
    o.prefix_cache = false;
    EXPECT_EQ(expect_truth(o, 0, 2).n_cached_tokens, 0);
  }
}

TEST(Engine, PreemptedIsNotPreempted) {
  const std::vector<ExpectedAnswer> answers = all_alone(long_answer);
  for (const bool prefix_cache : {true, false}) {
    for (const int n_blocks : {10, 17, 30}) {  // the longest request takes 10
      EngineOptions o = options();
      o.prefix_cache = prefix_cache;
      o.recompute_share = 1;  // all come in, and some have to go
      SCOPED_TRACE(text(o, n_blocks));
      TestEngine t(o, n_blocks);
      std::vector<std::shared_ptr<Heard>> heard;
      for (int i = 0; i < kRequests; ++i) heard.push_back(t.submit(long_answer(i)));
      EXPECT_EQ(t.run(), "");
      for (size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(heard[i]->answer, answers[i]) << "request " << i;
      EXPECT_GT(t.engine->stats().n_preempted, 5) << "the test would prove nothing without preemption";
    }
  }
}

TEST(Engine, UsageSaysWhatWasCached) {
  TestEngine t(options());
  Request first = request(11);
  first.max_tokens = 2;
  const auto cold = t.submit(std::move(first));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(cold->usage.n_cached, 0);
  EXPECT_EQ(cold->usage.n_prompt, 120);
  Request again = request(11);
  again.max_tokens = 2;
  const auto warm = t.submit(std::move(again));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(warm->usage.n_cached, 112) << "7 of 7.5 blocks";
  EXPECT_EQ(warm->answer, cold->answer);
  EXPECT_EQ(t.engine->stats().n_cached_tokens, 112);
}

TEST(Engine, SaltsNeverShare) {
  TestEngine t(options());
  const struct {
    uint64_t salt;
    int n_cached;
  } turns[] = {{0, 0}, {1, 0}, {2, 0}, {0, 119}, {1, 119}};
  for (const auto& turn : turns) {
    Request r = request(11);
    r.cache_salt = turn.salt;
    const auto heard = t.submit(std::move(r));
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(heard->usage.n_cached, turn.n_cached) << "salt " << turn.salt;
  }
}

// Every row that the model computes has one cause.
TEST(Engine, CausesAddUpToTheRowsComputed) {
  for (const int n_blocks : {0, 11}) {
    for (const bool prefix_cache : {true, false}) {
      EngineOptions o = options();
      o.prefix_cache = prefix_cache;
      SCOPED_TRACE(text(o, n_blocks));
      TestEngine t(o, n_blocks);
      int64_t n_rows = 0;
      t.model.on_pass = [&](const Batch& batch) { n_rows += batch.ids.dim(0); };
      int64_t n_fresh = 0;  // what everyone's answer needs at least
      std::vector<std::shared_ptr<Heard>> heard;
      for (int i = 0; i < kRequests; ++i) heard.push_back(t.submit(i % 2 == 0 ? request(i) : long_answer(i)));
      EXPECT_EQ(t.run(), "");
      for (const auto& h : heard) {
        n_fresh += h->usage.n_prompt + h->usage.n_generated - 1;  // nothing follows the last one
      }
      const EngineStats stats = t.engine->stats();
      const auto cause = [&](Cause c) { return stats.spent.computed[static_cast<size_t>(c)]; };
      EXPECT_EQ(cause(Cause::fresh) + cause(Cause::recomputed), n_rows);
      EXPECT_EQ(cause(Cause::draft) + cause(Cause::warm_up), 0);
      EXPECT_EQ(cause(Cause::recomputed) > 0, stats.n_preempted > 0);
      EXPECT_EQ(stats.n_preempted > 0, n_blocks != 0);
      if (!prefix_cache) {
        EXPECT_EQ(cause(Cause::fresh), n_fresh);
      } else {
        EXPECT_LE(cause(Cause::fresh), n_fresh - stats.n_cached_tokens);
      }
    }
  }
}

TEST(Engine, ReportsTheLargestLogprobsThatWereAskedFor) {
  TestEngine t(options());
  Request r = request(3);
  r.sampling.n_logprobs = 4;
  const auto heard = t.submit(std::move(r));
  EXPECT_EQ(t.run(), "");
  EXPECT_EQ(heard->n_top, 4U);
}

}  // namespace
}  // namespace quire
