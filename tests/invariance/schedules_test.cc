// One hash per request over many random schedules of a real trained model: arrivals, preemption, cancellation,
// several answers to one prompt, chunks, prefix hits, policies, block sizes, threads. It is the bundled
// model, or a smaller one of the shared data.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "backend/cpu/cpu_ops.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "engine/engine.h"
#include "engine/policy.h"
#include "io/gguf_test_file.h"
#include "io/model_file.h"
#include "kv/kv_policy.h"

namespace quire {
namespace {

constexpr uint64_t kSchedules = kSanitized ? 36 : 1000;
constexpr uintmax_t kSmallBytes = 2 << 20;  // a larger model gets a twelfth of the schedules
constexpr int kRequests = 14;
constexpr int kCtx = 96;

// After each token the hash of all so far, logprobs included: a cancelled answer must be a prefix of the whole one.
class ChainSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    const uint64_t last = hashes.empty() ? 1 : hashes.back();
    hashes.push_back(mix64(mix64(last ^ static_cast<uint64_t>(event.id)) ^ std::bit_cast<uint32_t>(event.logprob)));
  }
  void on_finish(SeqId, Finish how, const Usage&, const std::string& message) override {
    ++n_ends;
    finish = how;
    error = message;
  }
  std::vector<uint64_t> hashes;
  int n_ends = 0;
  Finish finish = Finish::stop;
  std::string error;
};

// Three texts cut anywhere; every third request is another answer to the prompt before it.
Request request(int i, int n_vocab) {
  const int prompt_of = i % 3 == 2 ? i - 1 : i;
  Rng rng(static_cast<uint64_t>(prompt_of % 4));
  Rng length(static_cast<uint64_t>(prompt_of) + 100);
  Request out;
  for (int64_t n = length.between(1, 60); n > 0; --n) {
    out.prompt.push_back(static_cast<Token>(rng.between(3, n_vocab - 1)));
  }
  out.max_tokens = 2 + i * 11 % 33;
  out.sampling.temperature = i % 4 == 0 ? 0.0F : 1.0F;
  out.sampling.top_k = i % 5 == 0 ? 30 : 0;
  out.sampling.seed = static_cast<uint64_t>(i) * 31;
  out.sampling.n_logprobs = 0;
  return out;
}

struct Machine {
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
};

struct Totals {
  int64_t preempted = 0, cached = 0, cancelled = 0;
};

class Schedules : public testing::Test {
 protected:
  void SetUp() override {
    QR_REAL_MODEL_OR_SKIP(path);
    n_schedules_ = std::filesystem::file_size(path) > kSmallBytes ? kSchedules / 12 : kSchedules;
    auto file = open_model(path);
    ASSERT_TRUE(file) << file.error().message;
    file_ = std::move(*file);
    const KvCodec* codec = find_kv_codec("f16");
    for (int threads = 1; threads <= 3; ++threads) {
      auto ops = make_cpu_ops(CpuOptions{.n_threads = threads, .isa = cpu_isas().back(), .pin = false});
      ASSERT_TRUE(ops);
      auto model = load_model(file_, **ops, LoadOptions{codec, codec});
      ASSERT_TRUE(model) << model.error().message;
      machines_.push_back({std::move(*ops), std::move(*model)});
    }
    const int n_vocab = machines_[0].model->info().n_vocab;
    for (int i = 0; i < kRequests; ++i) truth_.push_back(alone(request(i, n_vocab)));
  }

  std::unique_ptr<Engine> make(Machine& machine, EngineOptions options, int n_blocks) {
    options.n_ctx = kCtx;
    options.kv_bytes = int64_t{n_blocks} * options.block_tokens * machine.model->info().kv_layout.token_bytes();
    EngineEnv env;
    env.clock = &clock_;
    auto engine = make_engine(*machine.model, *machine.ops, options, env);
    EXPECT_TRUE(engine) << engine.error().message;
    return std::move(*engine);
  }

  std::vector<uint64_t> alone(Request wanted) {
    EngineOptions options;
    options.recompute_share = 1;  // all come in, and some have to go
    options.max_seqs = 1;
    options.prefix_cache = false;
    const auto engine = make(machines_[0], options, 20);
    const auto sink = std::make_shared<ChainSink>();
    EXPECT_TRUE(engine->submit(std::move(wanted), sink));
    while (engine->step()) {
    }
    EXPECT_EQ(sink->finish, Finish::length);
    return sink->hashes;
  }

  void run(uint64_t seed, Totals& totals) {
    Rng rng(seed);
    const auto below = [&rng](int n) { return static_cast<int>(rng.between(0, n - 1)); };
    const std::vector<std::string> policies = Registry<PolicyEntry>::get().names();
    EngineOptions options;
    options.recompute_share = 1;  // all come in, and some have to go
    options.max_seqs = 2 + below(9);
    options.step_tokens = 1 + below(128);
    options.max_chunk = 1 + below(64);
    options.block_tokens = below(4) == 0 ? 32 : 16;
    options.prefix_cache = below(5) != 0;
    options.itl_target_ms = below(4) == 0 ? 0.01 : 0;
    options.step_target_ms = seed % 3 == 1 ? 0.01 : 0;
    options.policy = policies[static_cast<size_t>(below(static_cast<int>(policies.size())))];
    const std::vector<std::string> kv_policies = Registry<KvPolicyEntry>::get().names();
    options.kv_policy = kv_policies[static_cast<size_t>(below(static_cast<int>(kv_policies.size())))];
    const int n_blocks = (kCtx + options.block_tokens - 1) / options.block_tokens + below(4);
    Machine& machine = machines_[below(10) == 0 ? 2 : below(4) == 0 ? 1 : 0];
    const auto engine = make(machine, options, n_blocks);
    std::vector<std::pair<int, std::shared_ptr<ChainSink>>> sinks;
    std::vector<SeqId> ids;
    for (int n = 6 + below(8); n > 0; --n) {
      const int i = below(kRequests);
      sinks.emplace_back(i, std::make_shared<ChainSink>());
      const auto id = engine->submit(request(i, machine.model->info().n_vocab), sinks.back().second);
      ASSERT_TRUE(id) << id.error().message;
      ids.push_back(*id);
      for (int steps = below(4); steps > 0; --steps) engine->step();
      if (below(8) == 0) engine->cancel(ids[static_cast<size_t>(below(static_cast<int>(ids.size())))]);
    }
    while (engine->step()) {
    }
    ASSERT_EQ(engine->snapshot().check(), "");
    for (const auto& [i, sink] : sinks) {
      const std::vector<uint64_t>& whole = truth_[static_cast<size_t>(i)];
      ASSERT_EQ(sink->n_ends, 1);
      ASSERT_EQ(sink->error, "");
      ASSERT_LE(sink->hashes.size(), whole.size());
      ASSERT_TRUE(sink->finish == Finish::cancelled || sink->hashes.size() == whole.size());
      ASSERT_TRUE(std::equal(sink->hashes.begin(), sink->hashes.end(), whole.begin())) << "request " << i;
    }
    const EngineStats stats = engine->stats();
    totals.preempted += stats.n_preempted;
    totals.cached += stats.n_cached_tokens;
    totals.cancelled += stats.n_cancelled;
  }

  uint64_t n_schedules_ = 0;
  SystemClock clock_;
  ModelFile file_;
  std::vector<Machine> machines_;
  std::vector<std::vector<uint64_t>> truth_;
};

TEST_F(Schedules, OneHashPerRequest) {
  Totals totals;
  for (uint64_t seed = 1; seed <= n_schedules_ && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(seed, totals);
  }
  if (HasFailure()) return;
  const auto n = static_cast<int64_t>(n_schedules_);
  EXPECT_GT(totals.preempted, n / 8) << "the test would prove nothing without preemption";
  EXPECT_GT(totals.cached, 16 * n);
  EXPECT_GT(totals.cancelled, n / 4);
}

}  // namespace
}  // namespace quire
