// Steps that are asked for while the ones before them run: whose can be, what is dropped, who comes in when, and that
// answers are what they are without.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/limits.h"
#include "engine/test_model.h"
#include "engine/test_schedules.h"
#include "ops/ahead_ops.h"
#include "ops/pick.h"
#include "ops/sample_row.h"
#include "sample/constraint.h"
#include "text/grammar/regex_grammar.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

constexpr int kCtx = 160;

EngineOptions overlapping() {
  EngineOptions out = kTestSchedules[0].options(kCtx);
  out.overlap = true;
  return out;
}

Request greedy(uint64_t seed, int n_prompt, int max_tokens) {
  Request out;
  out.prompt = random_tokens(seed, n_prompt);
  out.max_tokens = max_tokens;
  out.sampling.temperature = 0;
  out.sampling.n_logprobs = 0;
  return out;
}

EngineStats stats_of(const TestEngine& engine) { return engine.engine->stats(); }

TEST(EngineOverlap, AStreamIsAskedForAheadUntilItsLastToken) {
  TestEngine engine(overlapping());
  const auto heard = engine.submit(greedy(1, 20, 10));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(heard->answer, alone(greedy(1, 20, 10), kCtx));
  EXPECT_EQ(stats_of(engine).n_steps, 10);
  EXPECT_EQ(stats_of(engine).n_steps_ahead, 9);
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 0);
}

TEST(EngineOverlap, IdsOfAStepAheadAreNotTheHosts) {
  TestEngine engine(overlapping());
  const auto heard = engine.submit(greedy(1, 20, 6));
  std::vector<size_t> n_heard;
  engine.model.on_pass = [&](const Batch&) { n_heard.push_back(heard->answer.tokens.size()); };
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(n_heard, (std::vector<size_t>{0, 0, 1, 2, 3, 4}));  // each is asked for a token early
}

TEST(EngineOverlap, TheRowBehindAnEndIsDroppedAndChargedToNobody) {
  const ExpectedAnswer whole = alone(greedy(3, 20, 30), kCtx);
  const auto request = [&] {
    Request out = greedy(3, 20, 30);
    out.stop_ids = {whole.tokens[7]};
    return out;
  };
  TestEngine engine(overlapping());
  int64_t n_rows = 0;
  engine.model.on_pass = [&](const Batch& batch) { n_rows += batch.ids.dim(0); };
  const auto heard = engine.submit(request()), beside = engine.submit(greedy(4, 9, 40));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(heard->answer, alone(request(), kCtx));
  EXPECT_EQ(heard->answer.finish, Finish::stop);
  EXPECT_EQ(beside->answer, alone(greedy(4, 9, 40), kCtx));
  const EngineStats stats = stats_of(engine);
  EXPECT_EQ(stats.n_dropped_rows, 1);
  EXPECT_EQ(stats.spent.n_computed() + 1, n_rows);
  EXPECT_EQ(heard->usage.cost.n_computed() + beside->usage.cost.n_computed(), stats.spent.n_computed());
}

TEST(EngineOverlap, AStepThatNobodyIsLeftInWasForNothing) {
  const ExpectedAnswer whole = alone(greedy(3, 20, 30), kCtx);
  TestEngine engine(overlapping());
  Request wanted = greedy(3, 20, 30);
  wanted.stop_ids = {whole.tokens[7]};
  const auto first = engine.submit(std::move(wanted));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 1);
  const auto second = engine.submit(greedy(5, 30, 12));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(first->answer.finish, Finish::stop);
  EXPECT_EQ(second->answer, alone(greedy(5, 30, 12), kCtx));
}

TEST(EngineOverlap, WhatTheHostAloneKnowsMakesAStepWait) {
  const auto n_ahead = [](const std::function<void(Request&)>& change, EngineOptions options) {
    TestEngine engine(options);
    Request wanted = greedy(6, 20, 12), same = greedy(6, 20, 12);
    change(wanted);
    change(same);
    const auto heard = engine.submit(std::move(wanted));
    EXPECT_EQ(engine.run(), "");
    const std::vector<Token> truth = alone(same, kCtx).tokens;  // behind the prompt's, where these were told
    EXPECT_TRUE(std::ranges::equal(std::span(heard->answer.tokens).last(truth.size()), truth));
    return stats_of(engine).n_steps_ahead;
  };
  EngineOptions off = overlapping(), by_itself = overlapping();
  off.overlap = false;
  by_itself.overlap = std::nullopt;
  EXPECT_GT(n_ahead([](Request&) {}, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request&) {}, off), 0);
  EXPECT_EQ(n_ahead([](Request&) {}, by_itself), 0);  // no device computes
  EXPECT_GT(n_ahead([](Request& r) { r.sampling.temperature = 1; }, overlapping()), 0);
  const auto greedily = [](Request& r) { r.sampling.temperature = 0, r.sampling.typical_p = 0.9F; };
  EXPECT_GT(n_ahead(greedily, overlapping()), 0);
  EXPECT_GT(n_ahead([](Request& r) { r.sampling.temperature = 1, r.sampling.top_p = 0.9F; }, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.temperature = 1, r.sampling.typical_p = 0.9F; }, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.repetition_penalty = 1.5F; }, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.logit_bias = {{3, 2.0F, 1.0F}}; }, overlapping()), 0);
  EXPECT_EQ(n_ahead([](Request& r) { r.sampling.n_prompt_logprobs = 0; }, overlapping()), 0);
}

// One whose filter is the host's makes all wait, so that no stream has fewer steps than another.
TEST(EngineOverlap, AllWhoRunAreInEveryStep) {
  TestEngine engine(overlapping());
  Request drawn = greedy(8, 20, 10);
  drawn.sampling.temperature = 1;
  drawn.sampling.typical_p = 0.5F;
  const auto first = engine.submit(greedy(7, 20, 25)), second = engine.submit(std::move(drawn));
  for (int step = 1; !second->done(); ++step) {
    ASSERT_EQ(engine.step(), "");
    EXPECT_EQ(first->answer.tokens.size(), second->answer.tokens.size());
    EXPECT_EQ(stats_of(engine).n_steps_ahead, 0);
  }
  ASSERT_EQ(engine.run(), "");
  EXPECT_GT(stats_of(engine).n_steps_ahead, 10);
  EXPECT_EQ(first->answer, alone(greedy(7, 20, 25), kCtx));
}

TEST(EngineOverlap, WhoComesIsInTheStepBehindTheOneThatWasAskedFor) {
  TestEngine engine(overlapping());
  const auto first = engine.submit(greedy(1, 20, 40));
  for (int i = 0; i < 5; ++i) ASSERT_EQ(engine.step(), "");
  const auto second = engine.submit(greedy(2, 10, 3));
  ASSERT_EQ(engine.step(), "");
  EXPECT_EQ(second->answer.tokens.size(), 0U);
  ASSERT_EQ(engine.step(), "");
  EXPECT_EQ(second->answer.tokens.size(), 1U);
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(first->answer, alone(greedy(1, 20, 40), kCtx));
  EXPECT_EQ(second->answer, alone(greedy(2, 10, 3), kCtx));
}

TEST(EngineOverlap, WhoIsCancelledOrStoppedLeavesTheStepThatWasAskedFor) {
  TestEngine engine(overlapping());
  const auto first = engine.submit(greedy(1, 20, 40)), second = engine.submit(greedy(2, 20, 40));
  for (int i = 0; i < 5; ++i) ASSERT_EQ(engine.step(), "");
  engine.engine->cancel(first->seq);
  ASSERT_EQ(engine.step(), "");
  EXPECT_EQ(first->answer.finish, Finish::cancelled);
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 1);
  EXPECT_EQ(second->answer.tokens.size(), 6U);
  engine.engine->stop();
  EXPECT_EQ(second->answer.finish, Finish::cancelled);
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 2);
  EXPECT_EQ(engine.engine->snapshot().check(), "");
}

// A backend whose ops for it are a HostAhead of its own kind, and whose arena has tables of so many bytes, 0: none.
template <class Ahead>
class Special final : public WrappedOps {
 public:
  explicit Special(int64_t table_bytes = 0) : WrappedOps(std::make_unique<TestOps>()), table_bytes_(table_bytes) {}
  AheadOps* ahead() override { return &ahead_; }
  Result<Buffer> allocate_arena(int64_t bytes) override {
    if (table_bytes_ == 0) return target().allocate_arena(bytes);
    const auto memory = [](int64_t n) {
      void* data = std::aligned_alloc(Arena::kAlign, static_cast<size_t>(n + Arena::kAlign - n % Arena::kAlign));
      return std::shared_ptr<std::byte>(static_cast<std::byte*>(data), std::free);
    };
    const auto one = memory(table_bytes_), other = memory(table_bytes_);
    const auto forget = [one, other](const Tables* tables) { delete tables; };
    return Buffer::of(memory(bytes), bytes,
                      std::shared_ptr<Tables>(new Tables{one.get(), other.get(), table_bytes_}, forget));
  }

 private:
  int64_t table_bytes_;
  Ahead ahead_{*this};
};

struct Outcome {
  std::vector<std::shared_ptr<Heard>> heard;
  EngineStats stats;
};
// Two streams of 8 and 12 tokens.
Outcome run_on(Ops& ops) {
  EngineOptions options = overlapping();
  options.kv_bytes = 1 << 14;
  TestModel model(kCtx);
  ManualClock clock;
  EngineEnv env;
  env.clock = &clock;
  const auto engine = make_engine(model, ops, options, env);
  QR_CHECK(engine.has_value(), engine ? "" : engine.error().message);
  Outcome out;
  for (const uint64_t i : {1, 2}) {
    out.heard.push_back(std::make_shared<Heard>());
    QR_CHECK((*engine)->submit(greedy(i, 20, 4 + 4 * static_cast<int>(i)), out.heard.back()).has_value());
  }
  while ((*engine)->step()) EXPECT_EQ((*engine)->snapshot().check(), "");
  out.stats = (*engine)->stats();
  return out;
}

class CountsSent final : public HostAhead {
 public:
  using HostAhead::HostAhead;
  Result<Buffer> allocate_sent(int64_t bytes) override {
    n_bytes += bytes;
    return HostAhead::allocate_sent(bytes);
  }

  int64_t n_bytes = 0;
};

TEST(EngineOverlap, TakesTheMemoryThatIsSaidForIt) {
  Special<CountsSent> ops;
  run_on(ops);
  EXPECT_EQ(static_cast<CountsSent*>(ops.ahead())->n_bytes, sent_bytes(TestModel(kCtx).info().n_vocab, overlapping()));
  EngineOptions many = overlapping();
  many.max_seqs = many.step_tokens = 1 << 16;
  for (const int n_vocab : {1 << 16, 256'000}) {
    EXPECT_LE(sent_bytes(n_vocab, many), 2 * kMostSentBytes);
    EXPECT_GT(sent_bytes(n_vocab, many), 2 * kMostSentBytes * 99 / 100);
  }
}

class NoMemory final : public HostAhead {
 public:
  using HostAhead::HostAhead;
  Result<Buffer> allocate_sent(int64_t) override { return fail(Code::exhausted, "none is left"); }
};

TEST(EngineOverlap, WithoutMemoryForItStepsWait) {
  Special<NoMemory> ops;
  const Outcome out = run_on(ops);
  EXPECT_EQ(out.heard[0]->answer, alone(greedy(1, 20, 8), kCtx));
  EXPECT_EQ(out.stats.n_steps_ahead, 0);
}

// Tables that lie in the arena would be written while a device reads them.
TEST(EngineOverlap, WhereTablesHaveNoTwoPlacesStepsWait) {
  for (const int64_t bytes : {64, 256, 1 << 20}) {
    Special<HostAhead> ops(bytes);
    const Outcome out = run_on(ops);
    EXPECT_EQ(out.heard[0]->answer, alone(greedy(1, 20, 8), kCtx));
    EXPECT_EQ(out.heard[1]->answer, alone(greedy(2, 20, 12), kCtx));
    EXPECT_EQ(out.stats.n_steps_ahead > 0, bytes == 1 << 20) << bytes;
  }
}

class PicksAnother final : public HostAhead {
 public:
  using HostAhead::HostAhead;
  void pick(Tensor picked, Tensor logits, Tensor numbers) override {
    HostAhead::pick(picked, logits, numbers);
    if (++n_steps_ == 4) picked.ptr<int32_t>()[1] ^= 1;
  }

 private:
  int n_steps_ = 0;
};

TEST(EngineOverlap, AStepThatPickedAnotherTokenFails) {
  Special<PicksAnother> ops;
  const Outcome out = run_on(ops);
  for (const auto& heard : out.heard) {
    EXPECT_EQ(heard->answer.finish, Finish::error);
    EXPECT_EQ(heard->answer.tokens.size(), 3U);
    EXPECT_NE(heard->error.find("the device went on with token"), std::string::npos) << heard->error;
  }
}

TEST(EngineOverlap, APickThatThereIsNoMemoryForThrows) {
  class Starved final : public WrappedOps {
   public:
    Starved() : WrappedOps(std::make_unique<TestOps>()) {}
    void sample(std::span<Sampled> out, Tensor, std::span<const SampleParams>) override {
      for (Sampled& one : out) one.token = kNoMemoryToken;
    }
  };
  Starved ops;
  std::vector<float> logits(kTestVocab);
  std::vector<int32_t> picked(1), numbers(kPickNumbers);
  const auto matrix = [](auto& values, DType dtype) {
    return Tensor::dense(reinterpret_cast<std::byte*>(values.data()), dtype, {1, std::ssize(values)});
  };
  const Tensor to = Tensor::dense(reinterpret_cast<std::byte*>(picked.data()), DType::i32, {1});
  EXPECT_THROW(HostAhead(ops).pick(to, matrix(logits, DType::f32), matrix(numbers, DType::i32)), std::bad_alloc);
}

TEST(EngineOverlap, OfAStepThatCouldNotBeAskedForNoRowIsCounted) {
  TestEngine engine(overlapping());
  int n_passes = 0;
  engine.model.on_pass = [&](const Batch&) {
    if (++n_passes == 5) throw std::bad_alloc();
  };
  const auto heard = engine.submit(greedy(1, 20, 10));
  ASSERT_EQ(engine.run(), "");
  EXPECT_EQ(heard->answer.finish, Finish::error);
  EXPECT_GT(stats_of(engine).n_steps_ahead, 0);
  EXPECT_EQ(stats_of(engine).n_dropped_rows, 0);
}

// In the step behind the one that was asked for when it came.
TEST(EngineOverlap, AnotherTenantHasItsTurnThoughAllPlacesAreTaken) {
  const auto n_steps = [](bool overlaps) {
    EngineOptions options = overlapping();
    options.max_seqs = 2;
    options.overlap = overlaps;
    TestEngine engine(options);
    for (const uint64_t seed : {1, 2}) engine.submit(greedy(seed, 20, 100));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(engine.step(), "");
    EXPECT_EQ(stats_of(engine).n_steps_ahead > 0, overlaps);
    Request of_another = greedy(3, 20, 5);
    of_another.tenant = 1;
    const auto heard = engine.submit(std::move(of_another));
    int n = 0;
    for (; heard->answer.tokens.empty(); ++n) EXPECT_EQ(engine.step(), "");
    return n;
  };
  EXPECT_EQ(n_steps(false), 1);
  EXPECT_EQ(n_steps(true), 2);
}

// Token i is a letter, 0 ends.
class Letters final : public Tokenizer {
 public:
  Letters() : Tokenizer(TokenizerSpec{}) {}
  Status encode(std::string_view text, EncodeOptions, std::vector<Token>& out) const override {
    for (const char c : text) out.push_back(static_cast<Token>(c - 'A'));
    return {};
  }
  void append_bytes(Token id, bool, std::string& out) const override { out += static_cast<char>('A' + id); }
  std::string decode(std::span<const Token>, bool) const override { return ""; }
  bool strips_leading_space() const override { return false; }
};

// Of a server that guesses for grammars alone, which is the usual one.
TEST(EngineOverlap, WhereGrammarsAloneAreGuessedForOthersOverlap) {
  const Letters tokenizer;
  EngineOptions options = overlapping();
  options.proposer = "grammar";
  TestEngine engine(options, TestSetup{.tokenizer = &tokenizer});
  const auto forced = [] {
    std::vector<std::string> texts = {"</s>"};
    for (int i = 1; i < kTestVocab; ++i) texts.emplace_back(1, static_cast<char>('A' + i));
    const auto vocabulary =
        std::make_shared<const TokenTrie>(std::move(texts), std::vector<Token>{0}, size_t{kTestVocab});
    Request out = greedy(2, 10, 20);
    out.stop_ids = {0};
    out.sampling.constraint =
        std::make_shared<const Constraint>(Constraint{"", "regex", *compile_regex("BCDEFGHI", {}), vocabulary});
    return out;
  };
  const auto ruled = engine.submit(forced()), plain = engine.submit(greedy(1, 20, 40));
  while (!ruled->done()) ASSERT_EQ(engine.step(), "");
  EXPECT_GT(ruled->n_accepted, 0);
  EXPECT_EQ(stats_of(engine).n_steps_ahead, 0);
  ASSERT_EQ(engine.run(), "");
  EXPECT_GT(stats_of(engine).n_steps_ahead, 20);
  EXPECT_EQ(ruled->answer, alone(forced(), kCtx));
  EXPECT_EQ(plain->answer, alone(greedy(1, 20, 40), kCtx));
}

TEST(EngineOverlap, ItIsRefusedWhereStepsCannot) {
  const auto made = [](const std::function<void(EngineOptions&)>& change) {
    static TestOps ops;
    static ManualClock clock;
    const TestModel model(kCtx);
    EngineOptions options = overlapping();
    change(options);
    EngineEnv env;
    env.clock = &clock;
    const auto engine = make_engine(model, ops, options, env);
    return engine ? "" : engine.error().message;
  };
  EXPECT_EQ(made([](EngineOptions&) {}), "");
  EXPECT_EQ(
      made([](EngineOptions& o) { o.proposer = "ngram"; }),
      "overlap on excludes guesses other than a grammar's: whether they were right is known when a step has ended");
  EXPECT_EQ(made([](EngineOptions& o) { o.proposer = "ngram", o.overlap = std::nullopt; }), "");
  EXPECT_EQ(made([](EngineOptions& o) { o.step_target_ms = 1; }),
            "overlap on excludes step_target_ms, by which streams take turns");
  EXPECT_EQ(made([](EngineOptions& o) { o.step_target_ms = 1, o.overlap = false; }), "");
}

// Blocks end, sequences are sent back and come again: answers are theirs.
TEST(EngineOverlap, UnderPressureToo) {
  for (const TestSchedule& schedule : kTestSchedules) {
    EngineOptions options = schedule.options(kCtx);
    options.overlap = true;
    TestEngine engine(options, schedule.n_blocks);
    std::vector<std::shared_ptr<Heard>> heard;
    for (uint64_t i = 0; i < 12; ++i)
      heard.push_back(engine.submit(greedy(i % 3, 5 + 9 * static_cast<int>(i), 5 + static_cast<int>(i * 7 % 40))));
    ASSERT_EQ(engine.run(), "");
    for (uint64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(heard[i]->answer,
                alone(greedy(i % 3, 5 + 9 * static_cast<int>(i), 5 + static_cast<int>(i * 7 % 40)), kCtx));
    }
    EXPECT_GT(stats_of(engine).n_steps_ahead, 0);
  }
}

}  // namespace
}  // namespace quire
