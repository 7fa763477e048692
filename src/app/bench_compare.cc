#include "app/bench_compare.h"

#include <algorithm>
#include <cstdio>

#include "app/bench_memory.h"
#include "app/bench_requests.h"
#include "base/json.h"
#include "base/rng.h"

namespace quire {
namespace {

class Answers final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override { tokens.push_back(event.id); }
  void on_finish(SeqId, Finish finish, const Usage&, const std::string& message) override {
    ++n_done;
    if (finish == Finish::error) error = message;
  }
  std::vector<Token> tokens;  // of all sequences, as they come
  std::string error;
  int n_done = 0;
};

Request greedy(std::vector<Token> prompt, int max_tokens) {
  Request out;
  out.prompt = std::move(prompt);
  out.sampling.temperature = 0;
  out.max_tokens = max_tokens;
  return out;
}

// An engine with room for n_seqs of n_ctx tokens.
Result<std::unique_ptr<Engine>> engine_for(const LoadedModel& loaded, int n_seqs, int n_ctx, Clock& clock) {
  EngineOptions options;
  options.max_seqs = n_seqs;
  options.n_ctx = n_ctx;
  options.max_queue = 1 << 20;
  options.prefix_cache = false;
  give_room(options, loaded.model->info().kv_layout, n_seqs);
  EngineEnv env;
  env.clock = &clock;
  return make_engine(*loaded.model, *loaded.ops, options, env);
}

struct Measured {
  double seconds = 0;
  int64_t n_rows = 0, n_steps = 0, n_generated = 0;
  double empty_slots = 0;  // share
};

Measured since(const EngineStats& before, const EngineStats& now, int64_t ns) {
  Measured out;
  out.seconds = static_cast<double>(ns) * 1e-9;
  out.n_rows = now.n_rows - before.n_rows;
  out.n_steps = now.n_steps - before.n_steps;
  out.n_generated = now.n_generated_tokens - before.n_generated_tokens;
  const auto slots = static_cast<double>(now.n_slot_steps - before.n_slot_steps);
  const auto filled = static_cast<double>(now.n_filled_slot_steps - before.n_filled_slot_steps);
  out.empty_slots = slots > 0 ? 1 - filled / slots : 0;
  return out;
}

void print(const char* test, const char* way, const Measured& m, bool json) {
  if (!json) {
    std::printf("%-8s %-10s  %8lld token-steps  %6lld steps  %9.3f s  %9.2f tok/s  empty slots %.2f%%\n", test, way,
                static_cast<long long>(m.n_rows), static_cast<long long>(m.n_steps), m.seconds,
                static_cast<double>(m.n_generated) / m.seconds, m.empty_slots * 100);
    return;
  }
  Json out;
  out.set("test", test);
  out.set("way", way);
  out.set("token_steps", m.n_rows);
  out.set("steps", m.n_steps);
  out.set("seconds", m.seconds);
  out.set("n_generated", m.n_generated);
  out.set("empty_slots", m.empty_slots);
  std::printf("%s\n", out.dump().c_str());
}

void print_ratio(const char* test, double ratio, bool json) {
  if (!json) {
    std::printf("%-8s the first takes %.2f times as long\n", test, ratio);
    return;
  }
  Json out;
  out.set("test", test);
  out.set("time_ratio", ratio);
  std::printf("%s\n", out.dump().c_str());
}

Status finish(Engine& engine, const Answers& answers, int n_done) {
  while (answers.n_done < n_done) engine.step();
  return answers.error.empty() ? Status() : fail(Code::internal, "a sequence failed: " + answers.error);
}

}  // namespace

// The first token comes of the prompt in both; what follows are n_generate more.
Status compare_cache(const LoadedModel& loaded, int n_prompt, int n_generate, bool json) {
  SystemClock clock;
  const std::vector<Token> prompt = random_prompt(n_prompt, loaded.model->info().n_vocab, 1);
  QR_TRY(const auto engine, engine_for(loaded, 1, n_prompt + n_generate + 1, clock));
  const auto warm_up = std::make_shared<Answers>();
  QR_TRY([[maybe_unused]] SeqId id, engine->submit(greedy(prompt, n_generate + 1), warm_up));
  QR_TRY_VOID(finish(*engine, *warm_up, 1));

  const auto cached = std::make_shared<Answers>();
  const EngineStats start = engine->stats();
  const int64_t start_ns = clock.now_ns();
  QR_TRY(id, engine->submit(greedy(prompt, n_generate + 1), cached));
  QR_TRY_VOID(finish(*engine, *cached, 1));
  const Measured with = since(start, engine->stats(), clock.now_ns() - start_ns);

  const auto bare = std::make_shared<Answers>();
  const EngineStats middle = engine->stats();
  const int64_t middle_ns = clock.now_ns();
  std::vector<Token> past = prompt;
  past.push_back(cached->tokens.front());
  for (int i = 0; i < n_generate; ++i) {
    QR_TRY(id, engine->submit(greedy(past, 1), bare));
    QR_TRY_VOID(finish(*engine, *bare, i + 1));
    past.push_back(bare->tokens.back());
  }
  const Measured without = since(middle, engine->stats(), clock.now_ns() - middle_ns);
  if (!std::equal(bare->tokens.begin(), bare->tokens.end(), cached->tokens.begin() + 1, cached->tokens.end())) {
    return fail(Code::internal, "the answers with and without cached keys and values differ");
  }
  print("cache", "without", without, json);
  print("cache", "with", with, json);
  print_ratio("cache", without.seconds / with.seconds, json);
  return {};
}

Status compare_batching(const LoadedModel& loaded, const TraceBench& options, bool json) {
  SystemClock clock;
  QR_TRY(const auto engine, engine_for(loaded, options.n_seqs, options.max_prompt + options.max_generate, clock));
  const auto submit = [&](int i, const std::shared_ptr<Answers>& answers) -> Status {
    Rng rng(static_cast<uint64_t>(i) + 1);
    const auto length = [&](int most) {  // squared: short ones more often
      const double u = rng.unit();
      return std::max(1, static_cast<int>(most * (1.0 / 16 + u * u * 15 / 16)));
    };
    const int n_prompt = length(options.max_prompt), n_generate = length(options.max_generate);
    auto prompt = random_prompt(n_prompt, loaded.model->info().n_vocab, static_cast<uint64_t>(i) + 1);
    QR_TRY([[maybe_unused]] const SeqId id, engine->submit(greedy(std::move(prompt), n_generate), answers));
    return {};
  };
  const auto run = [&](int at_once) -> Result<Measured> {
    const auto answers = std::make_shared<Answers>();
    const EngineStats start = engine->stats();
    const int64_t start_ns = clock.now_ns();
    for (int i = 0; i < options.n_requests;) {
      const int end = std::min(options.n_requests, i + at_once);
      for (; i < end; ++i) QR_TRY_VOID(submit(i, answers));
      QR_TRY_VOID(finish(*engine, *answers, end));
    }
    return since(start, engine->stats(), clock.now_ns() - start_ns);
  };
  QR_TRY([[maybe_unused]] const Measured warm_up, run(options.n_requests));
  QR_TRY(const Measured in_batches, run(options.n_seqs));
  QR_TRY(const Measured continuous, run(options.n_requests));
  print("batching", "static", in_batches, json);
  print("batching", "continuous", continuous, json);
  print_ratio("batching", in_batches.seconds / continuous.seconds, json);
  return {};
}

}  // namespace quire
