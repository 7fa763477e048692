// Hidden states for a proposer: the row that a sequence's due token was drawn from, whatever its guesses came to,
// whoever else was in the step, preempted or not; and a model or a proposer that has none.
#include <gtest/gtest.h>

#include "engine/test_model.h"
#include "engine/test_proposer.h"
#include "engine/test_schedules.h"

namespace quire {
namespace {

constexpr int kCtx = 256;
constexpr int kRequests = 16;
constexpr int kRows = 512;

Request request(int i) {
  Request r;
  r.prompt = random_tokens(static_cast<uint64_t>(i % 3), 1 + i * 11 % 90);
  r.max_tokens = 8 + i * 7 % 60;
  r.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
  r.sampling.seed = static_cast<uint64_t>(i);
  if (i % 5 == 1) r.sampling.n_prompt_logprobs = 0;
  if (i % 5 == 2) r.pool = Pool::mean;
  return r;
}

// Guesses as a script says, and looks at what it taps.
class Tapping final : public Proposer {
 public:
  Tapping(int max_draft, const ScriptedProposer::Truth& truth)
      : guesses_(max_draft, kTestVocab, 3, truth, {Guess::right, Guess::half, Guess::wrong, Guess::nothing}),
        rows_(2 * kRows) {
    tap_.out = Tensor::dense(rows_.data(), DType::f32, {kRows, 2});
  }
  int max_draft() const override { return guesses_.max_draft(); }
  std::span<const Tap> taps() const override { return {&tap_, 1}; }
  void propose(std::span<Draft> drafts) override {
    for (const Draft& draft : drafts) check(draft);
    guesses_.propose(drafts);
  }
  void observe(std::span<const Verified> verified) override { guesses_.observe(verified); }
  void forget(SeqId id) override { guesses_.forget(id); }

  int64_t n_known = 0, n_unknown = 0;

 private:
  // As the scripted model's hidden() has it, of the token before the one that is due.
  void check(const Draft& draft) {
    ++(draft.tapped < 0 ? n_unknown : n_known);
    if (draft.tapped < 0) return;
    const auto row = draft.context.first(draft.context.size() - 1);
    uint64_t past = 0;
    for (const Token id : row) past = next_past(past, id);
    const float* found = tap_.out.row<float>(draft.tapped);
    EXPECT_EQ(found[0], static_cast<float>(past % 1000)) << "sequence " << draft.seq << " at " << row.size();
    EXPECT_EQ(found[1], static_cast<float>(row.size() - 1));
  }

  ScriptedProposer guesses_;
  std::vector<float> rows_;
  Tap tap_;
};

TEST(EngineTaps, GiveTheRowThatTheDueTokenWasDrawnFrom) {
  std::vector<ExpectedAnswer> truth;
  for (int i = 0; i < kRequests; ++i) truth.push_back(alone(request(i), kCtx));
  const auto answers = [&](SeqId id) -> std::span<const Token> { return truth[(id - 1) % kRequests].tokens; };
  int64_t n_preempted = 0;
  for (const TestSchedule& schedule : kTestSchedules) {
    EngineOptions options = schedule.options(kCtx);
    options.max_draft = 3;
    const auto proposer = std::make_shared<Tapping>(options.max_draft, answers);
    TestEngine t(options, schedule.n_blocks, nullptr, 0, proposer);
    std::vector<std::shared_ptr<Heard>> heard;
    for (int i = 0; i < kRequests; ++i) heard.push_back(t.submit(request(i)));
    EXPECT_EQ(t.run(), "");
    n_preempted += t.engine->stats().n_preempted;
    EXPECT_GT(proposer->n_known, 100);
    EXPECT_LT(proposer->n_unknown * 20, proposer->n_known) << "only who waited for another's past has none";
    for (size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(heard[i]->answer.finish, truth[i].finish) << i;
  }
  EXPECT_GT(n_preempted, 0);
}

}  // namespace
}  // namespace quire
