// Adapters: the same request, the same bits, whoever else is in the batch and whatever they have added to the model, in
// whatever chunks, with its past from memory, from a disk after a restart or computed, preempted, guessed ahead, behind
// a context that shifts, on any number of threads and instruction set. Tiny random models and the adapters that were
// made for them (tests/golden).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "backend/cpu/cpu_ops.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "io/model_file.h"
#include "model/lora.h"
#include "tests/support/bits_sink.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_medusa.h"

namespace quire {
namespace {

constexpr int kRequests = 9;
constexpr int kCtx = 128;
constexpr int64_t kMostBytes = int64_t{1} << 30;

int n_before_invocation(int group) { return 3 + 9 * group; }  // within blocks of 16

// As many after each other as there are adapters, and none, begin alike, each with another. Texts of a few tokens over
// and over, so that n-grams foretell some. An invocation stands later in one group of them than in the one before.
Request request(int i, int n_kinds, const std::vector<Token>& invocation) {
  Request out;
  Rng rng(static_cast<uint64_t>(i / n_kinds) + 1);
  for (int n = 0; n < 45; ++n) out.prompt.push_back(static_cast<Token>(rng.between(3, 12)));
  for (int n = 0; n < 2 * (i / n_kinds); ++n) out.prompt.push_back(static_cast<Token>(3 + (i + n) % 7));
  out.prompt.insert(out.prompt.begin() + n_before_invocation(i / n_kinds), invocation.begin(), invocation.end());
  out.max_tokens = 34 + i;
  out.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
  out.sampling.seed = static_cast<uint64_t>(i);
  out.sampling.n_logprobs = 0;
  return out;
}

struct Way {
  std::string isa;
  int threads = 1, chunk = 512, max_seqs = 9;
  bool cache = true;
  int n_blocks = 90;  // few: some are preempted
  std::string proposer = {};
  std::string disk = {};
  ContextShift shift = {};
  std::string codec = "f16";
  bool adapted = true;
  int rounds = 1;  // the same requests again: their pasts are in the cache
};

struct Ran {
  std::vector<std::vector<uint32_t>> bits;
  int64_t n_cached = 0, n_disk = 0, n_drafted = 0, n_preempted = 0;
};

// A model and adapters for it.
struct Case {
  std::string name;  // of the model in front
  std::vector<std::string> adapters;
  std::vector<Token> invocation = {};  // of all of them
  std::string model() const { return name.substr(0, name.find('_')); }
  int n_kinds() const { return static_cast<int>(adapters.size()) + 1; }
};

class Adapters : public testing::TestWithParam<Case> {
 protected:
  Ran run(const Way& how) {
    const auto file = open_model(kGoldenModels + GetParam().model());
    EXPECT_TRUE(file) << file.error().message;
    const auto ops = make_cpu_ops(CpuOptions{.n_threads = how.threads, .isa = how.isa, .pin = false});
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec(how.codec);
    loading.weights = find_weight_format("q8_0");
    loading.shift = how.shift;
    const auto model = load_model(*file, **ops, loading);
    EXPECT_TRUE(model) << model.error().message;
    std::vector<std::shared_ptr<const Adapter>> adapters = {nullptr};
    for (const std::string& name : GetParam().adapters) {
      const auto loaded = load_lora("tests/golden/adapters/" + name, **model, **ops,
                                    BaseModel{file->path, loading.weights}, kMostBytes);
      EXPECT_TRUE(loaded) << loaded.error().message;
      adapters.push_back(*loaded);
    }
    EngineOptions options;
    options.recompute_share = 1;  // all come in, and some have to go
    options.n_ctx = kCtx;
    options.max_chunk = how.chunk;
    options.step_tokens = std::max(how.chunk, 2 * how.max_seqs);
    options.max_seqs = how.max_seqs;
    options.prefix_cache = how.cache;
    options.proposer = how.proposer;
    options.max_side = 4;  // of those that guess trees
    options.kv_disk = how.disk;
    options.n_window_blocks = how.n_blocks;  // of a model with windows: as many as of its other layers
    options.kv_bytes = int64_t{how.n_blocks} * 16 * (*model)->info().kv_layout.token_bytes();
    SystemClock clock;
    EngineEnv env;
    env.clock = &clock;
    const MedusaHeads heads = tiny_heads((*model)->info(), nullptr, **ops);
    env.medusa = &heads;
    const auto engine = make_engine(**model, **ops, options, env);
    EXPECT_TRUE(engine) << engine.error().message;
    Ran out;
    for (int round = 0; round < how.rounds; ++round) {
      const auto sinks = submit(**engine, how, round + 1 == how.rounds ? std::move(adapters) : adapters);
      const auto busy = [](const auto& sink) { return !sink->ended; };
      while (std::ranges::any_of(sinks, busy)) {
        if (!(*engine)->step()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for the disk
      }
      EXPECT_EQ((*engine)->snapshot().check(), "");
      for (const auto& sink : sinks) {
        EXPECT_EQ(sink->error, "");
        EXPECT_GT(sink->bits.size(), 2U);
        out.bits.push_back(sink->bits);
        out.n_cached += sink->usage.n_cached;
        out.n_disk += sink->usage.n_disk;
        out.n_drafted += sink->usage.cost.computed[static_cast<size_t>(Cause::draft)];
      }
    }
    out.n_preempted = (*engine)->stats().n_preempted;
    (*engine)->stop();
    return out;
  }

  // The requests hold their adapters, nobody else does.
  static std::vector<std::shared_ptr<BitsSink>> submit(Engine& engine,
                                                       const Way& how,
                                                       std::vector<std::shared_ptr<const Adapter>> adapters) {
    std::vector<std::shared_ptr<BitsSink>> out;
    for (int i = 0; i < kRequests; ++i) {
      Request wanted = request(i, GetParam().n_kinds(), GetParam().invocation);
      if (how.adapted) wanted.adapter = adapters[static_cast<size_t>(i) % adapters.size()];
      out.push_back(std::make_shared<BitsSink>());
      EXPECT_TRUE(engine.submit(std::move(wanted), out.back()));
      if (i % 2 == 1) engine.step();
    }
    return out;
  }
};

TEST_P(Adapters, SameRequestSameBits) {
  const Way alone{.isa = "scalar", .max_seqs = 1, .cache = false};
  const std::vector<std::vector<uint32_t>> truth = run(alone).bits;
  Way plain = alone;
  plain.adapted = false;
  const std::vector<std::vector<uint32_t>> without = run(plain).bits;
  for (size_t i = 0; i < truth.size(); ++i)
    EXPECT_EQ(truth[i] == without[i], i % static_cast<size_t>(GetParam().n_kinds()) == 0) << i;
  const std::string isa = cpu_isas().back();
  std::vector<std::vector<uint32_t>> twice = truth;
  twice.insert(twice.end(), truth.begin(), truth.end());
  const Ran hit = run({.isa = isa, .threads = 3, .chunk = 7, .rounds = 2});
  EXPECT_EQ(hit.bits, twice);
  EXPECT_GT(hit.n_cached, 40 * kRequests / 2);
  const Ran tight = run({.isa = isa, .threads = 2, .chunk = 33, .n_blocks = 13});
  EXPECT_EQ(tight.bits, truth);
  EXPECT_GT(tight.n_preempted, 0);
  for (const char* proposer : {"ngram", "suffix", "medusa"}) {
    const int rounds = std::string_view(proposer) == "suffix" ? 2 : 1;  // it knows answers alone, which are at random
    const Ran drafted = run({.isa = isa, .threads = 2, .chunk = 64, .proposer = proposer, .rounds = rounds});
    EXPECT_EQ(drafted.bits, rounds == 2 ? twice : truth) << proposer;
    EXPECT_GT(drafted.n_drafted, 0) << proposer;
  }
  for (const std::string& one : cpu_isas()) EXPECT_EQ(run({.isa = one, .chunk = 16}).bits, truth) << one;
}

// What one adapter computed is nobody else's: a hit is of the same adapter, in memory and on a disk, but for the whole
// blocks before an invocation, which are the model's.
TEST_P(Adapters, CachedPastsAreOfTheirAdapterAlone) {
  const std::vector<std::vector<uint32_t>> truth = run({.isa = "scalar", .max_seqs = 1, .cache = false}).bits;
  const std::string folder = testing::TempDir() + "adapters_disk_" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  const Way how{.isa = cpu_isas().back(), .max_seqs = 1, .disk = folder};
  const Ran first = run(how);
  EXPECT_EQ(first.bits, truth);
  int64_t n_alike = 0;
  for (int i = 0; i < kRequests && !GetParam().invocation.empty(); ++i) {
    if (i % GetParam().n_kinds() > 0) n_alike += n_before_invocation(i / GetParam().n_kinds()) / 16 * 16;
  }
  EXPECT_EQ(first.n_cached, n_alike) << "who begins alike has another adapter";
  const Ran again = run(how);
  EXPECT_EQ(again.bits, truth);
  EXPECT_GT(again.n_disk, 0);
  std::filesystem::remove_all(folder);
}

TEST_P(Adapters, BehindAContextThatShifts) {
  const ContextShift shift{.n_sinks = 4, .window = 24};
  const auto truth = run({.isa = "scalar", .max_seqs = 1, .cache = false, .shift = shift}).bits;
  EXPECT_EQ(run({.isa = cpu_isas().back(), .threads = 2, .chunk = 7, .shift = shift}).bits, truth);
}

TEST_P(Adapters, OverPackedCaches) {
  for (const char* codec : {"q8", "kivi2"}) {
    SCOPED_TRACE(codec);
    const auto truth = run({.isa = "scalar", .max_seqs = 1, .cache = false, .codec = codec}).bits;
    const std::string isa = cpu_isas().back();
    EXPECT_EQ(run({.isa = isa, .threads = 2, .chunk = 7, .codec = codec}).bits, truth);
    const Ran drafted = run({.isa = isa, .threads = 2, .chunk = 33, .proposer = "ngram", .codec = codec});
    EXPECT_EQ(drafted.bits, truth);
    EXPECT_GT(drafted.n_drafted, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures,
                         Adapters,
                         testing::Values(Case{"llama", {"llama_all", "llama_some", "llama_dora"}},
                                         Case{"llama_activated", {"llama_activated"}, {77, 78, 77}},
                                         Case{"phi3", {"phi3_fused"}},
                                         Case{"gptneox", {"gptneox_fused", "gptneox_dora", "gptneox_ends"}},
                                         Case{"granite", {"granite_ends", "granite_tied"}},
                                         Case{"olmoe", {"olmoe_experts"}},
                                         Case{"qwen2moe", {"qwen2moe_shared"}},
                                         Case{"mixtral", {"mixtral_router"}},
                                         Case{"qwen3moe", {"qwen3moe_attention", "qwen3moe_each"}},
                                         Case{"gpt-oss", {"gpt-oss_experts"}}),
                         [](const auto& each) {
                           std::string name = each.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace quire
