// What one row of a large vocabulary costs to sample on one core, by request. Logits are a peaked distribution as
// models make them: most of the mass on a few tokens, a long normal tail.
#include <benchmark/benchmark.h>

#include "backend/cpu/cpu_ops.h"
#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kVocab = 128 << 10;

std::vector<float> peaked_logits() {
  Rng rng(1);
  std::vector<float> out;
  for (int64_t i = 0; i < kVocab; ++i) out.push_back(2.0F * rng.normal());
  for (int i = 0; i < 40; ++i) out[static_cast<size_t>(rng.between(0, kVocab - 1))] = 12.0F + 2.0F * rng.normal();
  return out;
}

void run(benchmark::State& state, SampleParams params, const LogitEdits& edits = {}) {
  auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = "", .pin = false});
  std::vector<float> logits = peaked_logits();
  const Tensor row = Tensor::dense(logits.data(), DType::f32, {1, kVocab});
  params.edits = &edits;
  std::vector<Sampled> out(1);
  uint64_t position = 0;
  for (auto _ : state) {
    params.draw = random_unit(1, position++);
    (*ops)->sample(out, row, {&params, 1});
    benchmark::DoNotOptimize(out[0].token);
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel((*ops)->describe());
}

SampleParams warm() {
  SampleParams s;
  s.temperature = 0.8F;
  s.logprob = false;
  return s;
}

void greedy(benchmark::State& state) {
  SampleParams s = warm();
  s.temperature = 0.0F;
  run(state, s);
}
void top_k_top_p(benchmark::State& state) {
  SampleParams s = warm();
  s.top_k = 50;
  s.top_p = 0.95F;
  run(state, s);
}
void top_k_top_p_penalties(benchmark::State& state) {
  SampleParams s = warm();
  s.top_k = 50;
  s.top_p = 0.95F;
  LogitEdits edits;
  Rng rng(2);
  for (int i = 0; i < 500; ++i) edits.sparse.push_back({static_cast<Token>(rng.between(0, kVocab - 1)), -0.1F, 1.1F});
  run(state, s, edits);
}
void min_p(benchmark::State& state) {
  SampleParams s = warm();
  s.min_p = 0.05F;
  run(state, s);
}
void top_p(benchmark::State& state) {
  SampleParams s = warm();
  s.top_p = 0.95F;
  run(state, s);
}
void temperature_only(benchmark::State& state) { run(state, warm()); }
void logprobs(benchmark::State& state) {
  SampleParams s = warm();
  s.top_k = 50;
  s.top_p = 0.95F;
  s.logprob = true;
  s.n_top = 20;
  run(state, s);
}
void typical_p(benchmark::State& state) {
  SampleParams s = warm();
  s.typical_p = 0.9F;
  run(state, s);
}

// One token in `one_of` allowed, or forbidden.
void masked(benchmark::State& state, int one_of, bool allowed) {
  LogitEdits edits;
  edits.bitmask.assign(kVocab / 32, allowed ? 0U : ~0U);
  Rng rng(3);
  for (int64_t i = 0; i < kVocab / one_of; ++i) {
    const auto id = static_cast<size_t>(rng.between(0, kVocab - 1));
    edits.bitmask[id / 32] ^= 1U << (id % 32);
  }
  SampleParams s = warm();
  s.top_p = 0.95F;
  run(state, s, edits);
}
void masked_few(benchmark::State& state) { masked(state, 4096, true); }
void masked_most(benchmark::State& state) { masked(state, 32, false); }

BENCHMARK(greedy);
BENCHMARK(top_k_top_p);
BENCHMARK(top_k_top_p_penalties);
BENCHMARK(min_p);
BENCHMARK(top_p);
BENCHMARK(temperature_only);
BENCHMARK(logprobs);
BENCHMARK(typical_p);
BENCHMARK(masked_few);
BENCHMARK(masked_most);

}  // namespace
}  // namespace quire
