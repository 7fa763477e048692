// Adapters in every architecture, with random matrices on every place that has one, beside everything that they meet in
// a server: grammars, budgets of prompts, guesses, caches of other codecs, preemption, the cache. The same request, the
// same bits. Tiny random models (tests/golden/models).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cpu/cpu_ops.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "engine/engine.h"
#include "engine/limits.h"
#include "engine/test_proposer.h"
#include "io/model_file.h"
#include "model/adapter_builder.h"
#include "sample/constraint.h"
#include "tests/support/bits_sink.h"
#include "tests/support/golden_models.h"
#include "text/grammar/regex_grammar.h"

namespace quire {
namespace {

constexpr int kRequests = 8, kCtx = 160, kVocab = 128, kRank = 3;
constexpr int kFewBlocks = 14;  // as many as the longest request needs, with what its budget copies
constexpr Token kEnd = 2;

// Texts of a grammar for tokens that are letters.
std::shared_ptr<const Constraint> letters() {
  static const auto kLetters = [] {
    std::vector<std::string> texts(kVocab);
    for (size_t i = 3; i < texts.size(); ++i) texts[i] = std::string(1, static_cast<char>('a' + i % 8));
    auto trie = std::make_shared<const TokenTrie>(std::move(texts), std::vector<Token>{kEnd}, size_t{kVocab});
    return std::make_shared<const Constraint>(Constraint{"", "regex", *compile_regex("(ab|cd|e){4,9}", {}), trie});
  }();
  return kLetters;
}

struct Way {
  std::string isa = cpu_isas().back();
  int threads = 2, chunk = 33, max_seqs = kRequests, n_blocks = 120, rounds = 1;
  bool cache = true, guesses = false, adapted = true;
  std::string codec = "f16";
};

class AdaptedArchitectures : public testing::TestWithParam<std::string> {
 protected:
  // On all places that adapters may add to, or on every third.
  static std::shared_ptr<const Adapter> adapter(const Model& model, Ops& ops, const std::string& path, uint64_t seed) {
    AdapterBuilder builder(model, ops, {path, find_weight_format("q8_0")}, int64_t{1} << 28);
    Rng rng(seed);
    const auto draw = [&rng](int64_t n, float scale) {
      std::vector<float> out;
      out.reserve(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) out.push_back(scale * static_cast<float>(rng.between(-100, 100)) / 100);
      return out;
    };
    std::set<std::string> seen;
    int number = 0;
    for (const AdapterSite& site : model.adapter_sites()) {
      if (site.why_not != nullptr || !seen.insert(site.tensor).second) continue;
      if (seed > 1 && number++ % 3 != 0) continue;
      const AdapterBuilder::Place place = builder.place_of(site.tensor);
      EXPECT_FALSE(place.sites.empty()) << site.tensor;
      EXPECT_TRUE(builder.take_room(place, kRank));
      const Status added =
          builder.add(place, {kRank, draw(kRank * place.n_in, 0.3F), draw(kRank * place.n_out, 0.3F)}, 1.0, "a", "b");
      EXPECT_TRUE(added) << added.error().message;
    }
    const auto out = builder.finish();
    EXPECT_TRUE(out) << out.error().message;
    return *out;
  }

  Request request(int i) const {
    Request out;
    Rng rng(static_cast<uint64_t>(i / 4) + 1);
    for (int n = 0; n < 70; ++n) out.prompt.push_back(static_cast<Token>(rng.between(3, kVocab - 1)));
    for (int n = 0; n < 5 * i; ++n) out.prompt.push_back(static_cast<Token>(3 + (i * 7 + n) % 120));
    out.max_tokens = least_tokens_ + 3 * i;
    out.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
    out.sampling.seed = static_cast<uint64_t>(i);
    out.sampling.n_logprobs = 0;
    if (i % 4 == 1) {
      out.sampling.constraint = letters();
      out.stop_ids = {kEnd};
    }
    if (i % 4 >= 2 && has_budget_) out.kv_budget = 64;
    return out;
  }

  std::vector<std::vector<uint32_t>> run(const Way& how) {
    const std::string path = golden_path(GetParam());
    const auto file = open_model(path);
    EXPECT_TRUE(file) << file.error().message;
    const auto ops = make_cpu_ops(CpuOptions{.n_threads = how.threads, .isa = how.isa, .pin = false});
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec(how.codec);
    loading.weights = find_weight_format("q8_0");
    const auto model = load_model(*file, **ops, loading);
    EXPECT_TRUE(model) << model.error().message;
    has_budget_ = why_no_budget((*model)->info(), **ops, false).empty();
    const std::shared_ptr<const Adapter> adapters[] = {nullptr, adapter(**model, **ops, path, 1),
                                                       adapter(**model, **ops, path, 2)};
    EngineOptions options;
    options.recompute_share = 1;  // all come in, and some have to go
    options.n_ctx = kCtx;
    options.max_chunk = how.chunk;
    options.step_tokens = std::max(how.chunk, 2 * how.max_seqs);
    options.max_seqs = how.max_seqs;
    options.prefix_cache = how.cache;
    options.pin_bytes = 0;
    const KvLayout& layout = (*model)->info().kv_layout;
    options.kv_bytes = int64_t{how.n_blocks} * 16 * layout.token_bytes();
    options.n_window_blocks = how.n_blocks;  // or windows would leave more to the other layers
    grows_ = std::ranges::any_of((*model)->info().attention, [&layout](const AttnParams& l) {
      return l.window == 0 && layout.token_bytes(l.group) > 0;
    });
    if (layout.state_bytes() > 0) {
      options.n_states = how.n_blocks == kFewBlocks ? 5 : 32;
      options.kv_bytes += options.n_states * layout.state_bytes();
    }
    SystemClock clock;
    EngineEnv env;
    env.clock = &clock;
    std::shared_ptr<ScriptedProposer> guesser;
    if (how.guesses) {
      options.max_draft = 3;
      options.max_side = ScriptedProposer::kSide;
      env.proposer = guesser = std::make_shared<ScriptedProposer>(
          3, (*model)->info().n_vocab, 3,
          [this](SeqId id) -> std::span<const Token> { return answers_[(static_cast<size_t>(id) - 1) % kRequests]; },
          std::vector{Guess::beside, Guess::branches});
    }
    const auto engine = make_engine(**model, **ops, options, env);
    EXPECT_TRUE(engine) << engine.error().message;
    std::vector<std::vector<uint32_t>> out;
    n_cached_ = 0;
    for (int round = 0; round < how.rounds; ++round) {
      std::vector<std::shared_ptr<BitsSink>> sinks;
      for (int i = 0; i < kRequests; ++i) {
        Request wanted = request(i);
        if (how.adapted) wanted.adapter = adapters[i % 3];
        sinks.push_back(std::make_shared<BitsSink>());
        const auto id = (*engine)->submit(std::move(wanted), sinks.back());
        EXPECT_TRUE(id) << id.error().message;
        if (i % 2 == 1) (*engine)->step();
      }
      while ((*engine)->step()) EXPECT_EQ((*engine)->snapshot().check(), "");
      out.clear();
      for (const auto& sink : sinks) {
        EXPECT_EQ(sink->error, "");
        out.push_back(sink->bits);
        n_cached_ += sink->usage.n_cached;
      }
    }
    last_ = (*engine)->stats();
    return out;
  }

  // What every run after this one has to say.
  void learn(std::vector<std::vector<uint32_t>> truth) {
    truth_ = std::move(truth);
    answers_.clear();
    for (const auto& bits : truth_) {
      answers_.emplace_back();
      for (size_t at = 0; at < bits.size(); at += 2) answers_.back().push_back(static_cast<Token>(bits[at]));
    }
  }

  std::vector<std::vector<uint32_t>> truth_;
  std::vector<std::vector<Token>> answers_;
  int least_tokens_ = 34;  // of answers; the longest request is all of the context
  bool has_budget_ = false, grows_ = false;
  int64_t n_cached_ = 0;
  EngineStats last_;
};

TEST_P(AdaptedArchitectures, SameRequestSameBits) {
  learn(run({.isa = "scalar", .threads = 1, .chunk = 512, .max_seqs = 1, .cache = false}));
  const auto plain = run({.adapted = false});
  for (size_t i = 0; i < truth_.size(); ++i) EXPECT_EQ(truth_[i] == plain[i], i % 3 == 0) << i;
  EXPECT_EQ(run({.threads = 3, .chunk = 7, .rounds = 2}), truth_);
  EXPECT_GT(n_cached_, 0);
  EXPECT_EQ(run({.guesses = true}), truth_);
  EXPECT_GT(last_.spent.n_accepted, 0);
  // Those under a budget give blocks of their prompt back, so that fewer have to go. Nobody is preempted where every
  // layer keeps a state or sees a window: what a sequence that runs holds of these does not grow.
  const int least = !grows_ ? 0 : has_budget_ ? 1 : 2;
  for (const bool guesses : {false, true}) {
    EXPECT_EQ(run({.n_blocks = kFewBlocks, .guesses = guesses}), truth_);
    EXPECT_GE(last_.n_preempted, least) << guesses;
  }
}

TEST_P(AdaptedArchitectures, OverAnotherCache) {
  const auto file = open_model(golden_path(GetParam()));
  std::string taken;  // the first that is: values that are part of keys cannot be turned as q8 does
  for (const char* codec : {"q8", "bf16"}) {
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec(codec);
    if (taken.empty() && model_info(*file, loading)) taken = codec;
  }
  SCOPED_TRACE(taken);
  least_tokens_ = 6;
  learn(run({.isa = "scalar", .threads = 1, .max_seqs = 1, .cache = false, .codec = taken}));
  EXPECT_EQ(run({.chunk = 7, .guesses = true, .codec = taken}), truth_);
}

std::vector<std::string> models() {
  std::vector<std::string> out;
  const std::vector<std::string> all = golden_models();
  for (size_t i = 0; i < all.size(); i += kSanitized ? 5 : 1) out.push_back(all[i]);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Models, AdaptedArchitectures, testing::ValuesIn(models()), golden_model_name);

}  // namespace
}  // namespace quire
