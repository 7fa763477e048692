// The real thread set: four threads submit and cancel, the engine's own thread runs, sinks are slow, and stop() comes
// in the middle of it. For ThreadSanitizer as much as for what is asserted.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/engine.h"
#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kCtx = 100;

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = kCtx;
  out.max_seqs = 6;
  out.step_tokens = 40;
  out.max_chunk = 24;
  out.max_queue = 16;
  out.kv_bytes = 14 * 16 * int64_t{sizeof(TestModel::Cell)};
  return out;
}

Request request(uint64_t seed) {
  Rng rng(seed);
  Request r;
  r.prompt = random_tokens(seed % 3, static_cast<int>(rng.between(1, 50)));
  r.max_tokens = static_cast<int>(rng.between(1, 40));
  r.sampling.temperature = 0.9F;
  r.sampling.seed = seed;
  return r;
}

struct Sink final : EventSink {
  explicit Sink(std::atomic<int>& open) : n_open(open) {}
  void on_token(SeqId id, const TokenEvent& event) override {
    heard.on_token(id, event);
    if (event.id % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void on_finish(SeqId id, Finish finish, const Usage& usage, const std::string& error) override {
    heard.on_finish(id, finish, usage, error);
    --n_open;
  }
  Heard heard;  // the engine's thread; after stop() everybody's
  std::atomic<int>& n_open;
};

struct Sent {
  uint64_t seed;
  std::shared_ptr<Sink> sink;
  bool accepted, cancelled;
};

struct Threaded {
  Threaded() : model(kCtx) {
    EngineEnv env;
    env.clock = &clock;
    env.on_step_end = [this] { ++n_wakes; };
    engine = std::move(*make_engine(model, ops, options(), env));
    engine->start();
  }
  SystemClock clock;
  TestOps ops;
  TestModel model;
  std::atomic<int> n_open{0}, n_wakes{0};
  std::unique_ptr<Engine> engine;
};

// Submits until `n` were sent or the engine has stopped; cancels one in five, some of them long after their end.
std::vector<Sent> submit_many(Threaded& t, uint64_t thread, int n) {
  std::vector<Sent> out;
  std::vector<SeqId> ids;
  Rng rng(thread + 77);
  for (int i = 0; i < n; ++i) {
    const uint64_t seed = thread * 10000 + static_cast<uint64_t>(i);
    out.push_back({seed, std::make_shared<Sink>(t.n_open), false, false});
    ++t.n_open;
    const auto id = t.engine->submit(request(seed), out.back().sink);
    if (!id) {
      --t.n_open;
      if (id.error().code == Code::cancelled) return out;
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // the queue is full
      continue;
    }
    out.back().accepted = true;
    if (rng.between(0, 4) == 0) {
      out.back().cancelled = true;
      if (rng.between(0, 1) == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng.between(0, 300)));
      t.engine->cancel(*id);
    }
    if (t.engine->stats().n_running > options().max_seqs) return {};  // read beside the loop
  }
  return out;
}

void check(const Sent& sent, bool stopped_early) {
  const Heard& heard = sent.sink->heard;
  ASSERT_EQ(heard.n_finish, sent.accepted ? 1 : 0) << "seed " << sent.seed;
  if (!sent.accepted) return;
  const ExpectedAnswer truth = alone(request(sent.seed), kCtx);
  if (heard.answer.finish == Finish::cancelled) {
    ASSERT_TRUE(sent.cancelled || stopped_early);
    ASSERT_LE(heard.answer.tokens.size(), truth.tokens.size());
    ASSERT_TRUE(std::equal(heard.answer.tokens.begin(), heard.answer.tokens.end(), truth.tokens.begin()));
  } else {
    ASSERT_EQ(heard.answer, truth) << "seed " << sent.seed;
  }
}

void storm(int n_each, bool stop_early) {
  Threaded t;
  std::vector<std::vector<Sent>> sent(4);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < sent.size(); ++i) {
    threads.emplace_back([&t, &sent, i, n_each] { sent[i] = submit_many(t, i, n_each); });
  }
  if (stop_early) {
    while (t.engine->stats().n_finished < 20) std::this_thread::yield();
    t.engine->stop();
  }
  for (std::thread& thread : threads) thread.join();
  while (!stop_early && t.n_open > 0) std::this_thread::yield();
  t.engine->stop();
  EXPECT_EQ(t.n_open, 0);
  EXPECT_GT(t.n_wakes, 0);
  for (const auto& list : sent) {
    EXPECT_FALSE(list.empty());
    for (const Sent& one : list) check(one, stop_early);
  }
  EXPECT_EQ(t.engine->snapshot().check(), "");
  EXPECT_EQ(t.engine->snapshot().n_held_blocks, 0);
}

TEST(EngineThread, AnswersEverybodyOnce) { storm(60, false); }

TEST(EngineThread, StopInTheMiddleCancelsEverybodyOnce) { storm(1 << 20, true); }

TEST(EngineThread, StopsWhileItSleeps) {
  Threaded t;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  t.engine->stop();
  t.engine->stop();
}

TEST(EngineThread, EndsByItsDestructorWhileBusy) {
  std::shared_ptr<Sink> sink;
  std::atomic<int> n_open{1};
  {
    Threaded t;
    sink = std::make_shared<Sink>(n_open);
    ASSERT_TRUE(t.engine->submit(request(1), sink));
  }
  EXPECT_EQ(sink->heard.n_finish, 1);
}

#ifdef QR_DEBUG
TEST(EngineThreadDeathTest, OnlyTheEngineThreadSteps) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Threaded t;
        while (!t.engine->submit(request(1), std::make_shared<Heard>())) std::this_thread::yield();
        while (t.engine->stats().n_submitted == 0) std::this_thread::yield();
        t.engine->step();
      },
      "on_engine_thread");
}
#endif

}  // namespace
}  // namespace quire
