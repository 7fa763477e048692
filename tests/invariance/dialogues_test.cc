// Dialogues with models whose layers keep a state: a turn computes what is new in it and less than a block beside, to
// the row, for every architecture and size of blocks, also where states of others take the places of older ones, and
// where answers were guessed. The bits are those of a run without a cache. Tiny random models (tests/golden/models).
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "engine/engine.h"
#include "engine/test_proposer.h"
#include "io/model_file.h"
#include "tests/support/bits_sink.h"
#include "tests/support/golden_models.h"

namespace quire {
namespace {

constexpr int kDialogues = 3, kTurns = 3, kAnswer = 26;
// States: all that these dialogues leave; two of each of the others and what a turn takes of its own.
constexpr int kEnough = 64, kFew = 8;

struct Way {
  int block = 16, chunk = 33, n_states = kEnough, n_ctx = 256;
  bool cache = true, guesses = false;
};

std::vector<Token> text(int n, int seed) {
  std::vector<Token> out;
  out.reserve(static_cast<size_t>(n));
  Rng rng(static_cast<uint64_t>(seed));
  for (int i = 0; i < n; ++i) out.push_back(static_cast<Token>(rng.between(3, 127)));
  return out;
}

// What a turn's words are, beside all that was said before. The lengths fall on both sides of blocks.
std::vector<Token> words(int dialogue, int turn) {
  return text(turn == 0 ? 64 + 9 * dialogue : 7 + dialogue, 100 * turn + dialogue + 1);
}

class Dialogues : public testing::TestWithParam<std::string> {
 protected:
  struct Said {
    std::vector<uint32_t> bits;
    int n_prompt = 0, n_cached = 0;
    bool operator==(const Said& other) const { return bits == other.bits; }
  };

  void start(const Way& how) {
    engine_.reset();
    const auto file = open_model(golden_path(GetParam()));
    ASSERT_TRUE(file) << file.error().message;
    ops_ = std::move(*make_cpu_ops(CpuOptions{.n_threads = 2, .isa = cpu_isas().back(), .pin = false}));
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec("f16");
    loading.weights = find_weight_format("q8_0");
    loading.n_ctx = how.n_ctx;
    auto model = load_model(*file, *ops_, loading);
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::move(*model);
    EngineOptions options;
    options.n_ctx = how.n_ctx;
    options.max_chunk = options.step_tokens = how.chunk;
    options.max_seqs = 4;
    options.prefix_cache = how.cache;
    options.block_tokens = how.block;
    options.n_states = how.n_states;
    const KvLayout& layout = model_->info().kv_layout;
    options.n_window_blocks = 64;  // what is scarce here is states
    options.kv_bytes = int64_t{8192} * layout.token_bytes() + how.n_states * layout.state_bytes();
    EngineEnv env;
    env.clock = &clock_;
    guesser_.reset();
    if (how.guesses) {
      options.max_draft = 3;
      env.proposer = guesser_ = std::make_shared<ScriptedProposer>(
          3, model_->info().n_vocab, 3, [this](SeqId) { return std::span<const Token>(answer_); },
          std::vector{Guess::half, Guess::right});
    }
    auto engine = make_engine(*model_, *ops_, options, env);
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
    n_wasted_ = 0;
  }

  // One answer to one prompt, with every row of it accounted for.
  Said ask(std::vector<Token> prompt, int n_answer) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = n_answer;
    request.sampling.temperature = 0.8F;
    request.sampling.seed = request.prompt.size();
    request.sampling.n_logprobs = 0;
    Said out;
    out.n_prompt = static_cast<int>(request.prompt.size());
    const auto sink = std::make_shared<BitsSink>();
    EXPECT_TRUE(engine_->submit(std::move(request), sink));
    while (engine_->step()) EXPECT_EQ(engine_->snapshot().check(), "");
    EXPECT_EQ(sink->error, "");
    out.bits = sink->bits;
    out.n_cached = sink->usage.n_cached;
    const Cost& cost = sink->usage.cost;
    const auto n_drafted = cost.computed[static_cast<size_t>(Cause::draft)];
    EXPECT_EQ(cost.n_computed() - n_drafted + cost.n_accepted, out.n_prompt - out.n_cached + n_answer - 1);
    n_wasted_ += n_drafted - cost.n_accepted;
    return out;
  }

  // All dialogues, a turn of each after a turn of the others. `truth`: what they say, for who guesses.
  std::vector<Said> talk(const Way& how, const std::vector<Said>* truth = nullptr) {
    start(how);
    std::vector<Said> out;
    std::vector<std::vector<Token>> past(kDialogues);
    for (int i = 0; i < kDialogues * kTurns && !HasFatalFailure(); ++i) {
      std::vector<Token>& all = past[static_cast<size_t>(i % kDialogues)];
      const std::vector<Token> more = words(i % kDialogues, i / kDialogues);
      const int n_known = static_cast<int>(all.size()) - 1;  // an answer's last token was never computed
      all.insert(all.end(), more.begin(), more.end());
      if (truth != nullptr) answer_ = tokens_of((*truth)[static_cast<size_t>(i)]);
      out.push_back(ask(all, kAnswer));
      EXPECT_EQ(out.back().n_cached, how.cache && n_known > 0 ? n_known / how.block * how.block : 0) << i;
      for (const Token id : tokens_of(out.back())) all.push_back(id);
    }
    return out;
  }

  static std::vector<Token> tokens_of(const Said& said) {
    std::vector<Token> out;
    for (size_t i = 0; i < said.bits.size(); i += 2) out.push_back(static_cast<Token>(said.bits[i]));
    return out;
  }

  SystemClock clock_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::shared_ptr<ScriptedProposer> guesser_;
  std::unique_ptr<Engine> engine_;
  std::vector<Token> answer_;
  int64_t n_wasted_ = 0;  // rows of guesses that did not come true
};

TEST_P(Dialogues, ATurnComputesWhatIsNewInIt) {
  const std::vector<Said> truth = talk({.cache = false});
  for (const int block : {16, 32, 64}) {
    SCOPED_TRACE(block);
    EXPECT_EQ(talk({.block = block, .chunk = block + 1}), truth);
    EXPECT_EQ(talk({.block = block, .chunk = 7, .guesses = true}, &truth), truth);
    EXPECT_GT(n_wasted_, 0) << "some guesses were wrong";
  }
}

// While there are places, a text that begins as the first one did finds the state behind that one's prompt; once others
// took its place it finds none. The dialogues do not notice: each turn still finds the last state of its own.
TEST_P(Dialogues, StatesOfOthersTakeThePlacesOfOlderOnes) {
  const std::vector<Said> truth = talk({.cache = false});
  for (const int n_states : {kEnough, kFew}) {
    SCOPED_TRACE(n_states);
    EXPECT_EQ(talk({.n_states = n_states}), truth);
    std::vector<Token> alike = words(0, 0);
    alike.resize(50);
    const int n_cached = ask(alike, 2).n_cached;
    EXPECT_EQ(n_cached, n_states == kFew ? 0 : 48);
  }
}

// Then all is computed again, to the same bits, and the turn after that goes on from there.
TEST_P(Dialogues, AStateThatIsGoneIsComputedAgain) {
  const auto turns = [this](bool gone) {
    std::vector<std::vector<uint32_t>> out;
    std::vector<Token> all;
    for (int turn = 0; turn < 3; ++turn) {
      const int n_known = static_cast<int>(all.size()) - 1;
      for (int i = 0; gone && turn == 1 && i < 2 * kFew; ++i) ask(text(40, 500 + i), 2);
      const std::vector<Token> more = words(0, turn);
      all.insert(all.end(), more.begin(), more.end());
      const Said said = ask(all, kAnswer);
      EXPECT_EQ(said.n_cached, turn == 0 || (gone && turn == 1) ? 0 : n_known / 16 * 16);
      for (const Token id : tokens_of(said)) all.push_back(id);
      out.push_back(said.bits);
    }
    return out;
  };
  start({.n_states = kFew});
  const auto truth = turns(false);
  start({.n_states = kFew});
  EXPECT_EQ(turns(true), truth);
}

// A text that parts from another one far behind its beginning has less than 32 blocks to compute again.
TEST_P(Dialogues, ATextThatPartsComputesLessThanTheDistanceOfStates) {
  const std::vector<Token> first = text(600, 1);
  std::vector<Token> second = first;
  second.resize(560);
  for (const Token id : text(40, 2)) second.push_back(id);
  start({.n_ctx = 1024, .cache = false});
  const Said truth = ask(second, kAnswer);
  start({.n_ctx = 1024});
  EXPECT_EQ(ask(first, 2).n_cached, 0);
  const Said found = ask(second, kAnswer);
  EXPECT_EQ(found.n_cached, 32 * 16);
  EXPECT_EQ(found, truth);
}

std::vector<std::string> models_with_a_state() {
  std::vector<std::string> out;
  size_t n = 0;
  for (const std::string& name : golden_models()) {
    const auto file = open_model(golden_path(name));
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec("f16");
    const auto info = file ? model_info(*file, loading) : tl::make_unexpected(file.error());
    if (!info || info->kv_layout.state_bytes() == 0) continue;
    if (n++ % (kSanitized ? 4 : 1) == 0) out.push_back(name);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Models, Dialogues, testing::ValuesIn(models_with_a_state()), golden_model_name);

}  // namespace
}  // namespace quire
