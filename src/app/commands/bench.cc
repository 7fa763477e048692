// quire bench: prefill and decode through the engine itself, each line held against what the machine was probed to do
// right before and after it (docs/numbers.md says how to read the shares).
#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <optional>

#include "app/bench_compare.h"
#include "app/bench_memory.h"
#include "app/bench_overlap.h"
#include "app/bench_requests.h"
#include "app/bench_spec.h"
#include "app/context_shift.h"
#include "app/progress.h"
#include "app/step_needs.h"
#include "app/wire.h"
#include "base/cpu_clock.h"
#include "base/json.h"
#include "engine/limits.h"
#include "tensor/probe.h"

namespace quire {
namespace {

struct Args {
  ModelOptions model;
  int n_generate = 128, repeat = 5;
  std::vector<int> prompt = {512}, batch = {1}, depth = {0};
  bool json = false;
  bool sampled = false;
  bool no_cache = false;
  bool overlap = false;
  std::string policy, prompts;
  int n_requests = 64;
  SpecChoice spec;
};

// When each of a sequence's tokens came.
class Stopwatch final : public EventSink {
 public:
  explicit Stopwatch(Clock& clock) : clock_(clock) {}
  void on_token(SeqId, const TokenEvent&) override { times_ns.push_back(clock_.now_ns()); }
  void on_finish(SeqId, Finish finish, const Usage&, const std::string& message) override {
    done = true;
    if (finish == Finish::error) error = message;
  }
  std::vector<int64_t> times_ns;
  std::string error;
  bool done = false;

 private:
  Clock& clock_;
};

struct Timing {
  struct Rows {  // positions of one sequence
    int64_t begin, end;
  };
  double prefill_tok_s = 0, decode_tok_s = 0;
  std::vector<Rows> decoded;  // whose time decode_tok_s is
};

struct Work {
  int n_vocab, n_seqs, n_prompt, n_generate;
  bool sampled;
  // By sequence: tokens that it generates before the last one starts; none: they start at once.
  std::vector<int> leads{};
  int n_tokens(int s) const { return n_generate + 1 + (leads.empty() ? 0 : leads[static_cast<size_t>(s)]); }
};

// Prompts that do not fit into one step start one after the other, in steps that decode those before them as well. One
// token more than that takes, where they do.
std::vector<int> leads_of(int n_seqs, int n_prompt, int step_tokens) {
  std::vector<int> starts;  // step of each one's first token
  int64_t n_done = 0;       // of all prompts' tokens
  for (int step = 0; std::ssize(starts) < n_seqs; ++step) {
    n_done += std::max<int64_t>(1, step_tokens - std::ssize(starts));
    while (std::ssize(starts) < n_seqs && (std::ssize(starts) + 1) * n_prompt <= n_done) starts.push_back(step);
  }
  std::vector<int> out(starts);
  for (int& start : out) start = start < starts.back() ? starts.back() - start + 1 : 0;
  return out;
}

SamplingParams sampling_of(const Work& work, int s) {
  SamplingParams out;
  out.temperature = work.sampled ? 1.0F : 0.0F;
  if (!work.sampled) return out;
  out.top_k = 50;
  out.top_p = 0.95F;
  out.seed = static_cast<uint64_t>(s) + 1;
  return out;
}

// What was decoded between the moment when all sequences have their first token and the one when the last to start has
// n_generate more: the batch is full throughout. (Should one have ended before, that is the end.)
void count_decoded(const std::vector<std::shared_ptr<Stopwatch>>& watches, const Work& work, Timing& timing) {
  const auto starts_before = [](const auto& a, const auto& b) { return a->times_ns.front() < b->times_ns.front(); };
  const auto& last = **std::max_element(watches.begin(), watches.end(), starts_before);
  const int64_t start = last.times_ns.front();
  int64_t end = last.times_ns[std::min(static_cast<size_t>(work.n_generate), last.times_ns.size() - 1)];
  for (const auto& w : watches) {
    const auto n = std::count_if(w->times_ns.begin(), w->times_ns.end(), [&](int64_t t) { return t > start; });
    if (n < work.n_generate) end = std::min(end, w->times_ns.back());
  }
  int64_t n_decoded = 0;
  for (const auto& w : watches) {
    const auto count = [&](int64_t until) {
      return std::upper_bound(w->times_ns.begin(), w->times_ns.end(), until) - w->times_ns.begin();
    };
    const int64_t first = count(start), stop = std::max(count(end), first);
    // A prompt's last row gives token 0, so the row at the prompt's length gives token 1.
    timing.decoded.push_back({work.n_prompt + first - 1, work.n_prompt + stop - 1});
    n_decoded += stop - first;
  }
  if (end > start) timing.decode_tok_s = static_cast<double>(n_decoded) / (static_cast<double>(end - start) * 1e-9);
}

Result<Timing> run_once(Engine& engine, Clock& clock, const Work& work) {
  std::vector<std::shared_ptr<Stopwatch>> watches;
  const int64_t start = clock.now_ns();
  for (int s = 0; s < work.n_seqs; ++s) {
    Request request;
    request.prompt = random_prompt(work.n_prompt, work.n_vocab, static_cast<uint64_t>(s) + 1);
    request.sampling = sampling_of(work, s);
    request.max_tokens = work.n_tokens(s);
    watches.push_back(std::make_shared<Stopwatch>(clock));
    QR_TRY([[maybe_unused]] const SeqId id, engine.submit(std::move(request), watches.back()));
  }
  const auto running = [&] {
    return std::any_of(watches.begin(), watches.end(), [](const auto& w) { return !w->done; });
  };
  while (running()) engine.step();
  int64_t all_started = 0;
  for (const auto& w : watches) {
    if (!w->error.empty() || w->times_ns.empty()) return fail(Code::internal, "a sequence failed: " + w->error);
    all_started = std::max(all_started, w->times_ns.front());
  }
  Timing out;
  out.prefill_tok_s =
      static_cast<double>(work.n_seqs) * work.n_prompt / (static_cast<double>(all_started - start) * 1e-9);
  count_decoded(watches, work, out);
  return out;
}

// bandwidth in bytes per second; peak in operations per second of the units that the weights' format uses.
struct Limits {
  double bandwidth = 0, peak = 0, fork_ns = 0;
};

// What the parts of a step took, on the mean, by some clock.
struct Steps {
  std::array<double, kNStages> ms{};

  static Steps between(const EngineStats& before, const EngineStats& now) {
    Steps out;
    const auto n_steps = static_cast<double>(std::max<int64_t>(now.n_steps - before.n_steps, 1));
    for (size_t i = 0; i < out.ms.size(); ++i)
      out.ms[i] = static_cast<double>(now.stage_ns[i] - before.stage_ns[i]) * 1e-6 / n_steps;
    return out;
  }
  double all_ms() const { return std::accumulate(ms.begin(), ms.end(), 0.0); }
  // Everything but the model: scheduling, batching, sampling, emitting.
  double engine_ms() const { return all_ms() - ms[static_cast<size_t>(Stage::forward)]; }
  double engine_share() const { return all_ms() > 0 ? engine_ms() / all_ms() : 0; }
  Json json() const {
    constexpr std::array kNames{"plan", "batch", "forward", "sample", "commit"};
    Json out;
    for (size_t i = 0; i < ms.size(); ++i) out.set(kNames[i], ms[i]);
    return out;
  }
};

// One of two clocks at a time.
class EitherClock final : public Clock {
 public:
  int64_t now_ns() override { return by_cpu ? cpu_.now_ns() : wall_.now_ns(); }
  bool by_cpu = false;

 private:
  SystemClock wall_;
  ProcessCpuClock cpu_;
};

// A decode step's keys and values, and its time: what attention takes is the difference to a line of depth 0.
struct Step {
  double kv_bytes = 0, ms = 0;
};

struct Line {
  const char* test;
  int n_prompt, n_generate, n_seqs, depth;
  double bytes_per_token, ops_per_token;
  bool by_bandwidth;              // a share of the bandwidth says something
  double kv_bytes = 0;            // that a step reads; of decode lines
  std::optional<Step> shallow{};  // of depth 0, beside a deeper line
  std::vector<double> tok_s{};
  Steps wall{}, cpu{};

  double median() const { return median_of(tok_s); }
  Step step() const { return {kv_bytes, median() > 0 ? 1e3 * n_seqs / median() : 0}; }
  // What a step reads and takes beyond one of depth 0. REQUIRES shallow.
  Step extra() const { return {kv_bytes - shallow->kv_bytes, step().ms - shallow->ms}; }
};

// Bytes per second at which the extra keys and values went by; 0 where noise hides them.
double rate_of(const Step& extra) { return extra.ms > 0 ? extra.kv_bytes / (extra.ms * 1e-3) : 0; }

// "K/V 134.2 MB a step, 6.214 ms more than at depth 0: 21.6 GB/s, 58.1% of the bandwidth"
void print_kv(const Line& line, const Limits& limits) {
  if (line.kv_bytes <= 0) return;
  std::printf("  K/V %.2f MB a step", line.kv_bytes * 1e-6);
  if (!line.shallow) return;
  const Step extra = line.extra();
  std::printf(", %.3f ms more than at depth 0", extra.ms);
  if (extra.ms <= 0 || limits.bandwidth <= 0) return;
  const double rate = rate_of(extra);
  std::printf(": %.2f GB/s, %.1f%% of the bandwidth", rate * 1e-9, rate / limits.bandwidth * 100);
}

void set_kv(Json& out, const Line& line, const Limits& limits) {
  if (line.kv_bytes <= 0) return;
  out.set("kv_bytes_per_step", line.kv_bytes);
  if (!line.shallow) return;
  const Step extra = line.extra();
  out.set("extra_kv_bytes", extra.kv_bytes);
  out.set("extra_ms", extra.ms);
  out.set("extra_gb_s", rate_of(extra) * 1e-9);
  out.set("extra_of_bandwidth", limits.bandwidth > 0 ? rate_of(extra) / limits.bandwidth : 0);
}

void print_line(const Args& args, const Line& line, const Limits& limits, int threads) {
  const auto [least, most] = std::minmax_element(line.tok_s.begin(), line.tok_s.end());
  const double median = line.median();
  const bool read = line.by_bandwidth && limits.bandwidth > 0;
  const double of_bandwidth = read ? median * line.bytes_per_token / limits.bandwidth : 0;
  const double of_peak = limits.peak > 0 ? median * line.ops_per_token / limits.peak : 0;
  if (!args.json) {
    std::printf(
        "%-8s prompt %5d  generate %4d  seqs %3d  depth %5d  %9.2f tok/s (%.2f … %.2f)  bandwidth %5.1f%% of %.1f GB/s"
        "  peak %5.1f%% of %.0f Gop/s  engine %.3f of %.3f ms a step (%.2f%%; of processor time %.3f ms, %.2f%%)"
        "  fork %.2f us",
        line.test, line.n_prompt, line.n_generate, line.n_seqs, line.depth, median, *least, *most, of_bandwidth * 100,
        limits.bandwidth * 1e-9, of_peak * 100, limits.peak * 1e-9, line.wall.engine_ms(), line.wall.all_ms(),
        line.wall.engine_share() * 100, line.cpu.engine_ms(), line.cpu.engine_share() * 100, limits.fork_ns * 1e-3);
    print_kv(line, limits);
    std::printf("\n");
    std::fflush(stdout);
    return;
  }
  Json rate;
  rate.set("min", *least);
  rate.set("median", median);
  rate.set("max", *most);
  Json out;
  out.set("test", line.test);
  out.set("n_prompt", line.n_prompt);
  out.set("n_generate", line.n_generate);
  out.set("n_seqs", line.n_seqs);
  out.set("depth", line.depth);
  out.set("threads", threads);
  out.set("tok_s", std::move(rate));
  out.set("of_bandwidth", of_bandwidth);
  out.set("of_peak", of_peak);
  out.set("bandwidth_gb_s", limits.bandwidth * 1e-9);
  out.set("peak_gop_s", limits.peak * 1e-9);
  out.set("bytes_per_token", line.bytes_per_token);
  out.set("ops_per_token", line.ops_per_token);
  set_kv(out, line, limits);
  out.set("fork_us", limits.fork_ns * 1e-3);
  out.set("engine_share", line.wall.engine_share());
  out.set("engine_cpu_share", line.cpu.engine_share());
  out.set("step_ms", line.wall.json());
  out.set("step_cpu_ms", line.cpu.json());
  std::printf("%s\n", out.dump().c_str());
  std::fflush(stdout);
}

class Bench {
 public:
  Bench(const Args& args, const LoadedModel& loaded)
      : args_(args), loaded_(loaded), info_(loaded.model->info()), needs_(info_) {}

  // Depths ascend, so that one of 0 is there for the others to be compared with.
  Status run() {
    threads_ = n_threads(args_.model);
    std::vector<int> depths = args_.depth;
    std::sort(depths.begin(), depths.end());
    const auto n_lines = args_.batch.size() * (args_.prompt.size() + (args_.n_generate > 0 ? depths.size() : 0));
    progress_.update(0, static_cast<int64_t>(n_lines) * (args_.repeat + 2));
    for (const int n_seqs : args_.batch) {
      shallow_.reset();
      for (const int n_prompt : args_.prompt) QR_TRY_VOID(run_prefill(n_seqs, n_prompt));
      for (const int depth : depths) {
        if (args_.n_generate > 0) QR_TRY_VOID(run_decode(n_seqs, depth));
      }
    }
    return {};
  }

 private:
  Result<std::unique_ptr<Engine>> engine_for(int n_seqs, int n_prompt) {
    EngineOptions options;
    options.max_seqs = n_seqs;
    options.prefix_cache = false;
    options.n_ctx = n_prompt + args_.n_generate + 1 + leads_of(n_seqs, n_prompt, options.step_tokens).front();
    give_room(options, info_.kv_layout, n_seqs);
    EngineEnv env;
    env.clock = &clock_;
    env.stage_clock = &stage_clock_;
    return make_engine(*loaded_.model, *loaded_.ops, options, env);
  }

  // One read of the weights serves all rows of a step: the limit is operations. A prompt's last row wants logits.
  Status run_prefill(int n_seqs, int n_prompt) {
    QR_TRY(const std::unique_ptr<Engine> engine, engine_for(n_seqs, n_prompt));
    const double rows = std::min<double>(static_cast<double>(n_prompt) * n_seqs, engine->options().step_tokens);
    const double ops = needs_.ops(0, n_prompt, 1) / n_prompt;
    Line prefill{"prefill", n_prompt, 0, n_seqs, 0, needs_.weight_bytes / rows, ops, false};
    return measure(*engine, prefill, n_prompt, &Timing::prefill_tok_s);
  }

  Status run_decode(int n_seqs, int wanted_depth) {
    const int depth = std::max(1, wanted_depth), n = args_.n_generate;
    QR_TRY(const std::unique_ptr<Engine> engine, engine_for(n_seqs, depth));
    Line decode{"decode", depth, n, n_seqs, wanted_depth, 0, 0, true};
    if (wanted_depth > 0) decode.shallow = shallow_;
    QR_TRY_VOID(measure(*engine, decode, depth, &Timing::decode_tok_s));
    if (wanted_depth == 0) shallow_ = decode.step();
    return {};
  }

  // Every row wants logits and sees keys and values of its own; the weights serve all rows of a step. Means over the
  // tokens that were counted.
  Status set_decode_needs(Line& line, const Timing& timing) const {
    double kv_bytes = 0, ops = 0;
    int64_t n = 0;
    for (const auto& [begin, end] : timing.decoded) {
      kv_bytes += needs_.kv_bytes(begin, end);
      ops += needs_.ops(begin, end, end - begin);
      n += end - begin;
    }
    if (n == 0) return fail(Code::internal, "no step decoded all sequences together");
    const auto per_token = 1 / static_cast<double>(n);
    line.bytes_per_token = needs_.weight_bytes / line.n_seqs + kv_bytes * per_token;
    line.ops_per_token = ops * per_token;
    line.kv_bytes = kv_bytes * per_token * line.n_seqs;
    return {};
  }

  // Probes before and after; the share is of the better of the two, which flatters least. One more repetition is told
  // by processor time.
  Status measure(Engine& engine, Line& line, int n_prompt, double Timing::* what) {
    Work work{info_.n_vocab, line.n_seqs, n_prompt, line.n_generate, args_.sampled};
    if (line.n_generate > 0) work.leads = leads_of(line.n_seqs, n_prompt, engine.options().step_tokens);
    const Work warm_up{info_.n_vocab, line.n_seqs, std::min(n_prompt, 64), line.n_generate, args_.sampled};
    QR_TRY_VOID(timed(engine, warm_up));
    Limits limits;
    QR_TRY_VOID(probe(limits));
    const EngineStats before = engine.stats();
    for (int i = 0; i < args_.repeat; ++i) {
      QR_TRY(const Timing timing, timed(engine, work));
      line.tok_s.push_back(timing.*what);
      if (i == 0 && line.n_generate > 0) QR_TRY_VOID(set_decode_needs(line, timing));
    }
    const EngineStats middle = engine.stats();
    line.wall = Steps::between(before, middle);
    stage_clock_.by_cpu = true;
    const auto by_cpu = timed(engine, work);
    stage_clock_.by_cpu = false;
    QR_TRY_VOID(by_cpu);
    line.cpu = Steps::between(middle, engine.stats());
    QR_TRY_VOID(probe(limits));
    progress_.clear();
    print_line(args_, line, limits, threads_);
    return {};
  }

  Result<Timing> timed(Engine& engine, const Work& work) {
    auto timing = run_once(engine, clock_, work);
    progress_.update(++n_runs_);
    return timing;
  }

  Status probe(Limits& limits) {
    QR_TRY(const double bandwidth, probe_read_bandwidth(threads_));
    QR_TRY(const UnitPeak peak, probe_peak(args_.model));
    limits.bandwidth = std::max(limits.bandwidth, bandwidth);
    limits.peak = std::max(limits.peak, needs_.limit(peak));
    limits.fork_ns = limits.fork_ns > 0 ? std::min(limits.fork_ns, peak.fork_ns) : peak.fork_ns;
    return {};
  }

  const Args& args_;
  const LoadedModel& loaded_;
  const ModelInfo& info_;
  const StepNeeds needs_;
  std::optional<Step> shallow_;  // of the sequences that run together now
  SystemClock clock_;
  EitherClock stage_clock_;
  Progress progress_{"bench", 0};  // runs of the batch
  int64_t n_runs_ = 0;
  int threads_ = 1;
};

Status run(Args& args) {
  if ((args.no_cache || args.overlap || !args.policy.empty()) && args.n_generate < 1) {
    return fail(Code::invalid, "--generate must be at least 1 for a comparison");
  }
  if (!args.policy.empty() && args.policy != "static") {
    return fail(Code::invalid, "--policy of a bench must be static, got \"" + args.policy + "\"");
  }
  EngineOptions options;
  QR_TRY_VOID(apply(args.spec, options));
  SystemClock clock;
  const int64_t start = clock.now_ns();
  QR_TRY(const LoadedModel loaded, load(args.model));
  std::fprintf(stderr, "%s: %s, loaded in %.2f s\n", loaded.path.c_str(), loaded.ops->describe().c_str(),
               static_cast<double>(clock.now_ns() - start) * 1e-9);
  const int n_prompt = args.prompt.empty() ? 512 : args.prompt.front();
  if (args.no_cache) return compare_cache(loaded, n_prompt, args.n_generate, args.json);
  if (!args.policy.empty()) {
    const int n_seqs = args.batch.empty() ? 8 : args.batch.front();
    return compare_batching(loaded, {args.n_requests, n_seqs, n_prompt, args.n_generate}, args.json);
  }
  if (args.overlap && !options.proposer.empty())
    return fail(Code::invalid, "--overlap and --spec exclude each other: steps with guesses do not overlap");
  if (args.overlap) {
    return bench_overlap(loaded, {args.batch, n_prompt, args.n_generate, args.repeat, args.sampled, args.json});
  }
  if (options.proposer.empty()) return Bench(args, loaded).run();
  QR_TRY(const Drafter drafter, load_drafter(args.spec, args.model, loaded));
  return bench_spec(loaded, drafter,
                    {args.spec, args.batch, args.n_generate, args.repeat, args.sampled, args.json, args.prompts});
}

QR_REGISTER(
    Command,
    "bench",
    Command{
        "measure prefill and decode against the machine's limits", false,
        [](CommandLine& line) -> std::function<int()> {
          auto args = std::make_shared<Args>();
          declare_model_options(line, args->model);
          declare_shift_option(line, args->model);
          line.option("--prompt", args->prompt, {1, 1 << 24},
                      "prompt tokens of the prefill test, several separated by commas");
          line.option("--generate", args->n_generate, {0, 1 << 24}, "tokens to decode; 0 leaves the decode test out");
          line.option("--depth", args->depth, {0, 1 << 24},
                      "tokens in the cache before decoding starts, several separated by commas");
          line.option("--batch", args->batch, {1, 1024}, "sequences that run together, several separated by commas");
          line.option("--repeat", args->repeat, {1, 1000}, "repetitions; the median counts");
          line.flag("--sampled", args->sampled,
                    "draw the tokens (temperature 1, top-k 50, top-p 0.95) instead of taking the likeliest");
          line.flag("--no-cache", args->no_cache,
                    "instead: one prompt with cached keys and values against computing its past anew");
          line.option("--policy", args->policy,
                      "static: instead, batches that start and end together against continuous ones");
          line.flag("--overlap", args->overlap, "instead: steps one after the other against steps that overlap");
          line.option("--requests", args->n_requests, {1, 1 << 16}, "requests of mixed lengths for --policy static");
          declare_spec_options(line, args->spec);
          line.option("--prompts", args->prompts,
                      "questions, one on every line, for what guessing ahead is worth (--spec, --draft)");
          line.flag("--json", args->json, "one JSON object per line");
          return [args] { return exit_code(run(*args)); };
        }});

}  // namespace
}  // namespace quire
