// Prompts with a budget (engine/budget.h): one hash per request, whoever runs beside it, in whatever chunks, with its
// past from memory, from a disk after a restart, from another engine's store or computed, sent back and copied or
// computed again, guessed ahead, on any number of threads and every instruction set.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "backend/cpu/cpu_ops.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/budget.h"
#include "engine/engine.h"
#include "engine/test_store_tier.h"
#include "tests/support/bits_sink.h"
#include "tests/support/codecs.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

constexpr int kRequests = 12, kBlock = 16;
constexpr int kBudgets[] = {64, 0, 112, 70, 256};

// Lengths on both sides of blocks and of budgets; each begins as the one before. Some tokens over and over, so that
// n-grams foretell some.
Request request(int i) {
  constexpr int kLengths[] = {64, 65, 80, 97, 130, 240, 256, 257, 300, 301, 335, 352};
  Request out;
  Rng rng(static_cast<uint64_t>(i / 3) + 1);
  for (int n = 0; n < kLengths[i]; ++n)
    out.prompt.push_back(static_cast<Token>(n < kLengths[i] - 7 ? rng.between(30, 60) : 40 + (i + n) % 5));
  out.max_tokens = 20 + 3 * i;
  out.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
  out.sampling.seed = static_cast<uint64_t>(i);
  out.sampling.n_logprobs = 0;
  out.kv_budget = kBudgets[i % 5];
  out.tenant = i < 8 ? 1 : 2;  // the second takes places of the first
  return out;
}

// As the field is documented.
int n_dropped(const Request& r) {
  const auto n_blocks = static_cast<int>((r.prompt.size() + kBlock - 1) / kBlock), n_most = r.kv_budget / kBlock;
  return r.kv_budget == 0 || n_blocks <= n_most ? 0 : (n_blocks - n_most) * kBlock;
}

int n_bounded() {
  int out = 0;
  for (int i = 0; i < kRequests; ++i) out += n_dropped(request(i)) > 0 ? 1 : 0;
  return out;
}

struct Way {
  int threads = 1, chunk = 512, max_seqs = 1, n_blocks = 400;
  bool cache = false, twice = false, reversed = false, budgets = true;
  int64_t swap_bytes = 0;
  std::string isa = cpu_isas().back(), codec = "f16", proposer = {}, disk = {};
  std::shared_ptr<Tier> remote = nullptr;
};

struct Ran {
  std::vector<std::vector<uint32_t>> bits;
  EngineStats stats;
  int64_t n_cached = 0, n_loaded = 0;
};

Ran run(const Way& how) {
  static const TinyModel tiny({}, "q8_0", 21);
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = how.threads, .isa = how.isa, .pin = false});
  const auto model = tiny.load(**ops, how.codec);
  EngineOptions options;
  options.recompute_share = 1;  // all come in, and some have to go
  options.max_seqs = how.max_seqs;
  options.max_chunk = how.chunk;
  options.step_tokens = std::max(how.chunk, 2 * how.max_seqs);
  options.prefix_cache = how.cache;
  options.proposer = how.proposer;
  options.max_draft = 4;
  options.exit_layers = how.proposer == "exit" ? 1 : 0;
  options.adapt_draft = false;
  options.swap_bytes = how.swap_bytes;
  options.kv_disk = how.disk;
  options.kv_bytes = int64_t{how.n_blocks} * kBlock * (*model)->info().kv_layout.token_bytes();
  SystemClock clock;
  EngineEnv env;
  env.clock = &clock;
  if (how.remote) env.tiers = {how.remote};
  const auto engine = make_engine(**model, **ops, options, env);
  EXPECT_TRUE(engine) << engine.error().message;
  Ran out;
  for (int round = 0; round < (how.twice ? 2 : 1); ++round) {
    std::vector<std::shared_ptr<BitsSink>> sinks(kRequests);
    for (int k = 0; k < kRequests; ++k) {
      const int i = how.reversed ? kRequests - 1 - k : k;
      auto& sink = sinks[static_cast<size_t>(i)] = std::make_shared<BitsSink>();
      Request wanted = request(i);
      if (!how.budgets) wanted.kv_budget = 0;
      const auto id = (*engine)->submit(std::move(wanted), sink);
      EXPECT_TRUE(id) << id.error().message;
      (*engine)->step();
    }
    const auto busy = [](const auto& sink) { return !sink->ended; };
    while (std::ranges::any_of(sinks, busy)) {
      if (!(*engine)->step()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for the disk
      EXPECT_EQ((*engine)->snapshot().check(), "");
    }
    out.bits.clear();
    for (int i = 0; i < kRequests; ++i) {
      const BitsSink& sink = *sinks[static_cast<size_t>(i)];
      const Request r = request(i);
      EXPECT_EQ(sink.error, "");
      EXPECT_EQ(sink.usage.n_generated, r.max_tokens);
      EXPECT_EQ(sink.usage.n_dropped, how.budgets ? n_dropped(r) : 0);
      const int64_t n_voting = how.budgets && n_dropped(r) > 0 ? kVotingRows : 0;
      EXPECT_LE(sink.usage.n_cached, std::ssize(r.prompt) - n_voting);
      out.n_cached += sink.usage.n_cached;
      out.bits.push_back(sink.bits);
    }
  }
  out.stats = (*engine)->stats();
  out.n_loaded = out.stats.n_loaded_tokens;
  return out;
}

const std::vector<std::vector<uint32_t>>& truth() {
  static const std::vector<std::vector<uint32_t>> out = run({}).bits;
  return out;
}

TEST(KvBudget, ChangesAnswersOfThoseAloneThatDrop) {
  const Ran whole = run({.budgets = false});
  for (int i = 0; i < kRequests; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(whole.bits[at] == truth()[at], n_dropped(request(i)) == 0) << i;
    // The prompt's last row sees all.
    EXPECT_EQ(whole.bits[at][0], truth()[at][0]);
    EXPECT_EQ(whole.bits[at][1], truth()[at][1]);
  }
  EXPECT_GE(n_bounded(), 6);
}

TEST(KvBudget, OneHashOverBatchesChunksAndThreads) {
  EXPECT_EQ(run({.chunk = 7}).bits, truth());
  EXPECT_EQ(run({.threads = 3, .chunk = 33, .max_seqs = 5}).bits, truth());
  EXPECT_EQ(run({.max_seqs = 12, .reversed = true}).bits, truth());
}

TEST(KvBudget, OneHashOverHits) {
  const Ran cached = run({.chunk = 40, .max_seqs = 4, .cache = true, .twice = true});
  EXPECT_EQ(cached.bits, truth());
  EXPECT_GT(cached.n_cached, 1000);
  EXPECT_EQ(run({.chunk = 11, .max_seqs = 12, .cache = true, .reversed = true}).bits, truth());
}

TEST(KvBudget, OneHashOverPreemptions) {
  for (const int64_t swap_bytes : {int64_t{0}, int64_t{1} << 30}) {
    for (const bool cache : {true, false}) {
      const Ran crowded = run({.chunk = 64, .max_seqs = 6, .n_blocks = 48, .cache = cache, .swap_bytes = swap_bytes});
      EXPECT_EQ(crowded.bits, truth()) << cache << swap_bytes;
      EXPECT_GT(crowded.stats.n_preempted, 0);
      EXPECT_EQ(crowded.stats.n_swaps_in > 0, swap_bytes > 0) << "what was dropped is not computed again";
      EXPECT_EQ(crowded.stats.n_bounded, n_bounded());
    }
  }
}

TEST(KvBudget, OneHashOverDrafts) {
  for (const char* proposer : {"ngram", "suffix", "exit"}) {
    for (const int chunk : {512, 33, 7, 1}) {
      SCOPED_TRACE(proposer + std::to_string(chunk));
      Way how{.chunk = chunk, .max_seqs = 4, .n_blocks = chunk == 33 ? 48 : 400, .cache = true, .proposer = proposer};
      how.twice = how.proposer == "suffix";  // it knows the answers then
      const Ran drafted = run(how);
      EXPECT_EQ(drafted.bits, truth());
      if (chunk > 1) {
        EXPECT_GT(drafted.stats.spent.computed[static_cast<size_t>(Cause::draft)], 0);
      }
    }
  }
}

TEST(KvBudget, OneHashOverARestartOnDisk) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("quire_budget_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const Way how{.max_seqs = 2, .cache = true, .disk = folder};
  EXPECT_EQ(run(how).bits, truth());
  const Ran again = run(how);
  EXPECT_EQ(again.bits, truth());
  EXPECT_GT(again.n_loaded, 0);
  std::filesystem::remove_all(folder);
}

TEST(KvBudget, OneHashWhereAnotherEngineComputedThePrompts) {
  Store store;
  for (const int chunk : {512, 40}) {
    const Ran found = run({.chunk = chunk, .max_seqs = 4, .cache = true, .remote = std::make_shared<StoreTier>(store)});
    EXPECT_EQ(found.bits, truth());
    EXPECT_EQ(found.n_loaded > 0, chunk == 40) << "the first finds nothing there";
  }
  // One that has lost every third block, and one that promises what it has not.
  const size_t n_blocks = store.blocks.size();
  for (const Mood mood : {Mood::honest, Mood::boastful, Mood::forgetful}) {
    int i = 0;
    std::erase_if(store.blocks, [&](const auto&) { return ++i % 3 == 0; });
    EXPECT_LE(store.blocks.size(), n_blocks * 2 / 3 + 1);
    const auto tier = std::make_shared<StoreTier>(store);
    tier->mood = mood;
    EXPECT_EQ(run({.chunk = 64, .max_seqs = 3, .cache = true, .remote = tier}).bits, truth());
  }
}

TEST(KvBudget, OneHashOverInstructionSets) {
  for (const std::string& isa : cpu_isas()) EXPECT_EQ(run({.max_seqs = 12, .isa = isa}).bits, truth()) << isa;
}

TEST(KvBudget, EveryCodecHasOneHash) {
  for (const KvCodec* codec : tried_codecs()) {
    if (codec->packs()) continue;  // refused
    const std::string name(codec->name);
    const std::vector<std::vector<uint32_t>> alone = run({.codec = name}).bits;
    EXPECT_EQ(run({.threads = 2, .chunk = 19, .max_seqs = 6, .n_blocks = 48, .cache = true, .codec = name}).bits, alone)
        << name;
  }
}

}  // namespace
}  // namespace quire
