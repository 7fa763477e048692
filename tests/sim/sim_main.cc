// The simulation by hand:  sim [N] [--seed S] [--jobs J]   N seeds from S on, over J processes (all cores)
//                          sim --script JSON               one script, as a failure prints it
//                          sim --first-tokens FILE         when each request of that script hears a token
//                          sim --traces                    the real traces, whole, under every policy
//                          sim [N] --fair                  N seeds of tenants that ask for more than there is
//                          sim --fairness [N]              what tenants get, and what a flood costs (N floods; 1000)
//                          sim --overload [N]              what is computed again where blocks run out (N seeds; 4)
//                          sim --eviction [--blocks N]...  what stays in caches of these sizes, under every policy
// A failure prints the seed, what did not hold, the smallest script found that still fails, and the commands that run
// both again. The last line is "N passed, N failed, 0 skipped".
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "engine/policy.h"
#include "tests/sim/eviction.h"
#include "tests/sim/fairness.h"
#include "tests/sim/overload.h"
#include "tests/sim/shrink.h"
#include "tests/sim/traces.h"
#include "tests/sim/workers.h"

namespace quire::sim {
namespace {

constexpr int kShrinkTries = 3000;
constexpr uint64_t kMostBlocks = 1 << 20;

struct Args {
  uint64_t n = 0, seed = 1;
  int jobs = static_cast<int>(std::thread::hardware_concurrency());
  std::string script, first_tokens;  // as JSON; a file of it
  bool traces = false, eviction = false, fairness = false, fair = false, overload = false;
  std::vector<int> blocks;
};

bool read_number(const char* text, uint64_t& out) {
  char* end = nullptr;
  out = std::strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0';
}

bool read_args(int argc, char** argv, Args& out) {
  bool seeded = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    uint64_t number = 0;
    if (word == "--traces") {
      out.traces = true;
    } else if (word == "--eviction") {
      out.eviction = true;
    } else if (word == "--overload") {
      out.overload = true;
    } else if (word == "--fair") {
      out.fair = true;
    } else if (word == "--fairness") {
      out.fairness = true;
    } else if (word == "--blocks" && has_value && read_number(argv[++i], number) && number > 0 &&
               number < kMostBlocks) {
      out.blocks.push_back(static_cast<int>(number));
    } else if (word == "--script" && has_value) {
      out.script = argv[++i];
    } else if (word == "--first-tokens" && has_value) {
      out.first_tokens = argv[++i];
    } else if (word == "--seed" && has_value && read_number(argv[++i], out.seed)) {
      seeded = true;
    } else if (word == "--jobs" && has_value && read_number(argv[++i], number) && number > 0 && number < 1024) {
      out.jobs = static_cast<int>(number);
    } else if (!read_number(word.c_str(), out.n) || out.n == 0) {
      return false;
    }
  }
  if (out.n == 0) out.n = seeded ? 1 : out.fairness ? 1000 : out.overload ? 4 : 100'000;
  return true;
}

void explain(const Script& script, const std::string& failure) {
  std::printf("%s\n", failure.c_str());
  std::fflush(stdout);
  std::string smallest = failure;
  const Script small = shrink(
      script,
      [&](const Script& next) {
        const std::string text = failure_of(next);
        const bool fails = !text.empty() && text.starts_with("no engine") == failure.starts_with("no engine");
        if (fails) smallest = text;
        return fails;
      },
      kShrinkTries);
  std::printf("smallest script that fails (%zu requests, %zu faults): %s\n  ./dev sim --script '%s'\n",
              small.requests.size(), small.faults.size(), smallest.c_str(), to_json(small).c_str());
}

int run_script(const std::string& text) {
  const Result<Script> script = script_from_json(text);
  if (!script) {
    std::fprintf(stderr, "sim: %s\n", script.error().message.c_str());
    return 2;
  }
  const std::string failure = failure_of(*script);
  std::printf("%s\n%d passed, %d failed, 0 skipped\n", failure.empty() ? "all held" : failure.c_str(),
              failure.empty() ? 1 : 0, failure.empty() ? 0 : 1);
  return failure.empty() ? 0 : 1;
}

// {"ttft_ns": [of each request, in order; 0: it heard none], "steps": n, "rows": n, "loaded_tokens": n}
int run_first_tokens(const std::string& path) {
  std::ifstream in(path);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const Result<Script> script = script_from_json(text);
  const std::string fault = !in ? "cannot read" : script ? "" : script.error().message;
  const Outcome out = fault.empty() ? run(*script) : Outcome();
  if (const std::string& failure = fault.empty() ? out.failure : fault; !failure.empty()) {
    std::fprintf(stderr, "sim: %s: %s\n", path.c_str(), failure.c_str());
    return fault.empty() ? 1 : 2;
  }
  Json::Array times;
  for (const int64_t ns : out.ttft_ns) times.emplace_back(ns);
  const Json report = Json::Object{{"ttft_ns", std::move(times)},
                                   {"steps", out.counts.steps},
                                   {"rows", out.counts.rows},
                                   {"loaded_tokens", out.counts.loaded}};
  std::printf("%s\n", report.dump().c_str());
  return 0;
}

int run_traces() {
  const std::string azure = trace_path("AzureLLMInferenceTrace_conv.csv");
  const std::string mooncake = trace_path("mooncake_conversation_trace.jsonl");
  int n_passed = 0, n_failed = 0;
  for (const std::string& path : {azure, mooncake}) {
    if (path.empty()) continue;
    for (const std::string& policy : Registry<PolicyEntry>::get().names()) {
      Result<Script> script = path == azure ? azure_script(path, {.length = 16, .time = 40})
                                            : mooncake_script(path, {.length = 32, .time = 20});
      std::string failure = script ? "" : script.error().message;
      if (script) {
        script->knobs.policy = policy;
        script->knobs.n_blocks = 3 * script->knobs.n_ctx / 2 / script->knobs.block_tokens;
        const Outcome out = run(*script);
        failure = out.failure;
        std::printf("%s %s: %s\n", path == azure ? "azure" : "mooncake", policy.c_str(), out.counts.text().c_str());
      }
      if (!failure.empty()) std::printf("FAILED: %s\n", failure.c_str());
      ++(failure.empty() ? n_passed : n_failed);
    }
  }
  std::printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, azure.empty() + mooncake.empty());
  return n_failed == 0 ? 0 : 1;
}

int run_eviction(std::vector<int> sizes) {
  if (sizes.empty()) sizes = {1000, 2000, 4000, 8000, 16000, 32000, 64000};
  std::vector<Traffic> all = {dialogue_traffic(1, 20'000)};
  const std::string path = trace_path("mooncake_conversation_trace.jsonl");
  if (!path.empty()) {
    Result<Traffic> mooncake = mooncake_traffic(path);
    if (!mooncake) {
      std::fprintf(stderr, "sim: %s\n", mooncake.error().message.c_str());
      return 2;
    }
    all.push_back(std::move(*mooncake));
  }
  for (const Traffic& traffic : all) std::printf("%s\n", eviction_table(traffic, sizes).c_str());
  std::printf("%zu passed, 0 failed, %d skipped\n", all.size(), path.empty() ? 1 : 0);
  return 0;
}

int run_all(const Args& args) {
  const auto script_of = args.fair ? fairness_script : random_script;
  const Report report = run_seeds(args.seed, args.n, args.jobs, script_of);
  std::printf("%s\n", report.counts.text().c_str());
  if (report.failed) {
    std::printf("seed %llu failed; again: ./dev sim%s --seed %llu\n", static_cast<unsigned long long>(report.seed),
                args.fair ? " --fair" : "", static_cast<unsigned long long>(report.seed));
    explain(script_of(report.seed), report.failure);
  }
  std::printf("%lld passed, %d failed, 0 skipped\n", static_cast<long long>(report.counts.runs), report.failed ? 1 : 0);
  return report.failed ? 1 : 0;
}

}  // namespace
}  // namespace quire::sim

int main(int argc, char** argv) {
  quire::sim::Args args;
  if (!quire::sim::read_args(argc, argv, args)) {
    std::fprintf(stderr,
                 "usage: sim [N] [--fair] [--seed S] [--jobs J] | sim --script JSON | sim --first-tokens FILE | sim "
                 "--traces | sim --fairness [N] | "
                 "sim --overload [N] | sim --eviction [--blocks N]...\n");
    return 2;
  }
  if (!args.first_tokens.empty()) return quire::sim::run_first_tokens(args.first_tokens);
  if (args.traces) return quire::sim::run_traces();
  if (args.fairness) {
    std::printf("%s", quire::sim::fairness_tables(args.n).c_str());
    return 0;
  }
  if (args.overload) {
    std::printf("%s", quire::sim::overload_tables(args.n).c_str());
    return 0;
  }
  if (args.eviction) return quire::sim::run_eviction(args.blocks);
  return args.script.empty() ? quire::sim::run_all(args) : quire::sim::run_script(args.script);
}
