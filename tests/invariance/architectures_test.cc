// Every architecture: the same request, the same bits, whether it is alone or in a batch, in whatever chunks, with its
// prefix from the cache or computed, preempted or not, on any number of threads and instruction set. Tiny random models
// (tests/golden/models).
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

constexpr int kRequests = 6;
constexpr int kCtx = 128;
constexpr int kVocab = 128;  // the least of them

// Odd ones begin as the even ones before them do.
Request request(int i) {
  Request out;
  Rng rng(static_cast<uint64_t>(i / 2) + 1);
  for (int n = 0; n < 45; ++n) out.prompt.push_back(static_cast<Token>(rng.between(3, kVocab - 1)));
  Rng own(static_cast<uint64_t>(i) + 100);
  for (int n = 0; n < 2 + 3 * i; ++n) out.prompt.push_back(static_cast<Token>(own.between(3, kVocab - 1)));
  out.max_tokens = 12 + i;
  out.sampling.temperature = i % 3 == 0 ? 0.0F : 1.0F;
  out.sampling.seed = static_cast<uint64_t>(i);
  out.sampling.n_logprobs = 0;
  return out;
}

struct Way {
  std::string isa;
  int threads = 1, chunk = 512, max_seqs = 8;
  bool cache = true;
  int n_blocks = 64;  // few: some are preempted
  ContextShift shift = {};
  int64_t swap_bytes = -1;  // for copies of who is preempted; -1: the engine's own choice
  int n_more = 0;           // tokens that answers may have beyond what request() says
  bool guesses = false;     // trees of tokens, right and wrong
};

class Architectures : public testing::TestWithParam<std::string> {
 protected:
  // An engine of this model, run `how`, and what it stands on.
  struct Machine {
    std::unique_ptr<Ops> ops;
    std::unique_ptr<Model> model;
    SystemClock clock;
    std::unique_ptr<Engine> engine;
  };
  std::unique_ptr<Machine> machine(const Way& how) {
    auto out = std::make_unique<Machine>();
    const auto file = open_model(golden_path(GetParam()));
    EXPECT_TRUE(file) << file.error().message;
    auto ops = make_cpu_ops(CpuOptions{.n_threads = how.threads, .isa = how.isa, .pin = false});
    EXPECT_TRUE(ops);
    out->ops = std::move(*ops);
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec("f16");
    loading.weights = find_weight_format("q8_0");
    loading.shift = how.shift;
    auto model = load_model(*file, *out->ops, loading);
    EXPECT_TRUE(model) << model.error().message;
    out->model = std::move(*model);
    const auto keeps = [](const AttnParams& layer) { return layer.n_kept > 0; };
    shifts_ = std::ranges::any_of(out->model->info().attention, keeps);
    EngineOptions options;
    options.recompute_share = 1;  // all come in, and some have to go
    options.swap_bytes = how.swap_bytes;
    options.n_ctx = kCtx;
    options.max_chunk = how.chunk;
    options.step_tokens = std::max(how.chunk, how.max_seqs);
    options.max_seqs = how.max_seqs;
    options.prefix_cache = how.cache;
    options.block_tokens = 16;
    const KvLayout& layout = out->model->info().kv_layout;
    options.kv_bytes = int64_t{how.n_blocks} * 16 * layout.token_bytes();
    if (layout.state_bytes() > 0) {
      options.n_states = how.n_blocks == 64 ? 24 : 5;
      options.kv_bytes += options.n_states * layout.state_bytes();
    }
    EngineEnv env;
    env.clock = &out->clock;
    if (how.guesses) {
      options.max_draft = 4;
      options.max_side = ScriptedProposer::kSide;
      env.proposer = guesser_ = std::make_shared<ScriptedProposer>(
          4, out->model->info().n_vocab, 3,
          [this](SeqId id) -> std::span<const Token> { return answers_[static_cast<size_t>(id) - 1]; },
          std::vector{Guess::beside, Guess::branches});
    }
    auto engine = make_engine(*out->model, *out->ops, options, env);
    EXPECT_TRUE(engine) << engine.error().message;
    out->engine = std::move(*engine);
    return out;
  }
  // Where there are states and no attention nobody is preempted, since blocks hold nothing, nor where all attention is
  // behind windows, whose blocks come back.
  bool keeps_state_beside_keys() {
    const auto file = open_model(golden_path(GetParam()));
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec("f16");
    const auto info = model_info(*file, loading);
    EXPECT_TRUE(info) << info.error().message;
    if (!info) return false;
    const KvLayout& layout = info->kv_layout;
    const auto grows = [&layout](const AttnParams& l) { return l.window == 0 && layout.token_bytes(l.group) > 0; };
    return layout.state_bytes() > 0 && std::ranges::any_of(info->attention, grows);
  }
  // Of an architecture whose keys cannot move to other positions: false.
  bool takes(const ContextShift& shift) {
    const auto file = open_model(golden_path(GetParam()));
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec("f16");
    loading.shift = shift;
    const auto info = model_info(*file, loading);
    return info || info.error().code != Code::unsupported;
  }
  static void run_all(Engine& engine) {
    while (engine.step()) EXPECT_EQ(engine.snapshot().check(), "");
  }

  std::vector<std::vector<uint32_t>> run(const Way& how, int64_t& n_cached) {
    const auto machine = this->machine(how);
    Engine& engine = *machine->engine;
    std::vector<std::shared_ptr<BitsSink>> sinks;
    std::vector<std::vector<uint32_t>> out;
    for (int i = 0; i < kRequests; ++i) {
      sinks.push_back(std::make_shared<BitsSink>());
      Request asked = request(i);
      asked.max_tokens += how.n_more;
      EXPECT_TRUE(engine.submit(std::move(asked), sinks.back()));
      for (int step = 0; step < 3; ++step) engine.step();
    }
    run_all(engine);
    for (const auto& sink : sinks) {
      EXPECT_EQ(sink->error, "");
      EXPECT_GT(sink->bits.size(), 2U);
      out.push_back(sink->bits);
      n_cached += sink->usage.n_cached;
    }
    last_ = engine.stats();
    return out;
  }
  bool keeps_state() {
    const auto file = open_model(golden_path(GetParam()));
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec("f16");
    const auto info = model_info(*file, loading);
    return info && info->kv_layout.state_bytes() > 0;
  }
  EngineStats last_;  // of the last run
  std::vector<std::vector<Token>> answers_;
  std::shared_ptr<ScriptedProposer> guesser_;
  bool shifts_ = false;  // a layer of the last run did: not where all see less than the shift's window
};

TEST_P(Architectures, SameRequestSameBits) {
  int64_t n_cached = 0;
  const auto truth = run({.isa = "scalar", .max_seqs = 1, .cache = false}, n_cached);
  EXPECT_EQ(n_cached, 0);
  std::vector<Way> runs = {{.isa = cpu_isas().back(), .threads = 3, .chunk = 7},
                           {.isa = cpu_isas().back(), .threads = 2, .chunk = 33, .n_blocks = 13},
                           {.isa = cpu_isas().back(), .threads = 1, .chunk = 64, .cache = false}};
  for (const std::string& isa : cpu_isas()) runs.push_back({.isa = isa, .threads = 2, .chunk = 16});
  if (kSanitized) runs.resize(2);
  for (const Way& how : runs) {
    int64_t cached = 0;
    SCOPED_TRACE(how.isa + " threads " + std::to_string(how.threads) + " chunk " + std::to_string(how.chunk));
    EXPECT_EQ(run(how, cached), truth);
    if (how.cache && how.n_blocks == 64) {
      EXPECT_GT(cached, 0);
    }
  }
}

// A branch of guesses lies in blocks of its own, with windows and latent keys. Where layers keep a state there are no
// branches, and a guess leaves a state of its own.
TEST_P(Architectures, TreesOfGuessesChangeNoBit) {
  int64_t n_cached = 0;
  const auto truth = run({.isa = cpu_isas().back(), .max_seqs = 1, .cache = false}, n_cached);
  for (const auto& bits : truth) {
    answers_.emplace_back();
    for (size_t i = 0; i < bits.size(); i += 2) answers_.back().push_back(static_cast<Token>(bits[i]));
  }
  for (const int n_blocks : {64, 13}) {
    const Way how{.isa = cpu_isas().back(), .threads = 2, .chunk = 33, .n_blocks = n_blocks, .guesses = true};
    EXPECT_EQ(run(how, n_cached), truth);
    EXPECT_GT(last_.spent.n_accepted, 0);
    EXPECT_TRUE(n_blocks < 64 || guesser_->n_beside > 0 || keeps_state()) << "no branch came true";
  }
}

// A dialogue: the second turn's prompt is all of the first turn and a little more. It computes what is new and at most
// a block, with the bits that it has alone.
TEST_P(Architectures, ASecondTurnGoesOnWhereTheFirstEnded) {
  std::vector<uint32_t> truth;
  for (const bool cache : {false, true}) {
    const auto machine = this->machine({.isa = cpu_isas().back(), .threads = 2, .chunk = 33, .cache = cache});
    const auto first = std::make_shared<BitsSink>(), second = std::make_shared<BitsSink>();
    Request turn = request(0), next = request(0);
    turn.max_tokens = next.max_tokens = 30;
    ASSERT_TRUE(machine->engine->submit(std::move(turn), first));
    run_all(*machine->engine);
    for (size_t i = 0; i < first->bits.size(); i += 2) next.prompt.push_back(static_cast<Token>(first->bits[i]));
    const auto n_known = static_cast<int64_t>(next.prompt.size()) - 1;  // the last answer token was never computed
    for (Token id = 3; id < 8; ++id) next.prompt.push_back(id);
    ASSERT_TRUE(machine->engine->submit(std::move(next), second));
    run_all(*machine->engine);
    EXPECT_EQ(second->usage.n_cached, cache ? n_known / 16 * 16 : 0);
    if (!cache) truth = second->bits;
    EXPECT_EQ(second->bits, truth);
  }
}

// A state is not a function of blocks that others could share, and is overwritten with every token: who is preempted is
// copied out whole and goes on from there, or else computes all of it again. The bits are the same.
TEST_P(Architectures, WhoIsPreemptedWithAStateComesBackWhole) {
  if (!keeps_state_beside_keys()) return;  // of others the tree keeps what they had
  constexpr int kMore = 40;                // so that five who have a state do not fit
  int64_t n_cached = 0;
  const auto truth = run({.isa = "scalar", .max_seqs = 1, .cache = false, .n_more = kMore}, n_cached);
  int64_t n_again[2] = {};
  for (const bool swaps : {false, true}) {
    Way how{.isa = cpu_isas().back(), .threads = 2, .chunk = 33, .cache = false, .n_blocks = 13, .n_more = kMore};
    how.swap_bytes = swaps ? int64_t{1} << 30 : 0;
    EXPECT_EQ(run(how, n_cached), truth);
    EXPECT_GT(last_.n_preempted, 0);
    EXPECT_EQ(last_.n_swaps_in > 0, swaps);
    EXPECT_EQ(last_.swapped_bytes, 0) << "no copy is left";
    n_again[swaps ? 1 : 0] = last_.spent.computed[static_cast<size_t>(Cause::recomputed)];
  }
  EXPECT_GT(n_again[0], 0);
  EXPECT_EQ(n_again[1], 0) << "nothing is computed twice";
}

// Endless generation: most rows of the answers miss tokens between the sinks and their window.
TEST_P(Architectures, SameRequestSameBitsWhenTheContextShifts) {
  const ContextShift shift{.n_sinks = 4, .window = 24};
  if (!takes(shift)) GTEST_SKIP() << "its keys do not move to other positions";
  int64_t n_cached = 0;
  const Way plain{.isa = "scalar", .max_seqs = 1, .cache = false};
  Way alone = plain;
  alone.shift = shift;
  const auto truth = run(alone, n_cached);
  const bool shifts = shifts_;
  EXPECT_EQ(truth != run(plain, n_cached), shifts) << "what is not seen counts";
  std::vector<Way> runs = {{.isa = cpu_isas().back(), .threads = 3, .chunk = 7},
                           {.isa = cpu_isas().back(), .threads = 1, .chunk = 64, .cache = false}};
  for (const std::string& isa : cpu_isas()) runs.push_back({.isa = isa, .threads = 2, .chunk = 16, .n_blocks = 13});
  if (kSanitized) runs.resize(2);
  for (Way& how : runs) {
    int64_t cached = 0;
    SCOPED_TRACE(how.isa + " threads " + std::to_string(how.threads) + " chunk " + std::to_string(how.chunk));
    how.shift = shift;
    EXPECT_EQ(run(how, cached), truth);
    if (how.cache && how.n_blocks == 64) {
      EXPECT_GT(cached, 0);
    }
  }
}

// With sanitizers every third: the golden tests run all models there.
std::vector<std::string> models() {
  std::vector<std::string> out;
  const std::vector<std::string> all = golden_models();
  for (size_t i = 0; i < all.size(); i += kSanitized ? 3 : 1) out.push_back(all[i]);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Models, Architectures, testing::ValuesIn(models()), golden_model_name);

}  // namespace
}  // namespace quire
