// A recording written by a run gives the same run again, and a file that is none is refused with line and field.
#include "engine/recording.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "engine/replay.h"
#include "engine/test_model.h"
#include "engine/test_proposer.h"
#include "sample/thinking_budget.h"

namespace quire {
namespace {

class RecordingTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("quire_recording_" + std::to_string(::getpid()) + "_" +
                                                       testing::UnitTest::GetInstance()->current_test_info()->name()))
                .string();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream in(path_, std::ios::binary);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  std::string error_of(const std::string& text) const {
    write(text);
    const auto read = read_recording(path_);
    return read ? "" : read.error().message.substr(path_.size() + 2);
  }

  std::string path_;
};

TEST_F(RecordingTest, AFolderIsNone) {
  ASSERT_TRUE(std::filesystem::create_directory(path_));
  const auto read = read_recording(path_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, path_ + ": is a folder; a recording is a file that quire serve --record has written");
}

// A pipe that nobody reads, or slowly, would hold the engine.
TEST_F(RecordingTest, APipeIsRefused) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(RecordingWriter::create(path_, 1 << 20)) << "that nobody reads";
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const auto made = RecordingWriter::create(path_, 1 << 20);
  ::close(reader);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message,
            path_ + ": a recording goes to a file: whoever reads it from elsewhere could stop the engine");
  EXPECT_TRUE(RecordingWriter::create("/dev/full", 1 << 20)) << "which fails, and stops nobody";
}

constexpr int kBlocks = 14;

EngineOptions options() {
  EngineOptions out;
  out.n_ctx = 120;
  out.max_seqs = 5;
  out.step_tokens = 30;
  out.max_chunk = 20;
  return out;
}

struct EndAt final : EndRule {
  explicit EndAt(int tokens) : n(tokens) {}
  bool accept(Token) override { return --n == 0; }
  void rollback(int undo) override { n += undo; }
  int n;
};

using Answers = std::map<SeqId, std::vector<Token>>;

// A busy run with preemption, cancellation, stop ids, end rules, errors and a stop in the middle. Where `known` has
// answers, who guesses knows them. `heard`: what was answered.
EngineStats record_run(const std::string& path,
                       uint64_t seed,
                       int64_t max_bytes = 1 << 30,
                       const Answers* known = nullptr,
                       Answers* heard = nullptr) {
  auto writer = RecordingWriter::create(path, max_bytes);
  EXPECT_TRUE(writer);
  Rng rng(seed);
  EngineOptions wanted = options();
  std::shared_ptr<Proposer> proposer;
  if (known != nullptr) {
    wanted.max_draft = 1 + static_cast<int>(seed % 7);
    wanted.max_side = static_cast<int>(seed % 5);
    proposer = std::make_shared<ScriptedProposer>(
        wanted.max_draft, kTestVocab, seed, [known](SeqId id) -> std::span<const Token> { return known->at(id); });
  }
  TestEngine t(wanted, kBlocks, writer->get(), 0, proposer);
  std::vector<std::shared_ptr<Heard>> sinks;
  std::set<SeqId> scored;
  (*writer)->begin(*t.engine, t.model.info());
  t.model.on_pass = [&](const Batch& batch) { t.clock.advance_ns(100'000 + batch.ids.dim(0) * 10'000); };
  std::vector<SeqId> ids;
  for (int i = 0; i < 40; ++i) {
    t.clock.advance_ns(rng.between(0, 500'000));
    Request r;
    const auto n_prompt = static_cast<int>(rng.between(1, 70));  // drawn one by one: the same with every compiler
    r.prompt = random_tokens(static_cast<uint64_t>(rng.between(0, 2)), n_prompt);
    if (rng.between(0, 9) == 0) r.prompt.back() = kPoison;
    r.max_tokens = static_cast<int>(rng.between(1, 50));
    r.sampling.temperature = 0.9F;
    r.sampling.seed = rng.bits();
    r.sampling.n_prompt_logprobs = i % 10 == 2 ? i / 10 : -1;
    r.cache_salt = rng.bits() & 1;
    r.tenant = rng.bits() << (i % 2 * 62);  // 0 and 2^62 … 2^64 among others
    r.weight = seed % 2 == 0 ? 1 + i % 5 : 1;
    r.n_public = static_cast<int>(r.prompt.size()) * (i % 3) / 2;
    if (i % 4 == 1) r.retention = {{0, 30, 40 + i % 60, 1'000'000'000}, {30, 1 << 30, i % 30, 5}};
    if (rng.between(0, 2) == 0) r.stop_ids = {3, 4, 5, 6};
    if (rng.between(0, 3) == 0) r.end = std::make_unique<EndAt>(5);
    const bool scores = r.sampling.n_prompt_logprobs >= 0;
    sinks.push_back(t.submit(std::move(r)));
    if (scores) scored.insert(sinks.back()->seq);
    ids.push_back(sinks.back()->seq);
    if (rng.between(0, 4) == 0) t.engine->cancel(ids[static_cast<size_t>(rng.between(0, i))]);
    for (int64_t n = rng.between(0, 8); n > 0; --n) EXPECT_EQ(t.step(), "");
  }
  t.engine->stop();
  EXPECT_TRUE((*writer)->finish());
  for (const auto& sink : sinks) {
    // What was heard of a prompt stands before the answer: who scores one is not known.
    if (heard != nullptr) (*heard)[sink->seq] = scored.contains(sink->seq) ? std::vector<Token>() : sink->answer.tokens;
  }
  return t.engine->stats();
}

// What it was compiled to is not recorded: whoever replays it with the model compiles it again.
TEST_F(RecordingTest, AConstraintIsItsSource) {
  auto writer = RecordingWriter::create(path_, 1 << 30);
  ASSERT_TRUE(writer);
  const TestModel model(options().n_ctx);
  {
    TestEngine t(options(), kBlocks, writer->get());
    (*writer)->begin(*t.engine, t.model.info());
    Request r;
    r.prompt = {1, 2, 3};
    r.max_tokens = 4;
    r.sampling.constraint = std::make_shared<const Constraint>(Constraint{"regex none\na\"\n", "guided_regex", {}, {}});
    const auto heard = t.submit(std::move(r));
    EXPECT_EQ(t.run(), "");
    t.engine->stop();
    ASSERT_TRUE((*writer)->finish());
  }
  const auto recording = read_recording(path_);
  ASSERT_TRUE(recording) << recording.error().message;
  const auto& read = recording->steps.at(0).submits.at(0).request.sampling.constraint;
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->source, "regex none\na\"\n");
  EXPECT_EQ(read->field, "guided_regex");
  EXPECT_EQ(read->grammar, nullptr);
  TestOps ops;
  const auto refused = replay_with_model(*recording, model, ops, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the recording has constraints, and nothing here compiles them");
  int n_compiled = 0;
  RecordedRules rules;
  rules.compile = [&](const Constraint& wanted) {
    ++n_compiled;
    return Result<std::shared_ptr<const Constraint>>(std::make_shared<const Constraint>(wanted));
  };
  const auto again = replay_with_model(*recording, model, ops, rules);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->difference, "");
  EXPECT_EQ(n_compiled, 1);
}

// A budget of thinking forces tokens, so a run with the model needs it again.
TEST_F(RecordingTest, ABudgetOfThinkingIsKept) {
  auto writer = RecordingWriter::create(path_, 1 << 30);
  ASSERT_TRUE(writer);
  const TestModel model(options().n_ctx);
  const auto n_vocab = static_cast<size_t>(model.info().n_vocab);
  std::vector<std::string> texts(n_vocab);
  for (size_t i = 0; i < n_vocab; ++i) texts[i] = std::string(1, static_cast<char>('A' + i % 26));
  const auto vocabulary = std::make_shared<const TokenTrie>(std::move(texts), std::vector<Token>{}, n_vocab);
  std::vector<Token> tokens;
  {
    TestEngine t(options(), kBlocks, writer->get());
    (*writer)->begin(*t.engine, t.model.info());
    ThinkingBudget budget{1, "thinking_token_budget", "<think>", "</think>", 3, 5, {5, 6}};
    budget.vocabulary = vocabulary;
    Request r;
    r.prompt = {1, 2, 3};
    r.max_tokens = 6;
    r.sampling.thinking = std::make_shared<const ThinkingBudget>(budget);
    const auto heard = t.submit(std::move(r));
    EXPECT_EQ(t.run(), "");
    tokens = heard->answer.tokens;
    t.engine->stop();
    ASSERT_TRUE((*writer)->finish());
  }
  ASSERT_GE(tokens.size(), 3U);
  EXPECT_EQ(tokens[1], 5) << "the closing mark behind one thought";
  EXPECT_EQ(tokens[2], 6);
  const auto recording = read_recording(path_);
  ASSERT_TRUE(recording) << recording.error().message;
  const auto& read = recording->steps.at(0).submits.at(0).request.sampling.thinking;
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->n_tokens, 1);
  EXPECT_EQ(read->closing, (std::vector<Token>{5, 6}));
  EXPECT_EQ(read->vocabulary, nullptr);
  TestOps ops;
  const auto refused = replay_with_model(*recording, model, ops, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the recording has budgets of thinking, and there is no vocabulary here");
  RecordedRules rules;
  rules.vocabulary = vocabulary;
  const auto again = replay_with_model(*recording, model, ops, rules);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->difference, "");
}

TEST_F(RecordingTest, ARunHappensAgainWithoutTheModel) {
  int64_t n_preempted = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const EngineStats stats = record_run(path_, seed);
    n_preempted += stats.n_preempted;
    const auto recording = read_recording(path_);
    ASSERT_TRUE(recording) << recording.error().message;
    EXPECT_TRUE(recording->complete);
    StepCost cost;
    const auto again = replay_exactly(*recording, cost);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->difference, "") << "seed " << seed;
    EXPECT_EQ(again->hash, recording->hash);
    EXPECT_EQ(again->stats.n_steps, stats.n_steps);
    EXPECT_EQ(again->stats.n_preempted, stats.n_preempted);
    EXPECT_EQ(again->stats.spent.computed, stats.spent.computed);
    EXPECT_EQ(again->stats.n_cached_tokens, stats.n_cached_tokens);
    EXPECT_EQ(again->n_invented, 0);
    EXPECT_GT(cost.n_observed(), 0);
  }
  EXPECT_GT(n_preempted, 10);
}

// What was guessed is an input: without the proposer the run happens again, guess by guess.
TEST_F(RecordingTest, ARunWithGuessesHappensAgain) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Answers answers;
    record_run(path_, seed, 1 << 30, nullptr, &answers);
    const EngineStats stats = record_run(path_, seed, 1 << 30, &answers);
    EXPECT_GT(stats.spent.n_accepted, 0);
    const auto recording = read_recording(path_);
    ASSERT_TRUE(recording) << recording.error().message;
    StepCost cost;
    const auto again = replay_exactly(*recording, cost);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->difference, "");
    EXPECT_EQ(again->hash, recording->hash);
    EXPECT_EQ(again->stats.spent.computed, stats.spent.computed);
    EXPECT_EQ(again->stats.spent.n_accepted, stats.spent.n_accepted);
    EXPECT_EQ(again->n_invented, 0);
    TestOps ops;
    const TestModel model(options().n_ctx);
    const auto with_model = replay_with_model(*recording, model, ops, {});
    ASSERT_TRUE(with_model) << with_model.error().message;
    EXPECT_EQ(with_model->difference, "");
    const auto plain = replay_under(*recording, recording->options, recording->n_blocks, cost);
    ASSERT_TRUE(plain) << plain.error().message;
    EXPECT_EQ(plain->stats.spent.computed[static_cast<size_t>(Cause::draft)], 0)
        << "nobody guesses under other options";
  }
}

TEST_F(RecordingTest, TheModelGivesTheRecordedAnswersAgain) {
  record_run(path_, 5);
  auto recording = read_recording(path_);
  ASSERT_TRUE(recording);
  TestOps ops;
  const TestModel model(options().n_ctx);
  const auto again = replay_with_model(*recording, model, ops, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->difference, "");
  EXPECT_EQ(again->hash, recording->hash);

  // Another seed is another answer, and it is told where.
  for (RecordedStep& step : recording->steps) {
    for (RecordedRequest& r : step.submits) r.request.sampling.seed += 1;
  }
  const auto other = replay_with_model(*recording, model, ops, {});
  ASSERT_TRUE(other);
  EXPECT_NE(other->difference.find("recorded: "), std::string::npos);
  recording->fingerprint += 1;
  const auto wrong = replay_with_model(*recording, model, ops, {});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("fingerprint"), std::string::npos);
}

TEST_F(RecordingTest, OtherOptionsKeepTheAnswersAndChangeTheTimes) {
  uint64_t seed = 7;
  while (record_run(path_, seed).n_preempted == 0 && seed < 100) ++seed;
  const auto recording = read_recording(path_);
  ASSERT_TRUE(recording);
  StepCost cost;
  const auto exact = replay_exactly(*recording, cost);
  ASSERT_TRUE(exact);
  const auto same = replay_under(*recording, recording->options, recording->n_blocks, cost);
  ASSERT_TRUE(same) << same.error().message;
  const auto roomy = replay_under(*recording, recording->options, 400, cost);
  ASSERT_TRUE(roomy);
  EXPECT_GT(exact->stats.n_preempted, 0);
  EXPECT_EQ(roomy->stats.n_preempted, 0);
  EXPECT_EQ(roomy->stats.n_submitted, exact->stats.n_submitted);
  EngineOptions one = recording->options;
  one.max_seqs = 1;
  const auto alone = replay_under(*recording, one, recording->n_blocks, cost);
  ASSERT_TRUE(alone);
  EXPECT_GT(alone->stats.n_steps, same->stats.n_steps);
  EXPECT_GT(at_rank(alone->ttft_ns, 0.9), at_rank(same->ttft_ns, 0.9));
  const auto tiny = replay_under(*recording, recording->options, 2, cost);
  ASSERT_TRUE(tiny);
  EXPECT_GT(tiny->n_refused, 0);
  EXPECT_FALSE(replay_under(*recording, recording->options, 1 << 30, cost));
}

TEST_F(RecordingTest, ALimitEndsTheRecordingAndNotTheRun) {
  const EngineStats whole = record_run(path_, 3);
  const EngineStats cut = record_run(path_, 3, 8000);
  EXPECT_EQ(cut.n_steps, whole.n_steps);
  EXPECT_LT(std::filesystem::file_size(path_), 12000U);
  const auto recording = read_recording(path_);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_TRUE(recording->complete);
  StepCost cost;
  const auto again = replay_exactly(*recording, cost);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->difference, "");
  EXPECT_EQ(again->hash, recording->hash);
}

TEST_F(RecordingTest, WhatWasKilledWhileWritingIsReadUpToThere) {
  record_run(path_, 4);
  const std::string all = text();
  for (const size_t left_out : {size_t{1}, size_t{10}, all.size() / 2}) {
    write(all.substr(0, all.size() - left_out));
    const auto recording = read_recording(path_);
    ASSERT_TRUE(recording) << recording.error().message;
    EXPECT_FALSE(recording->complete);
    StepCost cost;
    const auto again = replay_exactly(*recording, cost);
    ASSERT_TRUE(again) << again.error().message;
  }
}

// Of a run before an option was there, it is what that run did.
TEST_F(RecordingTest, OlderOnesDecideAsTheyDidThen) {
  write(R"({"quire_recording":2,"n_vocab":40,"fingerprint":"0","n_blocks":9,"options":{"n_ctx":100}})"
        "\n");
  const auto recording = read_recording(path_);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->options.recompute_share, 1.0);
  EXPECT_EQ(recording->options.allowance, 0);
  EXPECT_EQ(recording->options.swap_bytes, 0);
  EXPECT_EQ(recording->options.kv_policy, "lru");
}

TEST_F(RecordingTest, WhatIsNoRecordingIsRefusedWithLineAndField) {
  const std::string head =
      R"({"quire_recording":2,"n_vocab":40,"fingerprint":"0","n_blocks":9,"options":{"n_ctx":100}})"
      "\n";
  EXPECT_EQ(error_of(""), "is empty");
  EXPECT_EQ(error_of("{}\n"), "line 1: this is no recording: \"quire_recording\" is missing");
  EXPECT_EQ(error_of("[1]\n"), "line 1: no object");
  EXPECT_EQ(error_of("{\"quire_recording\":1}\n"), "the recording has version 1, this program reads 2 to 9");
  EXPECT_EQ(error_of("{\"quire_recording\":2}\n"), "line 1: \"n_vocab\" is missing");
  EXPECT_EQ(error_of(head + "{}\n"), "line 2: \"start\" is missing");
  const auto with_drafts = [&](const std::string& drafts) {
    return error_of(head + R"({"start":1,"submit":[{"id":"1","at":1,"prompt":[1]}],"drafts":)" + drafts + "}\n");
  };
  EXPECT_EQ(with_drafts("[[1,[3]]]"), "");
  EXPECT_EQ(with_drafts("[[1,[3,4],[-1,-1]]]"), "");
  EXPECT_EQ(with_drafts("[[1,[3],7]]"), "line 2: \"drafts\" has a wrong entry");
  EXPECT_EQ(with_drafts("7"), "line 2: \"drafts\" is no list");
  EXPECT_EQ(with_drafts("[[1]]"), "line 2: \"drafts\" has a wrong entry");
  EXPECT_EQ(with_drafts("[[1,[40]]]"), "line 2: \"drafts\" has a wrong entry");
  EXPECT_EQ(error_of(head + "{\"start\":1,\"drafts\":[[1,[3]]]}\n"), "line 2: \"drafts\" has a wrong entry");
  EXPECT_EQ(error_of(head + "{\"start\":\"x\"}\n"), "line 2: \"start\" has a wrong value");
  EXPECT_EQ(error_of(head + "{\"start\":1,\"grants\":[[1,4]]}\n"), "line 2: \"grants\" has a wrong entry");
  EXPECT_EQ(error_of(head + "{\"start\":1,\"cancel\":[5]}\n"), "line 2: \"cancel\" names no sequence");
  EXPECT_EQ(error_of(head + "{\"start\":1,\"submit\":[{\"id\":\"0\"}]}\n"),
            "line 2: \"submit.id\" is 0, they must rise");
  EXPECT_EQ(error_of(head + "{\"start\":1,\"submit\":[{\"id\":\"1\",\"prompt\":[1e99]}]}\n"),
            "line 2: \"submit.prompt\" has a wrong value");
  for (const char* sampling : {R"({"order":[9]})", R"({"order":[0,-1]})", R"({"order":[255]})"}) {
    EXPECT_EQ(error_of(head + R"({"start":1,"submit":[{"id":"1","at":1,"prompt":[1],"sampling":)" + sampling + "}]}\n"),
              "line 2: \"submit.order\" has a wrong value");
  }
  EXPECT_EQ(error_of(head + R"({"start":1,"submit":[{"id":"1","at":1,"prompt":[1],"pool":4}]})" + "\n"),
            "line 2: \"submit.pool\" has a wrong value");
  EXPECT_EQ(error_of(head + "{\"start\":-5}\n"), "line 2: \"start\" is no time: -5");
  EXPECT_EQ(error_of(head + "{\"start\":1,\"submit\":[{\"id\":\"1\"}]}\n"), "line 2: \"at\" is missing");
  EXPECT_EQ(error_of(head + "{\"steps\":3,\"hash\":\"1\"}\n"), "line 2: \"steps\" is 3, there are 0");
  EXPECT_EQ(error_of(head + "{\"steps\":0,\"hash\":\"1\"}\n{\"start\":1}\n"), "line 3: a line follows the last one");
  EXPECT_EQ(error_of(head), "");
  EXPECT_EQ(read_recording(path_ + ".absent").error().code, Code::io);
}

// What contradicts itself is an error or a difference, never a crash.
TEST_F(RecordingTest, ARecordingThatLiesIsFoundOut) {
  const std::string head =
      R"({"quire_recording":2,"n_vocab":40,"fingerprint":"0","n_blocks":9,"options":{"n_ctx":100}})"
      "\n";
  const auto replayed = [&](const std::string& lines) -> std::string {
    write(head + lines);
    const auto recording = read_recording(path_);
    if (!recording) return recording.error().message;
    StepCost cost;
    const auto again = replay_exactly(*recording, cost);
    return again ? again->difference : again.error().message;
  };
  const std::string submit = R"("submit":[{"id":"1","at":1,"prompt":[1,2],"max_tokens":2}])";
  EXPECT_EQ(replayed("{\"start\":1," + submit + ",\"grants\":[[1,2]],\"end\":2,\"out\":[[1,7]]}\n"), "");
  EXPECT_NE(replayed("{\"start\":1," + submit + ",\"grants\":[[1,1]],\"end\":2}\n"), "");
  EXPECT_NE(replayed(R"({"start":1,"submit":[{"id":"1","at":1,"prompt":[99],"max_tokens":2}]})"
                     "\n"),
            "");
  EXPECT_NE(replayed(R"({"start":1,"submit":[{"id":"5","at":1,"prompt":[1],"max_tokens":2}]})"
                     "\n"),
            "");
  EXPECT_NE(replayed(R"({"start":1,"submit":[{"id":"1","at":1,"prompt":[],"max_tokens":2}]})"
                     "\n"),
            "");
}

}  // namespace
}  // namespace quire
