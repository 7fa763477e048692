// A run is a function of its recorded inputs: arrivals, cancellations, clock. What the engine's own thread did under a
// system clock, with requests from several threads and a stop in the middle, happens again step by step under a clock
// moved by hand, to the same events with the same times.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <thread>

#include "engine/engine.h"
#include "engine/recording.h"
#include "engine/test_model.h"

namespace quire {
namespace {

// Everything a sink hears, in the order in which the engine said it.
using Log = std::vector<std::string>;

class LogSink final : public EventSink {
 public:
  explicit LogSink(Log& log) : log_(log) {}
  void on_token(SeqId id, const TokenEvent& event) override {
    log_.push_back(std::to_string(id) + " says " + std::to_string(event.id) + " " +
                   std::to_string(std::bit_cast<uint32_t>(event.logprob)));
  }
  void on_finish(SeqId id, Finish finish, const Usage& u, const std::string& error) override {
    std::string line = std::to_string(id) + " ends " + std::to_string(static_cast<int>(finish)) + error;
    for (const int64_t n : {int64_t{u.n_prompt}, int64_t{u.n_generated}, int64_t{u.n_cached}, u.queued_ns,
                            u.first_token_ns, u.total_ns}) {
      line += " " + std::to_string(n);
    }
    log_.push_back(line);
  }

 private:
  Log& log_;
};

class Recorder final : public InputRecorder {
 public:
  struct Entry {
    EngineInput input;
    Request request;
  };
  void record(const EngineInput& input) override {
    entries.push_back({input, input.request == nullptr ? Request{} : recorded_part(*input.request)});
  }
  std::vector<Entry> entries;
};

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = 120;
  out.max_seqs = 5;
  out.step_tokens = 30;
  out.max_chunk = 20;
  out.max_queue = 8;
  return out;
}
constexpr int kBlocks = 12;

Request random_request(Rng& rng) {
  Request r;
  r.prompt = random_tokens(static_cast<uint64_t>(rng.between(0, 2)), static_cast<int>(rng.between(1, 70)));
  if (rng.between(0, 9) == 0) r.prompt.back() = kPoison;
  r.max_tokens = static_cast<int>(rng.between(1, 50));
  r.sampling.temperature = 0.9F;
  r.sampling.seed = rng.bits();
  r.tenant = static_cast<uint64_t>(rng.between(0, 2));
  return r;
}

// Events and counters that a recording leads to.
std::pair<Log, EngineStats> replay(const std::vector<Recorder::Entry>& entries) {
  Log log;
  const auto sink = std::make_shared<LogSink>(log);
  EngineOptions again = options();
  again.max_queue = 1 << 20;  // what was taken was taken, however the threads met
  TestEngine t(again, kBlocks);
  size_t next = 0;
  const auto set_clock = [&](int64_t ns) { t.clock.advance_ns(ns - t.clock.now_ns()); };
  t.model.on_pass = [&](const Batch&) { set_clock(entries.at(next++).input.time_ns); };  // the step's end
  while (next < entries.size()) {
    const EngineInput& start = entries[next++].input;
    EXPECT_EQ(start.kind, EngineInput::Kind::clock);
    for (; next < entries.size() && entries[next].input.kind != EngineInput::Kind::clock; ++next) {
      const EngineInput& input = entries[next].input;
      if (input.kind == EngineInput::Kind::cancel) {
        t.engine->cancel(input.seq);
        continue;
      }
      set_clock(input.time_ns);
      const auto id = t.engine->submit(recorded_part(entries[next].request), sink);
      EXPECT_TRUE(id && *id == input.seq) << "the order of ids is the order of arrival";
    }
    set_clock(start.time_ns);
    t.engine->step();
  }
  return {log, t.engine->stats()};
}

void expect_same(const Log& log, const EngineStats& stats, const Recorder& recorder) {
  const auto [again, stats_again] = replay(recorder.entries);
  ASSERT_EQ(again.size(), log.size());
  for (size_t i = 0; i < log.size(); ++i) ASSERT_EQ(again[i], log[i]) << "event " << i;
  EXPECT_EQ(stats_again.n_steps, stats.n_steps);
  EXPECT_EQ(stats_again.n_preempted, stats.n_preempted);
  EXPECT_EQ(stats_again.n_cached_tokens, stats.n_cached_tokens);
  EXPECT_EQ(stats_again.spent.computed, stats.spent.computed);
  EXPECT_EQ(stats_again.n_cancelled, stats.n_cancelled);
  EXPECT_EQ(stats_again.n_free_blocks, stats.n_free_blocks);
}

TEST(EngineReplay, ARunByHandHappensAgain) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Log log;
    const auto sink = std::make_shared<LogSink>(log);
    Recorder recorder;
    TestEngine t(options(), kBlocks, &recorder);
    t.model.on_pass = [&](const Batch&) { t.clock.advance_ns(rng.between(1, 1000)); };
    std::vector<SeqId> ids;
    for (int i = 0; i < 60; ++i) {
      t.clock.advance_ns(rng.between(0, 500));
      const auto id = t.engine->submit(random_request(rng), sink);
      if (id) ids.push_back(*id);
      if (rng.between(0, 3) == 0)
        t.engine->cancel(ids[static_cast<size_t>(rng.between(0, static_cast<int64_t>(ids.size()) - 1))]);
      for (int64_t n = rng.between(0, 8); n > 0; --n) ASSERT_EQ(t.step(), "");
    }
    t.engine->stop();
    ASSERT_GT(t.engine->stats().n_cancelled, 0);
    expect_same(log, t.engine->stats(), recorder);
    if (HasFailure()) return;
  }
}

TEST(EngineReplay, ARunOnThreadsHappensAgain) {
  Log log;
  Recorder recorder;
  SystemClock clock;
  TestOps ops;
  TestModel model(options().n_ctx);
  EngineOptions wanted = options();
  wanted.kv_bytes = int64_t{kBlocks} * wanted.block_tokens * int64_t{sizeof(TestModel::Cell)};
  EngineEnv env;
  env.clock = &clock;
  env.recorder = &recorder;
  const auto made = make_engine(model, ops, wanted, env);
  ASSERT_TRUE(made);
  Engine& engine = **made;
  const auto sink = std::make_shared<LogSink>(log);
  engine.start();
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&engine, &sink, i] {
      Rng rng(i);
      for (int n = 0; n < 60; ++n) {
        const auto id = engine.submit(random_request(rng), sink);
        if (id && rng.between(0, 4) == 0) engine.cancel(*id);
        std::this_thread::sleep_for(std::chrono::microseconds(rng.between(0, 200)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine.stop();
  ASSERT_GT(log.size(), 20U);
  expect_same(log, engine.stats(), recorder);
}

}  // namespace
}  // namespace quire
