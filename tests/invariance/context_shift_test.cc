// Endless generation (docs/kv.md): one hash per request, and texts longer than all that a token sees, whoever runs
// beside it, in whatever chunks, with its past from memory, from a disk after a restart or computed, preempted, guessed
// ahead, on any number of threads. It is the bundled model, or a smaller one of the shared data.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <filesystem>
#include <thread>

#include "backend/cpu/cpu_ops.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "io/gguf_test_file.h"
#include "io/model_file.h"
#include "tests/support/codecs.h"

namespace quire {
namespace {

constexpr int kRequests = 6;
constexpr ContextShift kShift{.n_sinks = 5, .window = 40};

class HashSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    hash = mix64(mix64(hash ^ static_cast<uint64_t>(event.id)) ^ std::bit_cast<uint32_t>(event.logprob));
  }
  void on_finish(SeqId, Finish how, const Usage& told, const std::string& message) override {
    finish = how;
    usage = told;
    error = message;
    ended = true;
  }
  uint64_t hash = 1;
  Finish finish = Finish::stop;
  Usage usage;
  std::string error;
  bool ended = false;
};

// Pairs begin alike. Texts of a few tokens over and over, so that n-grams foretell some of them.
Request request(int i) {
  Request out;
  Rng rng(static_cast<uint64_t>(i / 2) + 1);
  for (int n = 0; n < 130; ++n) out.prompt.push_back(static_cast<Token>(rng.between(40, 52)));
  for (int n = 0; n < 1 + 9 * i; ++n) out.prompt.push_back(static_cast<Token>(40 + (i + n) % 7));
  out.max_tokens = 70 + i;
  out.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
  out.sampling.seed = static_cast<uint64_t>(i);
  out.sampling.n_logprobs = 0;
  out.tenant = i < 4 ? 1 : 2;  // the second takes places of the first
  return out;
}

struct Way {
  int threads = 1, chunk = 64, max_seqs = 1;
  bool cache = false;
  int n_blocks = 400;         // for windows: few make some wait or be preempted
  std::string proposer = {};  // who guesses
  std::string codec = "f16";
  std::string disk = {};  // where a tier lies
  int n_between = 3;      // steps from one request to the next
};

struct Ran {
  std::vector<uint64_t> hashes;
  int64_t n_cached = 0, n_drafted = 0, n_preempted = 0, n_disk = 0;
};

class ContextShifts : public testing::Test {
 protected:
  void SetUp() override {
    QR_REAL_MODEL_OR_SKIP(path);
    auto file = open_model(path);
    ASSERT_TRUE(file) << file.error().message;
    file_ = std::move(*file);
  }

  Ran run(const Way& how) {
    const auto ops = make_cpu_ops(CpuOptions{.n_threads = how.threads, .isa = cpu_isas().back(), .pin = false});
    LoadOptions loading;
    loading.k_codec = loading.v_codec = find_kv_codec(how.codec);
    loading.shift = kShift;
    const auto model = load_model(file_, **ops, loading);
    EXPECT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->info().kv_layout.token_bytes(0), 0) << "no layer keeps all";
    EngineOptions options;
    options.recompute_share = 1;  // all come in, and some have to go
    options.max_seqs = how.max_seqs;
    options.max_chunk = how.chunk;
    options.step_tokens = std::max(how.chunk, 2 * how.max_seqs);
    options.prefix_cache = how.cache;
    options.proposer = how.proposer;
    options.max_draft = 4;
    options.adapt_draft = false;
    options.kv_disk = how.disk;
    options.kv_bytes = int64_t{how.n_blocks} * 16 * (*model)->info().kv_layout.token_bytes();
    SystemClock clock;
    EngineEnv env;
    env.clock = &clock;
    const auto engine = make_engine(**model, **ops, options, env);
    EXPECT_TRUE(engine) << engine.error().message;
    std::vector<std::shared_ptr<HashSink>> sinks;
    for (int i = 0; i < kRequests; ++i) {
      sinks.push_back(std::make_shared<HashSink>());
      EXPECT_TRUE((*engine)->submit(request(i), sinks.back()));
      for (int step = 0; step < how.n_between; ++step) (*engine)->step();
    }
    const auto busy = [](const auto& sink) { return !sink->ended; };
    while (std::ranges::any_of(sinks, busy)) {
      if (!(*engine)->step()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for the disk
    }
    Ran out;
    for (int i = 0; i < kRequests; ++i) {
      const HashSink& sink = *sinks[static_cast<size_t>(i)];
      EXPECT_EQ(sink.error, "");
      EXPECT_EQ(sink.finish, Finish::length);
      EXPECT_EQ(sink.usage.n_generated, 70 + i);
      EXPECT_LT(sink.usage.n_cached, std::ssize(request(i).prompt));
      out.hashes.push_back(sink.hash);
      out.n_cached += sink.usage.n_cached;
    }
    const EngineStats stats = (*engine)->stats();
    out.n_drafted = stats.spent.computed[static_cast<size_t>(Cause::draft)];
    out.n_preempted = stats.n_preempted;
    out.n_disk = stats.tiers.empty() ? 0 : stats.tiers[0].n_blocks;
    return out;
  }

  ModelFile file_;
};

TEST_F(ContextShifts, OneHashPerRequest) {
  const std::vector<uint64_t> truth = run({}).hashes;
  EXPECT_EQ(run({.threads = 3, .chunk = 7, .max_seqs = 4}).hashes, truth) << "batched, in small chunks";
  const Ran cached = run({.chunk = 33, .max_seqs = 3, .cache = true});
  EXPECT_EQ(cached.hashes, truth);
  EXPECT_GE(cached.n_cached, 3 * 128 - 3 * 16) << "the second of each pair finds the sinks and the window of the first";
  for (const bool cache : {true, false}) {
    const Ran crowded = run({.chunk = 16, .max_seqs = 3, .cache = cache, .n_blocks = 40, .n_between = 9});
    EXPECT_EQ(crowded.hashes, truth) << "sent back and computed again, with or without what is cached";
    EXPECT_GT(crowded.n_preempted, 0);
  }
  const Ran drafted = run({.threads = 2, .max_seqs = 4, .cache = true, .proposer = "ngram"});
  EXPECT_EQ(drafted.hashes, truth);
  EXPECT_GT(drafted.n_drafted, 0);
}

TEST_F(ContextShifts, ARestartOnDiskChangesNoBit) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("quire_shift_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const Way how{.max_seqs = 2, .cache = true, .disk = folder};
  const Ran first = run(how);
  EXPECT_GT(first.n_disk, 0);
  EXPECT_EQ(run(how).hashes, first.hashes);
  EXPECT_EQ(run({}).hashes, first.hashes);
  std::filesystem::remove_all(folder);
}

TEST_F(ContextShifts, EveryCodecHasOneHash) {
  for (const KvCodec* codec : tried_codecs()) {
    const std::string name(codec->name);
    const std::vector<uint64_t> truth = run({.codec = name}).hashes;
    EXPECT_EQ(run({.threads = 2, .chunk = 11, .max_seqs = 6, .cache = true, .n_blocks = 14, .codec = name}).hashes,
              truth)
        << name;
  }
}

}  // namespace
}  // namespace quire
