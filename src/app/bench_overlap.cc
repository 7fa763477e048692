#include "app/bench_overlap.h"

#include <algorithm>
#include <cstdio>

#include "app/bench_memory.h"
#include "app/bench_requests.h"
#include "base/json.h"
#include "ops/ahead_ops.h"

namespace quire {
namespace {

using Answers = std::vector<std::shared_ptr<BenchAnswer>>;

struct Instant {
  int64_t ns, waited_ns, n_steps, n_ahead;
};

struct Measured {
  std::vector<double> step_ms, host_ms;  // by rounds
  int64_t n_steps = 0, n_ahead = 0;
  void add(const Instant& start, const Instant& end) {
    const int64_t n = end.n_steps - start.n_steps, ns = end.ns - start.ns;
    if (n == 0) return;
    step_ms.push_back(static_cast<double>(ns) * 1e-6 / static_cast<double>(n));
    host_ms.push_back(static_cast<double>(ns - (end.waited_ns - start.waited_ns)) * 1e-6 / static_cast<double>(n));
    n_steps += n;
    n_ahead += end.n_ahead - start.n_ahead;
  }
};

class Bench {
 public:
  Bench(const LoadedModel& loaded, const OverlapBench& wanted) : loaded_(loaded), wanted_(wanted) {}

  Status run() {
    if (loaded_.ops->ahead() == nullptr) {
      return fail(Code::unsupported,
                  "--overlap: this backend computes on the host, no step has anything to overlap with");
    }
    for (const int n_users : wanted_.users) QR_TRY_VOID(run_for(n_users));
    return {};
  }

 private:
  Result<std::unique_ptr<Engine>> engine_for(int n_users, bool overlaps) {
    EngineOptions options;
    options.max_seqs = n_users;
    options.n_ctx = wanted_.n_prompt + wanted_.n_generate + 1;
    options.prefix_cache = false;
    options.overlap = overlaps;
    give_room(options, loaded_.model->info().kv_layout, n_users);
    EngineEnv env;
    env.clock = &clock_;
    return make_engine(*loaded_.model, *loaded_.ops, options, env);
  }

  Request request_of(int number) const {
    const auto seed = static_cast<uint64_t>(number) + 1;
    Request out;
    out.prompt = random_prompt(wanted_.n_prompt, loaded_.model->info().n_vocab, seed);
    out.max_tokens = wanted_.n_generate + 1;
    out.sampling.temperature = wanted_.sampled ? 1.0F : 0.0F;
    if (!wanted_.sampled) return out;
    out.sampling.top_k = 50;
    out.sampling.top_p = 0.95F;
    out.sampling.seed = seed;
    return out;
  }

  // Steps count from when everybody has a first token, as long as nobody is missing.
  Result<std::vector<std::vector<Token>>> once(Engine& engine, int n_users, Measured& measured) {
    Answers answers;
    for (int i = 0; i < n_users; ++i) {
      answers.push_back(std::make_shared<BenchAnswer>());
      QR_TRY([[maybe_unused]] const SeqId id, engine.submit(request_of(i), answers.back()));
    }
    const auto is_done = [](const auto& answer) { return answer->done; };
    const auto has_begun = [](const auto& answer) { return answer->done || !answer->tokens.empty(); };
    while (!std::ranges::all_of(answers, has_begun)) engine.step();
    const Instant start = now(engine);
    while (std::ranges::none_of(answers, is_done)) engine.step();
    measured.add(start, now(engine));
    while (!std::ranges::all_of(answers, is_done)) engine.step();
    std::vector<std::vector<Token>> out;
    for (const auto& answer : answers) {
      if (!answer->error.empty()) return fail(Code::internal, "a sequence failed: " + answer->error);
      out.push_back(std::move(answer->tokens));
    }
    return out;
  }

  Instant now(const Engine& engine) {
    const EngineStats stats = engine.stats();
    return {clock_.now_ns(), loaded_.ops->ahead()->waited_ns(), stats.n_steps, stats.n_steps_ahead};
  }

  // A warm-up each, then in turns.
  Status run_for(int n_users) {
    QR_TRY(const std::unique_ptr<Engine> plain, engine_for(n_users, false));
    QR_TRY(const std::unique_ptr<Engine> overlapping, engine_for(n_users, true));
    Measured off, on, warm_up;
    for (Engine* engine : {plain.get(), overlapping.get()}) QR_TRY_VOID(once(*engine, n_users, warm_up));
    for (int round = 0; round < wanted_.n_rounds; ++round) {
      QR_TRY(const auto truth, once(*plain, n_users, off));
      QR_TRY(const auto answers, once(*overlapping, n_users, on));
      if (truth != answers) return fail(Code::internal, "an answer differs where steps overlap");
    }
    if (off.n_steps == 0 || on.n_steps == 0) {
      return fail(Code::internal, "an answer was over with its first token: there is no step to be measured");
    }
    print(n_users, off, on);
    return {};
  }

  void print(int n_users, const Measured& off, const Measured& on) const {
    const double off_ms = median_of(off.step_ms), on_ms = median_of(on.step_ms);
    const double host_ms = median_of(off.host_ms), hidden = host_ms > 0 ? (off_ms - on_ms) / host_ms : 0;
    if (!wanted_.json) {
      std::printf(
          "%4d users  a step takes %.3f ms, overlapping %.3f ms: of the host's %.3f ms %.1f%% are hidden"
          "  (%lld of %lld steps overlap)\n",
          n_users, off_ms, on_ms, host_ms, hidden * 100, static_cast<long long>(on.n_ahead),
          static_cast<long long>(on.n_steps));
      std::fflush(stdout);
      return;
    }
    Json out;
    out.set("test", "overlap");
    out.set("n_users", n_users);
    out.set("step_ms", off_ms);
    out.set("overlapping_step_ms", on_ms);
    out.set("host_ms", host_ms);
    out.set("hidden", hidden);
    out.set("steps", on.n_steps);
    out.set("steps_ahead", on.n_ahead);
    std::printf("%s\n", out.dump().c_str());
    std::fflush(stdout);
  }

  const LoadedModel& loaded_;
  const OverlapBench wanted_;
  SystemClock clock_;
};

}  // namespace

Status bench_overlap(const LoadedModel& loaded, const OverlapBench& wanted) { return Bench(loaded, wanted).run(); }

}  // namespace quire
