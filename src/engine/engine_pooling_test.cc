// Hidden states of prompts: the same bits however the prompt was cut, whatever was cached, preempted or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/test_model.h"
#include "engine/test_schedules.h"

namespace quire {
namespace {

constexpr int kCtx = 512;

class Pooled final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent&) override { EXPECT_EQ(n_pooled, 1) << "the states come first"; }
  void on_pooled(SeqId, std::span<const float> values) override {
    ++n_pooled;
    hidden.assign(values.begin(), values.end());
  }
  void on_finish(SeqId, Finish finish, const Usage& used, const std::string&) override {
    EXPECT_NE(finish, Finish::error);
    usage = used;
  }
  std::vector<float> hidden;
  Usage usage;
  int n_pooled = 0;
};

Request pooled(uint64_t seed, int n, Pool pool) {
  Request r;
  r.prompt = random_tokens(seed, n);
  r.max_tokens = 1;
  r.pool = pool;
  return r;
}

// As the scripted model's hidden() has it.
std::vector<float> wanted(const Request& r) {
  double sum[2] = {0, 0};
  uint64_t past = 0;
  for (size_t p = 0; p < r.prompt.size(); ++p) {
    past = next_past(past, r.prompt[p]);
    const bool counts = r.pool == Pool::mean || p + 1 == r.prompt.size();
    sum[0] += counts ? static_cast<double>(past % 1000) : 0.0;
    sum[1] += counts ? static_cast<double>(p) : 0.0;
  }
  const double n = r.pool == Pool::mean ? static_cast<double>(r.prompt.size()) : 1.0;
  return {static_cast<float>(sum[0] / n), static_cast<float>(sum[1] / n)};
}

TEST(EnginePooling, IsThatOfTheDefinitionForAnyChunkCacheAndPreemption) {
  int64_t n_preempted = 0;
  for (const TestSchedule& schedule : kTestSchedules) {
    TestEngine t(schedule.options(kCtx), schedule.n_blocks);
    std::vector<std::shared_ptr<Pooled>> sinks;
    std::vector<std::shared_ptr<Heard>> others;
    for (uint64_t i = 0; i < 12; ++i) {
      sinks.push_back(std::make_shared<Pooled>());
      const int n = 60 + static_cast<int>(i % 4) * 30;
      ASSERT_TRUE(t.engine->submit(pooled(i % 4, n, i % 3 == 0 ? Pool::last : Pool::mean), sinks.back()));
      Request other = pooled(i % 4, n, Pool::none);
      other.max_tokens = 40;
      others.push_back(t.submit(std::move(other)));
    }
    EXPECT_EQ(t.run(), "");
    n_preempted += t.engine->stats().n_preempted;
    for (uint64_t i = 0; i < 12; ++i) {
      const Request r = pooled(i % 4, 60 + static_cast<int>(i % 4) * 30, i % 3 == 0 ? Pool::last : Pool::mean);
      EXPECT_EQ(sinks[i]->n_pooled, 1);
      EXPECT_EQ(sinks[i]->hidden, wanted(r)) << i;
      if (r.pool == Pool::mean) {
        EXPECT_EQ(sinks[i]->usage.n_cached, 0) << "cached rows have no hidden state";
      }
    }
  }
  EXPECT_GT(n_preempted, 0);
}

TEST(EnginePooling, OfEachTokenIsThatOfItsPrefixForAnyChunkAndPreemption) {
  for (const TestSchedule& schedule : kTestSchedules) {
    TestEngine t(schedule.options(kCtx), schedule.n_blocks);
    std::vector<std::shared_ptr<Pooled>> sinks;
    for (uint64_t i = 0; i < 6; ++i) {
      sinks.push_back(std::make_shared<Pooled>());
      ASSERT_TRUE(t.engine->submit(pooled(i % 2, 70, Pool::all), sinks.back()));
    }
    EXPECT_EQ(t.run(), "");
    for (uint64_t i = 0; i < 6; ++i) {
      ASSERT_EQ(sinks[i]->hidden.size(), 140U);
      for (int n = 1; n <= 70; ++n) {
        Request prefix = pooled(i % 2, 70, Pool::last);
        prefix.prompt.resize(static_cast<size_t>(n));
        const auto at = sinks[i]->hidden.begin() + 2 * (n - 1);
        EXPECT_EQ(std::vector<float>(at, at + 2), wanted(prefix)) << n;
      }
    }
  }
}

// What was cached first, then every step's, then all of it; each once, whatever is preempted.
TEST(EngineProgress, RisesFromWhatIsCachedToTheWholePrompt) {
  struct Heard : EventSink {
    void on_token(SeqId, const TokenEvent& event) override {
      if (event.n_done >= 0) {
        EXPECT_EQ(n_tokens, 0) << "before the answer";
        done.push_back(event.n_done);
      } else {
        ++n_tokens;
      }
    }
    void on_finish(SeqId, Finish, const Usage& used, const std::string&) override { usage = used; }
    std::vector<int> done;
    int n_tokens = 0;
    Usage usage;
  };
  for (const TestSchedule& schedule : kTestSchedules) {
    TestEngine t(schedule.options(kCtx), schedule.n_blocks);
    std::vector<std::shared_ptr<Heard>> sinks;
    for (uint64_t i = 0; i < 8; ++i) {
      Request r = pooled(i % 2, 100, Pool::none);
      r.max_tokens = 20;
      r.tells_progress = i != 7;
      sinks.push_back(std::make_shared<Heard>());
      ASSERT_TRUE(t.engine->submit(std::move(r), sinks.back()));
    }
    EXPECT_EQ(t.run(), "");
    EXPECT_TRUE(sinks[7]->done.empty());
    for (size_t i = 0; i < 7; ++i) {
      ASSERT_GE(sinks[i]->done.size(), 2U);
      EXPECT_EQ(sinks[i]->done.front(), sinks[i]->usage.n_cached);
      EXPECT_EQ(sinks[i]->done.back(), 100);
      EXPECT_EQ(std::adjacent_find(sinks[i]->done.begin(), sinks[i]->done.end(), std::greater_equal<>()),
                sinks[i]->done.end());
    }
  }
}

TEST(EnginePooling, OfTheLastTokenTakesThePromptFromTheCache) {
  EngineOptions options;
  options.n_ctx = kCtx;
  TestEngine t(options);
  for (const int n_cached : {0, 96}) {
    const auto sink = std::make_shared<Pooled>();
    ASSERT_TRUE(t.engine->submit(pooled(1, 100, Pool::last), sink));
    EXPECT_EQ(t.run(), "");
    EXPECT_EQ(sink->usage.n_cached, n_cached);
    EXPECT_EQ(sink->hidden, wanted(pooled(1, 100, Pool::last)));
  }
}

}  // namespace
}  // namespace quire
