// Same request, same bits: one hash of tokens and logprobs per request, whatever runs beside it, however its prompt is
// cut, wherever its prefix comes from, on however many threads, on every instruction set (docs/numerics.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "backend/cpu/cpu_ops.h"
#include "base/sanitized.h"
#include "engine/engine.h"
#include "engine/test_proposer.h"
#include "tests/support/codecs.h"
#include "tests/support/random_prefix.h"
#include "tests/support/tiny_bridge.h"
#include "tests/support/tiny_draft.h"
#include "tests/support/tiny_eagle.h"
#include "tests/support/tiny_medusa.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_mtp.h"

namespace quire {
namespace {

class HashSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    mix(static_cast<uint64_t>(event.id));
    if (!event.prompt) answer.push_back(event.id);
    mix(std::bit_cast<uint32_t>(event.logprob));
    for (const TopLogprob& top : event.top) {
      mix(static_cast<uint64_t>(top.id));
      mix(std::bit_cast<uint32_t>(top.logprob));
    }
    ++n_tokens;
  }
  void on_finish(SeqId, Finish reason, const Usage& used, const std::string& message) override {
    mix(static_cast<uint64_t>(reason));
    done = true;
    error = message;
    usage = used;
  }
  uint64_t hash = 1;
  int n_tokens = 0;
  std::vector<Token> answer;
  bool done = false;
  std::string error;
  Usage usage;

 private:
  void mix(uint64_t v) { hash = mix64(hash ^ v); }
};

struct Conditions {
  std::string isa = cpu_isas().back();
  int threads = 1, nodes = 1, max_seqs = 1, max_chunk = 512, step_tokens = 512, n_blocks = 2000;
  bool prefix_cache = false, reversed = false, twice = false;
  int n_window_blocks = 0;  // 0: what the engine takes
  std::string_view codec = "f16";
  int max_draft = 0, max_side = 5;  // tokens guessed ahead, from `answers`, in every way (engine/test_proposer.h)
  const std::vector<std::vector<Token>>* answers = nullptr;
  std::string proposer = {};  // in its place, by name, with this model for the one that needs a model
  TinyDraft draft = {};
  const TokenBridge* bridge = nullptr;
  bool adapts = false;
  Token preferred = -1;  // by some requests; -1: none
  bool learned = false;  // of three requests one stands behind 5 virtual tokens and one behind 40
  int loaded_for = 0;    // positions, 0: all that the model has; a window of as many or more has no blocks of its own

  std::string text() const {
    return isa + " threads " + std::to_string(threads) + " nodes " + std::to_string(nodes) + " seqs " +
           std::to_string(max_seqs) + " chunk " + std::to_string(max_chunk) + " step " + std::to_string(step_tokens) +
           " blocks " + std::to_string(n_blocks) + (prefix_cache ? " cached" : "") + (reversed ? " reversed" : "") +
           (twice ? " twice" : "") + (max_draft > 0 ? " drafts of " + std::to_string(max_draft) + " " + proposer : "") +
           (adapts ? " adapting" : "");
  }
};

constexpr int kRequests = 32;

// Lengths on both sides of block and chunk edges; every fourth shares a long prefix with the one before.
Request request(int i) {
  const int lengths[] = {1, 2, 15, 16, 17, 33, 64, 100, 255, 256, 257, 300};
  Rng rng(static_cast<uint64_t>(i));
  Rng shared(static_cast<uint64_t>(i / 4 + 1000));
  Request out;
  const int n = lengths[i % 12];
  for (int t = 0; t < n; ++t) {
    out.prompt.push_back(static_cast<Token>((i % 4 != 0 && t < n - n / 4 ? shared : rng).between(0, 104)));
  }
  out.max_tokens = 3 + i % 9 * 7;
  out.sampling.temperature = i % 3 == 0 ? 0.0F : 0.9F;
  out.sampling.top_k = i % 5 == 0 ? 20 : 0;
  out.sampling.top_p = i % 5 == 1 ? 0.9F : 1.0F;
  out.sampling.seed = static_cast<uint64_t>(i) * 77;
  out.sampling.n_logprobs = 3;
  if (i % 4 == 2) {
    out.sampling.repetition_penalty = 1.2F;
    out.sampling.frequency_penalty = 0.2F;
    out.sampling.dry_multiplier = 0.8F;
  }
  out.sampling.mirostat = i % 7 == 3 ? 1 + i % 2 : 0;
  out.sampling.xtc_probability = i % 6 == 1 ? 0.5F : 0.0F;
  out.sampling.typical_p = i % 8 == 5 ? 0.8F : 1.0F;
  out.sampling.dynatemp_range = i % 9 == 2 ? 0.4F : 0.0F;
  out.sampling.n_prompt_logprobs = i % 9 == 4 ? 2 : -1;
  if (i % 7 == 1) out.sampling.logit_bias = {{static_cast<Token>(i % 90), 4.0F, 1.0F}};
  return out;
}

struct Outcome {
  std::vector<uint64_t> hashes;
  std::vector<std::vector<Token>> answers;
  EngineStats stats;
  int64_t n_beside = 0;  // of the guesses from `answers` those that came true beside the draft proper
};

// Whether it puts several tokens in the first place.
bool guesses_trees(std::string_view proposer) {
  return proposer == "medusa" || proposer == "eagle" || proposer == "mtp";
}

Outcome run(const TinyModel& tiny, const Conditions& s) {
  const CpuOptions cpu{.n_threads = s.threads, .isa = s.isa, .pin = false, .n_nodes = s.nodes};
  const auto ops = make_cpu_ops(cpu);
  const auto model = tiny.load(**ops, s.codec, s.loaded_for);
  SystemClock clock;
  EngineOptions options;
  options.recompute_share = 1;  // all come in, and some have to go
  options.max_seqs = s.max_seqs;
  options.max_chunk = s.max_chunk;
  options.step_tokens = s.step_tokens;
  options.prefix_cache = s.prefix_cache;
  options.n_ctx = 400;
  const KvLayout& layout = (*model)->info().kv_layout;
  options.kv_bytes = room_for(layout, s.n_blocks, std::min({s.max_chunk, s.step_tokens, options.n_ctx}));
  options.n_window_blocks = s.n_window_blocks;
  if (s.n_window_blocks > 0) {
    options.kv_bytes = s.n_blocks * 16 * layout.token_bytes(0) + s.n_window_blocks * 16 * layout.token_bytes(1);
  }
  EngineEnv env;
  env.clock = &clock;
  std::vector<SeqId> ids(kRequests);
  options.max_draft = s.max_draft;
  options.max_side = s.max_side;
  options.proposer = s.proposer;
  options.adapt_draft = s.adapts;
  options.exit_layers = s.proposer == "exit" ? 1 : 0;
  std::unique_ptr<Model> draft;
  if (s.draft.tiny != nullptr) draft = s.draft.load(**ops);
  if (s.proposer == "mtp") draft = tiny_mtp(tiny, **model, **ops, s.loaded_for);
  env.draft = draft.get();
  env.bridge = s.bridge;
  MedusaHeads heads;
  if (s.proposer == "medusa") {
    heads = tiny_heads((*model)->info(), tiny.file().find("output.weight"), **ops);
    env.medusa = &heads;
  }
  std::optional<TinyEagle> eagle;
  if (s.proposer == "eagle") {
    eagle.emplace((*model)->info(), **ops);
    env.eagle = &eagle->head;
  }
  std::shared_ptr<ScriptedProposer> scripted;
  if (s.max_draft > 0 && s.proposer.empty()) {
    const auto answer_of = [&](SeqId id) -> std::span<const Token> {
      const auto at = std::find(ids.begin(), ids.end(), id);
      return (*s.answers)[static_cast<size_t>(at - ids.begin())];
    };
    scripted = std::make_shared<ScriptedProposer>(s.max_draft, (*model)->info().n_vocab, 3, answer_of);
    env.proposer = scripted;
  }
  if (s.learned) env.prefixes = {random_prefix(**model, 1, 5), random_prefix(**model, 2, 40)};
  const auto engine = make_engine(**model, **ops, options, env);
  EXPECT_TRUE(engine) << engine.error().message;
  Outcome out;
  for (int round = 0; round < (s.twice ? 2 : 1); ++round) {  // the second time everything is in the tree
    std::vector<std::shared_ptr<HashSink>> sinks(kRequests);
    for (int k = 0; k < kRequests; ++k) {
      const auto i = static_cast<size_t>(s.reversed ? kRequests - 1 - k : k);
      sinks[i] = std::make_shared<HashSink>();
      Request wanted = request(static_cast<int>(i));
      if (s.learned) wanted.prefix = i % 3;
      if (s.preferred >= 0 && i % 4 == 1) wanted.sampling.logit_bias = {{s.preferred, 4.0F, 1.0F}};
      const auto id = (*engine)->submit(std::move(wanted), sinks[i]);
      EXPECT_TRUE(id) << id.error().message;
      ids[i] = *id;
    }
    while ((*engine)->step()) EXPECT_EQ((*engine)->snapshot().check(), "");
    out.hashes.clear();
    out.answers.clear();
    for (const auto& sink : sinks) {
      EXPECT_TRUE(sink->done);
      EXPECT_EQ(sink->error, "");
      EXPECT_GT(sink->n_tokens, 0);
      out.hashes.push_back(sink->hash);
      out.answers.push_back(sink->answer);
    }
  }
  out.stats = (*engine)->stats();
  out.n_beside = scripted == nullptr ? 0 : scripted->n_beside;
  return out;
}

void expect_same(const TinyModel& tiny, const std::vector<uint64_t>& truth, const Conditions& s) {
  SCOPED_TRACE(s.text());
  const Outcome got = run(tiny, s);
  for (size_t i = 0; i < truth.size(); ++i) EXPECT_EQ(got.hashes[i], truth[i]) << "request " << i;
}

class Invariance : public testing::TestWithParam<std::string> {};

// Long blocks need long rows; one layer of those costs what two short ones do.
TinyShape shape_for(std::string_view format) {
  const int block = find_weight_format(format)->block;
  return block <= 32 ? TinyShape{} : TinyShape{.n_layers = 1, .n_embd = block, .n_ff = block};
}

std::vector<std::string> format_names() {
  if (kSanitized) return {"f32", "q8_0", "q4_k"};  // memory errors of all formats are found in the op corpus
  std::vector<std::string> out;
  for (const WeightFormat* format : weight_formats()) out.emplace_back(format->name);
  return out;
}

TEST_P(Invariance, BatchChunkThreadsOrder) {
  const TinyModel tiny(shape_for(GetParam()), GetParam(), 5);
  const std::vector<uint64_t> truth = run(tiny, Conditions{}).hashes;
  for (int max_seqs : {2, 7, 32}) expect_same(tiny, truth, Conditions{.max_seqs = max_seqs});
  for (int max_chunk : {1, 5, 16, 100}) expect_same(tiny, truth, Conditions{.max_seqs = 8, .max_chunk = max_chunk});
  for (int step_tokens : {33, 70}) expect_same(tiny, truth, Conditions{.max_seqs = 32, .step_tokens = step_tokens});
  for (int threads : {2, 3, 4}) expect_same(tiny, truth, Conditions{.threads = threads, .max_seqs = 8});
  for (int nodes : {2, 4}) expect_same(tiny, truth, Conditions{.threads = 4, .nodes = nodes, .max_seqs = 8});
  expect_same(tiny, truth, Conditions{.threads = 2, .max_seqs = 16, .max_chunk = 40, .reversed = true});
}

TEST_P(Invariance, PrefixCacheAndPreemption) {
  const TinyModel tiny(shape_for(GetParam()), GetParam(), 6);
  const std::vector<uint64_t> truth = run(tiny, Conditions{}).hashes;
  for (bool reversed : {false, true}) {
    for (int max_seqs : {1, 8, 32}) {
      const Conditions s{.max_seqs = max_seqs, .prefix_cache = true, .reversed = reversed, .twice = true};
      SCOPED_TRACE(s.text());
      const Outcome got = run(tiny, s);
      EXPECT_EQ(got.hashes, truth);
      EXPECT_GT(got.stats.n_cached_tokens, 1000) << "the test would prove nothing without hits";
    }
  }
  for (int n_blocks : {26, 40}) {
    const Conditions s{.max_seqs = 32, .max_chunk = 64, .n_blocks = n_blocks, .prefix_cache = true, .twice = true};
    SCOPED_TRACE(s.text());
    const Outcome got = run(tiny, s);
    EXPECT_EQ(got.hashes, truth);
    EXPECT_GT(got.stats.n_preempted, 0) << "the test would prove nothing without preemption";
  }
}

TEST_P(Invariance, InstructionSets) {
  const TinyModel tiny(shape_for(GetParam()), GetParam(), 7);
  const std::vector<uint64_t> truth = run(tiny, Conditions{}).hashes;
  for (const std::string& isa : cpu_isas())
    expect_same(tiny, truth, Conditions{.isa = isa, .threads = 2, .max_seqs = 9});
}

INSTANTIATE_TEST_SUITE_P(Formats,
                         Invariance,
                         testing::ValuesIn(format_names()),
                         [](const testing::TestParamInfo<std::string>& each) { return each.param; });

class InvarianceCodec : public testing::TestWithParam<const KvCodec*> {};

// What is read back from the cache is the same whoever wrote it: a chunk, a step, another sequence.
TEST_P(InvarianceCodec, BatchChunkThreadsCacheAndInstructionSets) {
  const TinyModel tiny(TinyShape{}, "q8_0", 9);
  const std::string_view codec = GetParam()->name;
  const std::vector<uint64_t> truth = run(tiny, Conditions{.codec = codec}).hashes;
  for (const int max_chunk : {1, 5, 100}) {
    expect_same(tiny, truth, Conditions{.max_seqs = 8, .max_chunk = max_chunk, .codec = codec});
  }
  for (const std::string& isa : cpu_isas()) {
    expect_same(tiny, truth, Conditions{.isa = isa, .threads = 3, .max_seqs = 9, .reversed = true, .codec = codec});
  }
  for (const int n_blocks : {26, 2000}) {
    const Conditions s{
        .max_seqs = 32, .max_chunk = 64, .n_blocks = n_blocks, .prefix_cache = true, .twice = true, .codec = codec};
    SCOPED_TRACE(s.text());
    const Outcome got = run(tiny, s);
    EXPECT_EQ(got.hashes, truth);
    if (n_blocks < 2000) {
      EXPECT_GT(got.stats.n_preempted, 0) << "the test would prove nothing without preemption";
    } else {
      EXPECT_GT(got.stats.n_cached_tokens, 1000) << "the test would prove nothing without hits";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, InvarianceCodec, testing::ValuesIn(tried_codecs()), [](const auto& each) {
  return std::string(each.param->name);
});

// What is guessed ahead, right or wrong, changes no bit: over everything that changes none without it.
TEST_P(InvarianceCodec, GuessesAheadChangeNoBit) {
  const TinyModel tiny(TinyShape{}, "q8_0", 9);
  Conditions plain;
  plain.codec = GetParam()->name;
  const Outcome truth = run(tiny, plain);
  int64_t n_beside = 0;
  const auto drafted = [&](Conditions s) {
    s.codec = plain.codec;
    s.answers = &truth.answers;
    SCOPED_TRACE(s.text());
    const Outcome got = run(tiny, s);
    EXPECT_EQ(got.hashes, truth.hashes);
    EXPECT_GT(got.stats.spent.n_accepted, 50);
    n_beside += got.n_beside;
    EXPECT_GT(got.stats.spent.computed[static_cast<size_t>(Cause::draft)], got.stats.spent.n_accepted);
    return got.stats;
  };
  drafted({.max_draft = 4, .max_side = 0});
  EXPECT_EQ(n_beside, 0);
  drafted({.max_draft = 4});
  drafted({.threads = 2, .max_seqs = 7, .max_draft = 1});
  drafted({.max_seqs = 8, .max_chunk = 5, .max_draft = 8});
  drafted({.max_seqs = 32, .step_tokens = 70, .reversed = true, .max_draft = 15});
  EXPECT_GT(drafted({.max_seqs = 8, .prefix_cache = true, .twice = true, .max_draft = 6}).n_cached_tokens, 1000);
  const EngineStats tight =
      drafted({.max_seqs = 32, .max_chunk = 64, .n_blocks = 26, .prefix_cache = true, .twice = true, .max_draft = 6});
  EXPECT_GT(tight.n_preempted, 0);
  EXPECT_GT(n_beside, 40) << "the test would prove nothing without branches that come true";
}

// Those that guess by themselves, under everything that changes no bit without them: what they guess comes of what the
// sequences have, so it is another thing in every run.
TEST_P(InvarianceCodec, ProposersChangeNoBit) {
  struct Who {
    std::string name;
    TinyDraft draft = {};
    const TokenBridge* bridge = nullptr;
  };
  const TinyModel tiny(TinyShape{}, "q8_0", 9), alike(TinyShape{}, "q4_0", 9), other(TinyShape{}, "q8_0", 10);
  const TinyBridge other_tokens;
  std::vector<Token> some(70);
  std::iota(some.begin(), some.end(), 20);
  Conditions plain;
  plain.codec = GetParam()->name;
  const Outcome truth = run(tiny, plain);
  const auto drafted = [&](Conditions s, const Who& who) {
    s.codec = plain.codec;
    s.proposer = who.name;
    s.draft = who.draft;
    s.bridge = who.bridge;
    SCOPED_TRACE(s.text() + (who.draft.tiny == &other ? " of another model" : "") +
                 (who.bridge != nullptr ? " over a bridge" : "") + (who.draft.writes.empty() ? "" : " of some tokens"));
    const Outcome got = run(tiny, s);
    EXPECT_EQ(got.hashes, truth.hashes);
    EXPECT_EQ(got.stats.n_bad_drafts, 0);
    if (s.adapts) return got.stats;  // how much it guesses depends on the clock
    EXPECT_GT(got.stats.spent.computed[static_cast<size_t>(Cause::draft)], 0);
    EXPECT_TRUE(who.draft.tiny == &other || got.stats.spent.n_accepted > 0);
    return got.stats;
  };
  for (const Who& who :
       {Who{"ngram"}, Who{"suffix"}, Who{"medusa"}, Who{"eagle"}, Who{"mtp"}, Who{"exit"}, Who{"draft", {&alike}},
        Who{"draft", {&other}}, Who{"draft", {&alike, 0, some}}, Who{"draft", {&alike}, other_tokens.bridge.get()}}) {
    if (kSanitized && GetParam()->name != "f16" && who.bridge == nullptr) continue;  // memory errors need one codec
    drafted({.max_draft = 4, .max_side = 0}, who);
    const EngineStats trees = drafted({.max_draft = 4}, who);
    EXPECT_EQ(trees.n_drafted_at[0] > trees.n_drafts, guesses_trees(who.name)) << "others in the first place";
    drafted({.threads = 2, .max_seqs = 8, .max_chunk = 5, .max_draft = 7}, who);
    drafted({.max_seqs = 32, .step_tokens = 70, .reversed = true, .max_draft = 15}, who);
    const EngineStats hits = drafted({.max_seqs = 8, .prefix_cache = true, .twice = true, .max_draft = 6}, who);
    EXPECT_GT(hits.n_cached_tokens, 1000);
    Conditions tight{.max_seqs = 32, .max_chunk = 64, .n_blocks = 26, .prefix_cache = true, .twice = true};
    tight.max_draft = 6;
    EXPECT_GT(drafted(tight, who).n_preempted, 0);
    drafted({.max_seqs = 8, .prefix_cache = true, .twice = true, .max_draft = 8, .adapts = true}, who);
  }
}

// One that lacks some of the target's tokens, of which requests prefer one.
TEST(InvarianceDrafts, ADraftWithFewerTokensGoesByIds) {
  const TinyModel tiny(TinyShape{}, "q8_0", 9);
  const FewerTokens by_id;
  constexpr Token kItLacks = FewerTokens::kFewer + 8;
  const Outcome truth = run(tiny, {.preferred = kItLacks});
  Conditions drafts{.max_seqs = 8, .max_draft = 5, .proposer = "draft", .preferred = kItLacks};
  drafts.draft = {&tiny, FewerTokens::kFewer};
  drafts.bridge = by_id.bridge.get();
  const Outcome got = run(tiny, drafts);
  EXPECT_EQ(got.hashes, truth.hashes);
  EXPECT_EQ(got.stats.n_bad_drafts, 0);
  EXPECT_GT(got.stats.spent.n_accepted * 10, got.stats.spent.computed[static_cast<size_t>(Cause::draft)]);
}

// A draft that is the target is right wherever its rules are: it knows the draws.
TEST(InvarianceDrafts, AModelThatDraftsForItselfIsRight) {
  const TinyModel tiny(TinyShape{}, "q8_0", 9);
  const Outcome truth = run(tiny, {});
  const Outcome got = run(tiny, {.max_seqs = 8, .max_draft = 5, .proposer = "draft", .draft = {&tiny}});
  EXPECT_EQ(got.hashes, truth.hashes);
  const Cost& spent = got.stats.spent;
  EXPECT_GT(spent.n_accepted * 100, spent.computed[static_cast<size_t>(Cause::draft)] * 60)
      << "but for penalties, which it does not follow";
  EXPECT_LT(got.stats.n_steps * 2, truth.stats.n_steps);
}

// What was learned stands before a text, in whole blocks and in a part of one: found, copied, preempted, cut anywhere.
TEST_P(InvarianceCodec, LearnedPrefixes) {
  const TinyModel tiny(TinyShape{}, "q8_0", 9);
  Conditions plain;
  plain.codec = GetParam()->name;
  const std::vector<uint64_t> bare = run(tiny, plain).hashes;
  plain.learned = true;
  const std::vector<uint64_t> truth = run(tiny, plain).hashes;
  for (size_t i = 0; i < truth.size(); ++i) EXPECT_EQ(truth[i] == bare[i], i % 3 == 0) << "request " << i;
  const auto same = [&](Conditions s) {
    s.codec = plain.codec;
    s.learned = true;
    SCOPED_TRACE(s.text());
    const Outcome got = run(tiny, s);
    EXPECT_EQ(got.hashes, truth);
    return got.stats;
  };
  same({.max_seqs = 8, .max_chunk = 5});
  same({.threads = 2, .max_seqs = 32, .step_tokens = 33, .reversed = true});
  const TinyModel alike(TinyShape{}, "q4_0", 9);
  for (const TinyModel* draft : {static_cast<const TinyModel*>(nullptr), &alike}) {
    const EngineStats drafted = same({.max_seqs = 8,
                                      .prefix_cache = true,
                                      .twice = true,
                                      .max_draft = 5,
                                      .proposer = draft == nullptr ? "ngram" : "draft",
                                      .draft = {draft}});
    EXPECT_GT(drafted.spent.n_accepted, 0);
  }
  for (const char* proposer : {"exit", "eagle", "mtp"}) {
    const auto drafted =
        same({.max_seqs = 8, .prefix_cache = true, .twice = true, .max_draft = 5, .proposer = proposer});
    EXPECT_GT(drafted.spent.computed[static_cast<size_t>(Cause::draft)], 0) << proposer;
    EXPECT_EQ(drafted.n_bad_drafts, 0) << proposer;
  }
  EXPECT_GT(same({.max_seqs = 32, .prefix_cache = true, .twice = true}).n_cached_tokens, 1000);
  EXPECT_GT(same({.max_seqs = 32, .max_chunk = 64, .n_blocks = 26, .prefix_cache = true, .twice = true}).n_preempted,
            0);
}

// Layers that see a window, all or every other: the bits are those of a run in which every layer keeps every key.
TEST(InvarianceWindow, GivenBackBlocksChangeNoBit) {
  constexpr int kWindow = 50;
  for (const int period : {1, 2}) {
    SCOPED_TRACE("period " + std::to_string(period));
    const TinyModel tiny(TinyShape{.window = kWindow, .window_period = period}, "q8_0", 8);
    const std::vector<uint64_t> truth = run(tiny, Conditions{.loaded_for = kWindow}).hashes;
    EXPECT_NE(truth, run(TinyModel(TinyShape{}, "q8_0", 8), Conditions{}).hashes) << "nobody looked beyond the window";
    expect_same(tiny, truth, Conditions{});
    expect_same(tiny, truth, Conditions{.max_seqs = 8, .max_chunk = 5});
    const std::vector<std::vector<Token>> answers = run(tiny, Conditions{.loaded_for = kWindow}).answers;
    expect_same(tiny, truth,
                Conditions{.max_seqs = 8,
                           .max_chunk = 20,
                           .n_blocks = 60,
                           .prefix_cache = true,
                           .n_window_blocks = 14,
                           .max_draft = 7,
                           .answers = &answers});
    for (const char* proposer : {"exit", "eagle", "mtp"}) {
      Conditions s{.max_chunk = 20, .n_blocks = 60, .prefix_cache = true, .n_window_blocks = 14, .max_draft = 7};
      s.max_seqs = 8;
      s.proposer = proposer;
      expect_same(tiny, truth, s);
    }
    for (const int n_window_blocks : {8, 14, 60}) {  // 8: what 49 and 64 tokens touch at most
      const Conditions s{.max_seqs = 32,
                         .max_chunk = 64,
                         .n_blocks = 60,
                         .prefix_cache = true,
                         .twice = true,
                         .n_window_blocks = n_window_blocks};
      SCOPED_TRACE(s.text() + " windows " + std::to_string(n_window_blocks));
      const Outcome got = run(tiny, s);
      EXPECT_EQ(got.hashes, truth);
      EXPECT_GT(got.stats.n_cached_tokens, 0);
      EXPECT_GT(got.stats.n_window_blocks, 0);
    }
  }
}

// The hash sees what it should: another seed, another model, another token change it.
TEST(InvarianceHash, TellsRequestsApart) {
  const TinyModel tiny(TinyShape{}, "q8_0", 5), other(TinyShape{}, "q8_0", 6);
  const std::vector<uint64_t> a = run(tiny, Conditions{}).hashes, b = run(other, Conditions{}).hashes;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]);
}

}  // namespace
}  // namespace quire
