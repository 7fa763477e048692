// Random arrivals, cancellations, poisoned prompts, clock jumps and tiny pools, thousands of seeds. After every step
// the books balance and the oldest has moved; at the end every stream is its reference or an exact prefix of it.
#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "base/sanitized.h"
#include "engine/engine.h"
#include "engine/recording.h"
#include "engine/test_model.h"
#include "engine/test_proposer.h"

namespace quire {
namespace {

constexpr int kBlock = 16;

struct Stream {
  Request request;       // what alone() is asked
  ExpectedAnswer truth;  // and says, once anybody wants to know
  std::shared_ptr<Heard> heard;
  bool cancelled = false;
  int n_virtual = 0;  // of request.prompt, which has what they stand for
};

class Storm {
 public:
  // With learned prefixes and pins, or without.
  Storm(uint64_t seed, bool learned, bool pins) : rng_(seed), pins_(pins) {
    options_.max_seqs = below(6) + 1;
    options_.step_tokens = below(40) + 1;
    options_.max_chunk = below(40) + 1;
    options_.n_ctx = 20 + below(120);
    options_.block_tokens = kBlock * (1 + below(2));
    options_.max_queue = 1 + below(12);
    options_.prefix_cache = pins || below(4) != 0;
    options_.max_pins = 4;
    options_.policy = std::array{"fcfs", "priority", "prefix", "vtc", "deadlines"}[seed % 5];
    options_.itl_target_ms = below(3) == 0 ? 0.001 * below(20) : 0;
    options_.step_target_ms = seed % 7 == 3 ? 0.002 : 0;
    n_blocks_ = 3 + below(6) + (pins ? 8 : 0);
    tenants_ = below(2) == 0;
    // As few blocks as a window and a step need, or more.
    const int window = below(3) > 0 ? 0 : 1 + below(60);
    const int n_step = std::min({options_.step_tokens, options_.max_chunk, options_.n_ctx});
    const int least = (window + n_step + options_.block_tokens - 3) / options_.block_tokens + 1;
    if (window > 0) options_.n_window_blocks = std::min(n_blocks_, least) + below(3);
    // Half of the storms guess ahead, knowing the answers and making every use of that.
    std::shared_ptr<Proposer> proposer;
    if (below(2) == 0) {
      options_.max_draft = 1 + below(8);
      proposer = std::make_shared<ScriptedProposer>(options_.max_draft, kTestVocab, seed,
                                                    [this](SeqId id) { return truth_of(id); });
    }
    options_.overlap = seed % 2 == 1 && proposer == nullptr && options_.step_target_ms <= 0;
    if (learned) prefixes_ = {{7, 1 + below(17)}, {8, 1 + below(std::min(options_.n_ctx - 2, 50))}};
    engine_ =
        std::make_unique<TestEngine>(options_, TestSetup{n_blocks_, nullptr, window, std::move(proposer), prefixes_});
    engine_->model.on_pass = [this](const Batch& batch) {
      see(batch);
      if (options_.itl_target_ms + options_.step_target_ms > 0)
        engine_->clock.advance_ns(100 + 200 * batch.ids.dim(0) + below(300));
    };
  }

  void run() {
    for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) {
      for (int n = below(3); n > 0; --n) submit();
      if (below(4) == 0) cancel();
      if (pins_ && below(4) == 0) unpin_one();
      if (below(8) == 0) engine_->clock.advance_ns(rng_.between(-1'000'000'000, 1'000'000'000));
      step();
    }
    for (int i = 0; (engine_->busy || i == 0) && !testing::Test::HasFailure(); ++i) {
      ASSERT_LT(i, 20000) << "it never ends";
      step();
    }
    for (const Stream& stream : streams_) check(stream);
    while (unpin_one()) ++n_pinned_at_end;
    ASSERT_EQ(engine_->step(), "");
    const Snapshot end = engine_->engine->snapshot();
    EXPECT_EQ(end.n_held_blocks, end.stats.n_learned_blocks);
    EXPECT_EQ(end.stats.n_free_blocks + end.stats.n_cached_blocks + end.n_held_blocks, end.stats.n_blocks);
    EXPECT_EQ(end.stats.n_submitted, static_cast<int64_t>(streams_.size()));
    EXPECT_EQ(end.stats.n_finished + end.stats.n_cancelled + end.stats.n_failed, end.stats.n_submitted);
    EXPECT_EQ(end.stats.spent.n_computed() + end.stats.n_dropped_rows, n_rows_);
    EXPECT_EQ(charged_by(Cause::draft) > 0, end.stats.spent.computed[static_cast<size_t>(Cause::draft)] > 0);
    Cost charged;
    for (const Stream& stream : streams_) charged += stream.heard->usage.cost;
    EXPECT_EQ(charged.n_computed() + end.stats.n_dropped_rows, n_rows_)
        << "what the requests were told they cost is what was computed";
    EXPECT_EQ(charged.computed, end.stats.spent.computed);
    EXPECT_EQ(charged.n_reused, end.stats.spent.n_reused);
    EXPECT_EQ(charged.n_wasted, end.stats.spent.n_wasted);
    EXPECT_EQ(charged.block_ns, end.stats.spent.block_ns);
    EXPECT_EQ(charged.prefill_ns + charged.decode_ns, end.stats.busy_ns);
    EXPECT_EQ(charged.stage_ns, end.stats.spent.stage_ns);
    // No step fails here, so the overhead is commit's alone.
    StageTimes all = end.stats.stage_ns;
    EXPECT_EQ(std::exchange(all[static_cast<size_t>(Stage::commit)], 0) > 0, end.stats.n_steps > 0);
    EXPECT_EQ(charged.stage_ns, all);
    EXPECT_TRUE(end.stats.n_preempted > 0 || end.stats.spent.computed[static_cast<size_t>(Cause::recomputed)] == 0);
    stats = end.stats;
  }
  EngineStats stats;
  int n_pinned_at_end = 0;

 private:
  bool unpin_one() {
    const std::vector<PinView> pins = engine_->engine->pins(1);
    if (pins.empty()) return false;
    EXPECT_TRUE(engine_->engine->unpin(pins[static_cast<size_t>(below(static_cast<int>(pins.size())))].id, 1));
    return true;
  }
  int below(int n) { return static_cast<int>(rng_.between(0, n - 1)); }

  void submit() {
    Request r;
    const auto [prefix, n_virtual] =
        prefixes_.empty() || below(3) == 0 ? std::pair<uint64_t, int>() : prefixes_[static_cast<size_t>(below(2))];
    r.prefix = prefix;
    const int n = 1 + below(1 + below(options_.n_ctx - n_virtual - 1));
    r.prompt = random_tokens(static_cast<uint64_t>(below(3)), n);  // three texts, cut anywhere: long common prefixes
    if (below(3) == 0) r.prompt.back() = static_cast<Token>(below(kPoison));
    if (below(12) == 0) r.prompt[static_cast<size_t>(below(n))] = kPoison;
    r.max_tokens = 1 + below(60);
    r.sampling.temperature = below(2) == 0 ? 0.0F : 0.9F;
    r.sampling.seed = rng_.bits();
    r.stop_ids.assign(1, static_cast<Token>(below(kPoison)));
    r.cache_salt = static_cast<uint64_t>(below(2));
    r.priority = below(3);
    if (pins_ && below(4) == 0) r.pin = {streams_.size() + 1, 1, 3};
    const bool pins = r.pin.id != 0;
    if (tenants_) r.tenant = static_cast<uint64_t>(below(4) == 0 ? 1 + below(3) : 0);
    Stream stream{recorded_part(r), {}, std::make_shared<Heard>()};
    stream.request.prefix = 0;  // spelled out instead
    const std::vector<Token> learned = learned_tokens(prefix, n_virtual);
    stream.request.prompt.insert(stream.request.prompt.begin(), learned.begin(), learned.end());
    stream.n_virtual = n_virtual;
    const auto id = engine_->engine->submit(std::move(r), stream.heard);
    if (!id) {
      EXPECT_TRUE(id.error().code == Code::exhausted || (pins && id.error().code == Code::invalid))
          << id.error().message;
      return;
    }
    stream.heard->seq = *id;
    streams_.push_back(std::move(stream));
  }
  void cancel() {
    if (streams_.empty()) return;
    Stream& victim = streams_[static_cast<size_t>(below(static_cast<int>(streams_.size())))];
    engine_->engine->cancel(victim.heard->seq);
    if (!victim.heard->done()) victim.cancelled = true;
  }

  std::span<const Token> truth_of(SeqId id) {
    for (Stream& stream : streams_) {
      if (stream.heard->seq != id) continue;
      if (stream.truth.tokens.empty()) stream.truth = alone(stream.request, options_.n_ctx);
      return stream.truth.tokens;
    }
    return {};
  }
  int64_t charged_by(Cause cause) const {
    int64_t n = 0;
    for (const Stream& stream : streams_) n += stream.heard->usage.cost.computed[static_cast<size_t>(cause)];
    return n;
  }

  void step() {
    const Stream* oldest = nullptr;
    for (const Stream& stream : streams_) {
      if (!stream.heard->done() && oldest == nullptr) oldest = &stream;
    }
    engine_->clock.advance_ns(1000);
    ASSERT_EQ(engine_->step(), "");
    for (const Stream& stream : streams_) {
      ASSERT_FALSE(stream.cancelled && !stream.heard->done()) << "a cancelled sequence outlived a step";
    }
    // Something of the oldest is computed in every step, so it ends after as many as it has tokens.
    n_steps_of_oldest_ = oldest == oldest_ ? n_steps_of_oldest_ + 1 : 1;
    oldest_ = oldest;
    if (options_.policy != "fcfs" || tenants_) return;
    if (oldest == nullptr || oldest->heard->done()) return;
    ASSERT_LE(n_steps_of_oldest_, static_cast<int>(oldest->request.prompt.size()) + oldest->request.max_tokens);
  }

  void see(const Batch& batch) {
    n_rows_ += batch.ids.dim(0);
    EXPECT_LE(batch.ids.dim(0), options_.step_tokens);
    EXPECT_LE(batch.attn.cu_q.dim(0) - 1, options_.max_seqs);
  }

  void check(const Stream& stream) const {
    const ExpectedAnswer& answer = stream.heard->answer;
    const ExpectedAnswer truth = alone(stream.request, options_.n_ctx);
    ASSERT_EQ(stream.heard->n_finish, 1);
    // The stop id, which is no part of the answer; a pin that there is no room for is an error behind it.
    const bool ended = stream.heard->usage.n_pinned < 0 ? truth.finish == Finish::stop : answer.finish == Finish::stop;
    const int n_end = ended ? 1 : 0;
    ASSERT_EQ(stream.heard->usage.n_generated, static_cast<int>(answer.tokens.size()) + n_end);
    ASSERT_EQ(stream.heard->usage.n_prompt, static_cast<int>(stream.request.prompt.size()) - stream.n_virtual);
    ASSERT_LT(stream.heard->usage.n_cached, stream.heard->usage.n_prompt);
    if (stream.heard->usage.n_pinned < 0) {
      ASSERT_EQ(answer.finish, Finish::error);
      ASSERT_EQ(answer.tokens, truth.tokens);
      return;
    }
    if (answer.finish != Finish::cancelled) {
      ASSERT_EQ(answer, truth) << "sequence " << stream.heard->seq;
      return;
    }
    ASSERT_TRUE(stream.cancelled);
    ASSERT_LE(answer.tokens.size(), truth.tokens.size());
    ASSERT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), truth.tokens.begin()));
  }

  Rng rng_;
  EngineOptions options_;
  int n_blocks_ = 0;
  std::vector<std::pair<uint64_t, int>> prefixes_;  // content and length
  const bool pins_;
  bool tenants_ = false;  // more than one: then the oldest of all may stand behind others' oldest (tests/sim)
  int64_t n_rows_ = 0;
  std::unique_ptr<TestEngine> engine_;
  std::deque<Stream> streams_;  // by age; addresses stay
  const Stream* oldest_ = nullptr;
  int n_steps_of_oldest_ = 0;
};

constexpr uint64_t kSeeds = fewer_if_sanitized(2000);
constexpr uint64_t kSeedsLearned = kSeeds / 4;  // as many more
constexpr uint64_t kSeedsPins = kSeeds / 4;     // likewise

TEST(EngineRandom, EveryStreamIsAPrefixOfItsReferenceAndTheBooksBalance) {
  EngineStats sum;
  int n_pinned = 0;
  for (uint64_t seed = 1; seed <= kSeeds + kSeedsLearned + kSeedsPins; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool pins = seed > kSeeds + kSeedsLearned;
    Storm storm(seed, seed > kSeeds && (!pins || seed % 2 == 0), pins);
    storm.run();
    if (HasFailure()) return;
    n_pinned += storm.n_pinned_at_end;
    sum.n_finished += storm.stats.n_finished;
    sum.n_cancelled += storm.stats.n_cancelled;
    sum.n_failed += storm.stats.n_failed;
    sum.n_preempted += storm.stats.n_preempted;
    sum.n_cached_tokens += storm.stats.n_cached_tokens;
    sum.busy_ns += storm.stats.busy_ns;
    sum.spent += storm.stats.spent;
    sum.n_bad_drafts += storm.stats.n_bad_drafts;
    sum.n_steps_ahead += storm.stats.n_steps_ahead;
    sum.n_dropped_rows += storm.stats.n_dropped_rows;
  }
  // The storms reach everything that they are about.
  EXPECT_GT(sum.n_finished, 10 * static_cast<int64_t>(kSeeds));
  EXPECT_GT(sum.n_cancelled, static_cast<int64_t>(kSeeds));
  EXPECT_GT(sum.n_failed, static_cast<int64_t>(kSeeds) / 4);
  EXPECT_GT(sum.n_preempted, static_cast<int64_t>(kSeeds) / 3);
  EXPECT_GT(sum.n_cached_tokens, 10 * static_cast<int64_t>(kSeeds));
  EXPECT_GT(sum.spent.computed[static_cast<size_t>(Cause::recomputed)], static_cast<int64_t>(kSeeds) / 4);
  EXPECT_GT(sum.busy_ns, 0);
  EXPECT_GT(sum.spent.n_accepted, 10 * static_cast<int64_t>(kSeeds));
  EXPECT_GT(sum.n_bad_drafts, static_cast<int64_t>(kSeeds));
  EXPECT_GT(sum.spent.n_wasted, 0);
  EXPECT_GT(sum.n_steps_ahead, 10 * static_cast<int64_t>(kSeeds));
  EXPECT_GT(sum.n_dropped_rows, static_cast<int64_t>(kSeeds) / 10);
  EXPECT_GT(n_pinned, static_cast<int>(kSeedsPins) / 3);
}

}  // namespace
}  // namespace quire
