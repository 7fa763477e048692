// --itl-target on a scripted machine under a virtual clock: streams keep their pace while long prompts arrive, the
// budget is used, and a run with the same durations decides the same.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace quire {
namespace {

class Gaps final : public EventSink {
 public:
  explicit Gaps(Clock& clock) : clock_(clock) {}
  void on_token(SeqId, const TokenEvent&) override { times_ns.push_back(clock_.now_ns()); }
  void on_finish(SeqId, Finish, const Usage&, const std::string&) override { done = true; }
  std::vector<int64_t> times_ns;
  bool done = false;

 private:
  Clock& clock_;
};

struct Scene {
  double noise = 0, slow_share = 0;
  double target_ms = 0;
  uint64_t seed = 1;
};

struct Outcome {
  double p50_ms = 0, p99_ms = 0, prefill_tok_s = 0;
  int n_steps = 0;
  std::vector<int> rows;     // of each step: what was decided
  std::vector<double> gaps;  // ms, of the streams while prompts were computed
};

double quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

// Eight streams run; then four prompts of 2,500 tokens come, one after another.
Outcome play(const Scene& scene) {
  EngineOptions options;
  options.n_ctx = 3000;
  options.itl_target_ms = scene.target_ms;
  options.prefix_cache = false;
  TestEngine t(options);
  Rng rng(scene.seed);
  Outcome out;
  t.model.on_pass = [&](const Batch& batch) {
    const auto cu_q = batch.attn.cu_q.span<int32_t>();
    double ms = 2;
    for (size_t s = 0; s + 1 < cu_q.size(); ++s) {
      const int n = cu_q[s + 1] - cu_q[s];
      ms += n == 1 ? 0.25 : 0.04 * n;
    }
    for (const int32_t end : batch.attn.end_key.span<int32_t>()) ms += 3e-6 * end;
    ms *= 1 + scene.noise * (2 * rng.unit() - 1);
    if (rng.unit() < scene.slow_share) ms *= 20;
    t.clock.advance_ns(static_cast<int64_t>(ms * 1e6));
    out.rows.push_back(static_cast<int>(batch.ids.dim(0)));
  };
  std::vector<std::shared_ptr<Gaps>> streams;
  for (uint64_t i = 0; i < 8; ++i) {
    Request r;
    r.prompt = random_tokens(i, 40);
    r.max_tokens = 600;
    streams.push_back(std::make_shared<Gaps>(t.clock));
    EXPECT_TRUE(t.engine->submit(std::move(r), streams.back()));
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(t.step(), "");
  const int64_t begin = t.clock.now_ns();
  int64_t end = begin;
  for (uint64_t i = 0; i < 4; ++i) {
    Request r;
    r.prompt = random_tokens(100 + i, 2500);
    r.max_tokens = 1;
    const auto prompt = std::make_shared<Gaps>(t.clock);
    EXPECT_TRUE(t.engine->submit(std::move(r), prompt));
    while (!prompt->done) EXPECT_EQ(t.step(), "");
    end = t.clock.now_ns();
  }
  for (const auto& stream : streams) {
    for (size_t i = 1; i < stream->times_ns.size(); ++i) {
      if (stream->times_ns[i] <= begin || stream->times_ns[i] > end) continue;
      out.gaps.push_back(static_cast<double>(stream->times_ns[i] - stream->times_ns[i - 1]) * 1e-6);
    }
  }
  out.n_steps = static_cast<int>(t.engine->stats().n_steps);
  out.p50_ms = quantile(out.gaps, 0.5);
  out.p99_ms = quantile(out.gaps, 0.99);
  out.prefill_tok_s = 10000 / (static_cast<double>(end - begin) * 1e-9);
  return out;
}

TEST(ItlTarget, WithoutOneALongPromptHoldsTheStreams) { EXPECT_GT(play({}).p99_ms, 20); }

TEST(ItlTarget, TheP99StaysWithinTheTargetOnAQuietMachine) {
  for (const double target : {6.0, 10.0, 15.0}) {
    const Outcome o = play({.target_ms = target});
    EXPECT_LE(o.p99_ms, 1.05 * target);
    EXPECT_GE(o.p50_ms, 0.85 * target) << "what the target leaves is used";
  }
}

TEST(ItlTarget, TheP99StaysWithinTheTargetUnderNoiseAndSlowSteps) {
  std::vector<double> gaps;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome o = play({.noise = 0.1, .slow_share = 0.004, .target_ms = 10, .seed = seed});
    gaps.insert(gaps.end(), o.gaps.begin(), o.gaps.end());
    EXPECT_GE(o.p50_ms, 0.75 * 10) << "seed " << seed;
  }
  EXPECT_GT(quantile(gaps, 0.999), 100) << "there are slow steps";
  EXPECT_LE(quantile(gaps, 0.99), 1.2 * 10);
}

// A target that even one step without any prompt misses still lets prompts through.
TEST(ItlTarget, ATargetThatCannotBeMetStarvesNobody) {
  const Outcome o = play({.target_ms = 0.5});
  EXPECT_LE(o.n_steps, 101 + 10000 / 16 + 8);
}

TEST(ItlTarget, EqualDurationsLeadToEqualDecisions) {
  const Scene scene{.noise = 0.1, .slow_share = 0.01, .target_ms = 8, .seed = 7};
  EXPECT_EQ(play(scene).rows, play(scene).rows);
}

}  // namespace
}  // namespace quire
