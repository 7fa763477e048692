// Same request, same bits on the emulated device where things come together: models, caches, who guesses ahead, windows
// and shifted contexts, prefixes, tiers, few blocks, and requests of every kind beside each other, drawn by a seed,
// with steps that overlap and without, as graphs and kernel by kernel. The truth is the CPU's, where nobody runs
// beside, every bit of it. 600 seeds with QUIRE_TEST_ALL.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "backend/cpu/cpu_ops.h"
#include "backend/cuda/backend.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/cuda/replays.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "engine/engine.h"
#include "io/test_folder.h"
#include "sample/constraint.h"
#include "tests/support/codecs.h"
#include "tests/support/golden_models.h"
#include "tests/support/heard_sink.h"
#include "tests/support/random_prefix.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_draft.h"
#include "tests/support/tiny_eagle.h"
#include "tests/support/tiny_medusa.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_mtp.h"
#include "text/grammar/regex_grammar.h"

namespace quire {
namespace {

constexpr int kRequests = 9, kVocab = 64, kCtx = 96;

int n_seeds() {
  if (kSanitized) return 4;
  return std::getenv("QUIRE_TEST_ALL") != nullptr ? 600 : 36;
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}
  int below(int n) { return static_cast<int>(rng_.between(0, n - 1)); }
  bool one_in(int n) { return below(n) == 0; }
  template <size_t kN>
  const char* of(const char* const (&all)[kN]) {
    return all[static_cast<size_t>(below(static_cast<int>(kN)))];
  }

 private:
  Rng rng_;
};

// What a seed draws of a server. Some of it not together: models of the golden folder have no heads for their guesses,
// and only contexts that stay where they are have windows or learned prefixes.
struct Server {
  explicit Server(int number) : seed(number) {
    Draw draw(static_cast<uint64_t>(number) + 77);
    codec = draw.of({"f16", "f16", "bf16", "q8", "q4", "k8v4", "f8", "f32", "kivi2"});
    weights = draw.of({"q8_0", "q8_0", "q4_0", "q5_1", "f16"});
    if (draw.one_in(5)) golden = draw.of({"lfm2", "mamba2", "gemma2"});
    if (!golden.empty()) weights = "q8_0";
    if (golden.empty() && draw.one_in(4)) shape.window = 24, shape.window_period = 2;
    if (draw.one_in(6)) shape.n_experts = 4, shape.n_experts_used = 2;
    if (golden.empty() && shape.window == 0 && draw.one_in(5)) shift = {.n_sinks = 4, .window = 40};
    const bool is_plain = golden.empty() && !shift.is_on();
    proposer = number % 8 > 4 ? ""
               : is_plain     ? draw.of({"", "ngram", "suffix", "exit", "draft", "medusa", "eagle", "mtp"})
                              : draw.of({"", "ngram", "suffix"});
    if (shape.n_experts > 0 && proposer == "mtp") proposer = "ngram";  // its layer is a dense one
    learns = is_plain && draw.one_in(3);
    adapts = golden.empty() && draw.one_in(2);
    overlaps = number % 2 == 1;
    draws_plainly = number % 4 == 1 || number % 8 == 7;
    as_graphs = number / 2 % 2 == 1;
    has_disk = golden.empty() && draw.one_in(4);
    options.prefix_cache = has_disk || !draw.one_in(4);
    options.overlap = overlaps && proposer.empty();
    options.proposer = proposer;
    options.max_draft = proposer.empty() ? 0 : 1 + draw.below(5);
    options.max_side = proposer.empty() ? 0 : draw.below(4);
    options.exit_layers = proposer == "exit" ? 1 : 0;
    options.recompute_share = 1;
    options.max_seqs = 2 + draw.below(5);
    options.step_tokens = 12 + draw.below(40);
    options.max_chunk = 4 + draw.below(30);
    options.n_ctx = kCtx;
    options.policy = draw.of({"fcfs", "priority", "vtc", "prefix"});
    if (draw.one_in(3)) options.swap_bytes = 0;
    n_blocks = 9 + draw.below(14);
  }
  Result<std::unique_ptr<Model>> load(Ops& ops) const {
    LoadOptions loaded;
    loaded.k_codec = loaded.v_codec = find_kv_codec(codec);
    loaded.shift = shift;
    if (golden.empty()) return load_model(tiny().file(), ops, loaded);
    loaded.weights = find_weight_format(weights);
    QR_TRY(const ModelFile file, open_model(golden_path(golden)));
    return load_model(file, ops, loaded);
  }
  TinyModel tiny() const { return TinyModel(shape, weights, 3); }
  std::string text() const {
    return "seed " + std::to_string(seed) + " " + golden + " " + codec + " " + weights + " " + proposer +
           (shape.window > 0 ? " window" : "") + (shift.is_on() ? " shift" : "") + (overlaps ? " overlapping" : "") +
           (as_graphs ? " as graphs" : "") + (learns ? " prefixes" : "") + (has_disk ? " disk" : "") + " blocks " +
           std::to_string(n_blocks);
  }

  int seed;
  std::string golden, codec, weights, proposer;
  TinyShape shape{
      .n_layers = 2, .n_embd = 32, .n_ff = 32, .n_heads = 2, .n_kv_heads = 1, .n_vocab = kVocab, .n_ctx = 128};
  ContextShift shift;
  bool learns, adapts, overlaps, as_graphs, has_disk;
  bool draws_plainly;  // as steps that overlap can
  EngineOptions options;
  int n_blocks;
};

std::shared_ptr<const Constraint> constraint() {
  static const auto kOne = [] {
    std::vector<std::string> texts = {"</s>", "a", "b", "c", "ab", "ba", "1", "2", "12", "21"};
    texts.resize(kVocab);
    auto vocabulary = std::make_shared<const TokenTrie>(std::move(texts), std::vector<Token>{0}, size_t{kVocab});
    auto grammar = compile_regex("(ab|c){2,9}(1|2)*", {});
    return std::make_shared<const Constraint>(Constraint{"", "regex", *grammar, std::move(vocabulary)});
  }();
  return kOne;
}

void draw_sampling(Draw& draw, bool is_plain, SamplingParams& to) {
  to.temperature = draw.one_in(2) ? 0.0F : 0.9F;
  to.seed = static_cast<uint64_t>(draw.below(1000));
  to.n_logprobs = draw.below(4) - 1;
  if (is_plain) return;
  if (draw.one_in(6)) to.n_prompt_logprobs = draw.below(3);
  if (draw.one_in(4)) to.top_k = 12;
  if (draw.one_in(4)) to.top_p = 0.9F;
  if (draw.one_in(5)) to.xtc_probability = 0.5F;
  if (draw.one_in(5)) to.typical_p = 0.8F;
  if (draw.one_in(7)) to.mirostat = 1 + draw.below(2);
  if (draw.one_in(4)) to.repetition_penalty = 1.2F, to.frequency_penalty = 0.2F, to.dry_multiplier = 0.8F;
  if (draw.one_in(5)) to.logit_bias = {{static_cast<Token>(draw.below(kVocab)), 4.0F, 1.0F}};
  if (draw.one_in(8)) to.bad_words = {std::vector<Token>{3}, std::vector<Token>{5, 6}};
  if (draw.one_in(8)) to.min_tokens = 3;
  if (draw.one_in(6)) to.drawn_logprobs = true;
}

// Of a server's request: what it asks for, and which adapter it has; 0: none.
struct Wanted {
  Request request;
  uint64_t adapter = 0;
};
Wanted wanted(const Server& server, int i, std::span<const uint64_t> prefixes) {
  Draw draw(static_cast<uint64_t>(server.seed * 100 + i));
  Wanted out;
  Request& r = out.request;
  for (int t = draw.below(3) * 17; t > 0; --t) r.prompt.push_back(static_cast<Token>(t * 7 % 60));  // shared
  for (int t = 1 + draw.below(22); t > 0; --t)
    r.prompt.push_back(static_cast<Token>(draw.one_in(2) ? 1 + t % 3 : draw.below(kVocab)));
  r.max_tokens = 1 + draw.below(14);
  draw_sampling(draw, server.draws_plainly, r.sampling);
  if (draw.one_in(3)) r.stop_ids = {static_cast<Token>(draw.below(kVocab)), static_cast<Token>(draw.below(kVocab))};
  const bool may_be_bound = server.golden.empty() && !server.draws_plainly;
  if (may_be_bound && draw.one_in(5)) r.sampling.constraint = constraint(), r.stop_ids = {0};
  r.cache_salt = draw.one_in(4) ? 5 : 0;
  r.n_public = draw.one_in(2) ? static_cast<int>(r.prompt.size()) / 2 : 0;
  r.match_prefix = !draw.one_in(6);
  r.tenant = static_cast<uint64_t>(draw.below(3));
  r.priority = draw.below(3);
  r.tells_progress = false;
  if (draw.one_in(6)) r.max_draft = draw.below(3);
  if (draw.one_in(6)) r.retention = {{.begin = 0, .end = 32, .priority = 80}};
  if (draw.one_in(7) && r.sampling.constraint == nullptr) {
    constexpr Pool kPools[] = {Pool::last, Pool::mean, Pool::all};
    r.pool = kPools[draw.below(3)];
    r.max_tokens = 1;
  }
  if (!prefixes.empty() && draw.one_in(2)) {
    r.prefix = prefixes[static_cast<size_t>(draw.below(static_cast<int>(prefixes.size())))];
  } else if (server.adapts && draw.one_in(3)) {
    out.adapter = static_cast<uint64_t>(draw.below(2)) + 1;
  }
  return out;
}

// An engine, with all that stands beside its model.
class Running {
 public:
  Running(const Server& server, std::unique_ptr<Ops> ops) : server_(server), ops_(std::move(ops)) {
    auto model = server.load(*ops_);
    QR_CHECK(model, model.error().message);
    model_ = std::move(*model);
    env_.clock = &clock_;
    if (server.learns) env_.prefixes = {random_prefix(*model_, 1, 5), random_prefix(*model_, 2, 20)};
    for (const VirtualTokens& prefix : env_.prefixes) prefixes_.push_back(prefix.content);
  }
  // Everybody alone.
  void begin_alone() {
    EngineOptions options;
    options.n_ctx = kCtx;
    options.max_seqs = 1;
    options.prefix_cache = false;
    begin(options);
  }
  void begin_together() {
    EngineOptions options = server_.options;
    options.kv_bytes = room_for(model_->info().kv_layout, server_.n_blocks, options.step_tokens);
    if (server_.has_disk) options.kv_disk = folder_.path(), options.kv_disk_bytes = 32 << 20;
    make_drafts();
    begin(options);
  }
  std::shared_ptr<HeardSink> submit(int i, SeqId* id = nullptr) {
    auto sink = std::make_shared<HeardSink>();
    Wanted of = wanted(server_, i, prefixes_);
    if (of.adapter != 0) {
      auto loading = std::async(std::launch::async, [&] { return random_adapter(*model_, *ops_, of.adapter); });
      engine_->step();
      of.request.adapter = *loading.get();
    }
    const auto got = engine_->submit(std::move(of.request), sink);
    EXPECT_TRUE(got) << got.error().message;
    if (got && id != nullptr) *id = *got;
    return sink;
  }
  void finish(std::span<const std::shared_ptr<HeardSink>> sinks) {
    for (int n = 0; !std::ranges::all_of(sinks, [](const auto& sink) { return sink->is_over(); }); ++n) {
      ASSERT_LT(n, 50'000) << "the loop does not end";
      if (!engine_->step()) std::this_thread::sleep_for(std::chrono::microseconds(100));  // for the disk
      ASSERT_EQ(engine_->snapshot().check(), "");
    }
  }
  Engine& engine() { return *engine_; }

 private:
  void begin(const EngineOptions& options) {
    auto engine = make_engine(*model_, *ops_, options, env_);
    QR_CHECK(engine, engine.error().message);
    engine_ = std::move(*engine);
  }
  void make_drafts() {
    const std::string& who = server_.proposer;
    const TinyModel tiny = server_.tiny(), alike(server_.shape, "q4_0", 3);
    if (who == "draft") draft_ = TinyDraft{&alike}.load(*ops_);
    if (who == "mtp") draft_ = tiny_mtp(tiny, *model_, *ops_, 0);
    env_.draft = draft_.get();
    if (who == "medusa") {
      heads_ = tiny_heads(model_->info(), tiny.file().find("output.weight"), *ops_);
      env_.medusa = &heads_;
    }
    if (who == "eagle") env_.eagle = &eagle_.emplace(model_->info(), *ops_).head;
  }

  const Server& server_;
  TempFolder folder_;
  SystemClock clock_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_, draft_;
  MedusaHeads heads_;
  std::optional<TinyEagle> eagle_;
  EngineEnv env_;
  std::vector<uint64_t> prefixes_;
  std::unique_ptr<Engine> engine_;
};

std::unique_ptr<Ops> device_ops(const Server& server) {
  auto runtime = cuda::make_fake_runtime({.seed = static_cast<uint64_t>(server.seed)});
  if (server.as_graphs) runtime = cuda::with_replays(std::move(runtime));
  return *cuda::CudaOps::make(std::move(runtime), cpu_sample_kernels());
}

struct Totals {
  int64_t n_ahead = 0, n_cached = 0, n_preempted = 0, n_accepted = 0, n_cancelled = 0;
};

void run(const Server& server, Totals& totals) {
  std::vector<std::shared_ptr<HeardSink>> truth, sinks;
  Running alone(server, *make_cpu_ops(CpuOptions{.n_threads = 1, .isa = {}, .pin = false}));
  alone.begin_alone();
  for (int i = 0; i < kRequests; ++i) {
    truth.push_back(alone.submit(i));
    alone.finish(truth);
    ASSERT_EQ(truth.back()->error, "") << "request " << i;
  }
  Running together(server, device_ops(server));
  together.begin_together();
  Draw draw(static_cast<uint64_t>(server.seed) + 9000);
  for (int i = 0; i < kRequests; ++i) {
    SeqId id = 0;
    sinks.push_back(together.submit(i, &id));
    for (int steps = draw.below(4); steps > 0; --steps) together.engine().step();
    if (draw.one_in(12)) together.engine().cancel(id);
  }
  together.finish(sinks);
  for (size_t i = 0; i < sinks.size(); ++i) {
    const HeardSink &got = *sinks[i], &all = *truth[i];
    ASSERT_EQ(got.error, "") << "request " << i;
    ASSERT_EQ(got.n_ends, 1);
    const bool is_cut = got.finish == Finish::cancelled;
    ASSERT_TRUE(is_cut || got.finish == all.finish) << "request " << i;
    ASSERT_TRUE(is_cut ? got.heard.size() <= all.heard.size() : got.heard.size() == all.heard.size())
        << "request " << i;
    ASSERT_TRUE(std::equal(got.heard.begin(), got.heard.end(), all.heard.begin())) << "request " << i;
  }
  const EngineStats stats = together.engine().stats();
  totals.n_ahead += stats.n_steps_ahead;
  totals.n_cached += stats.n_cached_tokens;
  totals.n_preempted += stats.n_preempted;
  totals.n_accepted += stats.spent.n_accepted;
  totals.n_cancelled += stats.n_cancelled;
}

TEST(CudaRequests, HaveTheirBitsWhateverComesTogether) {
  Totals totals;
  int first = 0, end = n_seeds();
  if (const char* asked = std::getenv("QUIRE_CUDA_SEEDS"); asked != nullptr) {
    ASSERT_EQ(std::sscanf(asked, "%d-%d", &first, &end), 2) << "QUIRE_CUDA_SEEDS must be FIRST-END, is " << asked;
  }
  for (int seed = first; seed < end; ++seed) {
    const Server server(seed);
    SCOPED_TRACE(server.text());
    run(server, totals);
    ASSERT_FALSE(HasFailure());
  }
  if (end - first >= 30) {
    EXPECT_GT(totals.n_ahead, 30);
    EXPECT_GT(totals.n_cached, 200);
    EXPECT_GT(totals.n_preempted, 5);
    EXPECT_GT(totals.n_accepted, 5);
    EXPECT_GT(totals.n_cancelled, 2);
  }
  std::printf("steps ahead: %ld, cached tokens: %ld, preempted: %ld, guesses that came true: %ld, cancelled: %ld\n",
              static_cast<long>(totals.n_ahead), static_cast<long>(totals.n_cached),
              static_cast<long>(totals.n_preempted), static_cast<long>(totals.n_accepted),
              static_cast<long>(totals.n_cancelled));
}

}  // namespace
}  // namespace quire
