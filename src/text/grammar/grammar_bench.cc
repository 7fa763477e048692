// What constraints cost one thread, over real schemas with the Llama 3 vocabulary: a mask at every token of every valid
// instance (each schema compiled anew, so caches begin empty), and compiling with the first mask.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <fstream>

#include "base/cpu_clock.h"
#include "text/grammar/json_schema.h"
#include "text/test_support.h"

namespace quire {
namespace {

// Processor time: what other programs take does not count.
double microseconds_since(int64_t from_ns) { return static_cast<double>(ProcessCpuClock().now_ns() - from_ns) / 1e3; }

struct Cost {
  std::vector<double> us;
  double at(double share) {
    if (us.empty()) return 0;
    std::sort(us.begin(), us.end());
    return us[std::min(us.size() - 1, static_cast<size_t>(share * static_cast<double>(us.size())))];
  }
  double mean() const {
    double sum = 0;
    for (const double v : us) sum += v;
    return us.empty() ? 0 : sum / static_cast<double>(us.size());
  }
};

// As json.dumps separates; strings as Json prints them.
void spaced(const Json& v, std::string& out) {
  const char* separator = "";
  if (const Json::Array* a = v.as_array()) {
    out += '[';
    for (const Json& e : *a) {
      out += separator, separator = ", ";
      spaced(e, out);
    }
    out += ']';
  } else if (const Json::Object* o = v.as_object()) {
    out += '{';
    for (const auto& [key, value] : *o) {
      out += separator, separator = ", ";
      out += Json(key).dump() + ": ";
      spaced(value, out);
    }
    out += '}';
  } else {
    out += v.dump();
  }
}

void run(const Json& entry,
         const Tokenizer& tokenizer,
         const std::shared_ptr<const TokenTrie>& trie,
         Cost& masks,
         Cost& compiles) {
  const std::string schema = entry.find("schema")->dump();
  std::vector<uint32_t> mask(trie->n_words());
  const auto start = ProcessCpuClock().now_ns();
  const auto grammar = compile_json_schema(schema, {}, {});
  if (!grammar) return;
  {
    Matcher m(*grammar, trie);
    benchmark::DoNotOptimize(m.mask(mask));
  }
  compiles.us.push_back(microseconds_since(start));
  for (const Json& test : *entry.find("tests")->as_array()) {
    if (!*test.find("valid")->as_bool()) continue;
    std::string text;
    spaced(*test.find("data"), text);
    Matcher m(*grammar, trie);
    for (const Token t : encode(tokenizer, text)) {
      const auto from = ProcessCpuClock().now_ns();
      benchmark::DoNotOptimize(m.mask(mask));
      masks.us.push_back(microseconds_since(from));
      if (!m.accept(t)) break;
    }
  }
}

void mask_of_real_schemas(benchmark::State& state) {
  const auto vocabulary = shared_dir() / "tokenizers" / "gguf-vocab" / "ggml-vocab-llama-bpe.gguf";
  const auto dir = shared_dir() / "json-schema";
  if (!std::filesystem::exists(vocabulary) || !std::filesystem::exists(dir)) {
    state.SkipWithError("no test data");
    return;
  }
  const auto tokenizer = load_gguf_tokenizer(vocabulary);
  const auto trie = TokenTrie::of(*tokenizer, static_cast<size_t>(tokenizer->n_vocab()));
  Cost masks, compiles;
  for (auto _ : state) {
    masks.us.clear();
    compiles.us.clear();
    for (const char* file : {"Github_trivial", "Glaiveai2K", "MCPspec", "Snowplow"}) {
      std::ifstream in(dir / ("maskbench-" + std::string(file) + ".jsonl"));
      for (std::string line; std::getline(in, line);) run(*Json::parse(line), *tokenizer, trie, masks, compiles);
    }
  }
  const auto tell = [&](const char* what, Cost& cost) {
    state.counters[std::string(what) + "_n"] = static_cast<double>(cost.us.size());
    state.counters[std::string(what) + "_mean_us"] = cost.mean();
    state.counters[std::string(what) + "_p50_us"] = cost.at(0.5);
    state.counters[std::string(what) + "_p90_us"] = cost.at(0.9);
    state.counters[std::string(what) + "_p99_us"] = cost.at(0.99);
    state.counters[std::string(what) + "_max_us"] = cost.at(1);
  };
  tell("mask", masks);
  tell("compile", compiles);
}
BENCHMARK(mask_of_real_schemas)->Iterations(1)->Unit(benchmark::kMillisecond);

void build_trie(benchmark::State& state) {
  const auto vocabulary = shared_dir() / "tokenizers" / "gguf-vocab" / "ggml-vocab-llama-bpe.gguf";
  if (!std::filesystem::exists(vocabulary)) {
    state.SkipWithError("no test data");
    return;
  }
  const auto tokenizer = load_gguf_tokenizer(vocabulary);
  for (auto _ : state) benchmark::DoNotOptimize(TokenTrie::of(*tokenizer, static_cast<size_t>(tokenizer->n_vocab())));
}
BENCHMARK(build_trie)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire
