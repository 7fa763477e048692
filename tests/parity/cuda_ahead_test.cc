// Steps that are asked for while the ones before them run: what they pick, take and send has the bits of steps that
// the host waits for one by one.
#include <limits>

#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

// Memory that kernels write whole numbers into.
Tensor written_ints(Bench& bench, int64_t n) { return Tensor::dense(bench.bytes(n * 4, 0), DType::i32, {n}); }

void append(std::vector<float>& out, std::span<const int32_t> numbers) {
  for (const int32_t number : numbers) out.push_back(static_cast<float>(number));
}

void append(std::vector<float>& out, std::span<const Sampled> drawn) {
  for (const Sampled& one : drawn) out.insert(out.end(), {static_cast<float>(one.token), one.logprob});
}

enum class Logits : uint8_t { any, with_equals, least_but_one, least };

// What is picked is what is sampled.
template <int64_t kVocab, Logits kKind, bool kIsDrawn>
std::vector<float> picked_ids(Bench& bench) {
  constexpr int64_t kRows = 7;
  Matrix logits(kRows, kVocab, 11, 3.0F);
  for (float& x : logits.values) {
    if (kKind == Logits::with_equals) x = std::round(x / 4);  // zeros of both signs among them
    if (kKind == Logits::least_but_one || kKind == Logits::least) x = kLeast;
  }
  if (kKind == Logits::least_but_one) {
    for (int64_t i = 0; i < kRows; ++i) logits.values[static_cast<size_t>(i * kVocab + (i * 37 + 5) % kVocab)] = -7;
  }
  std::vector<SampleParams> params(kRows);
  for (size_t i = 0; kIsDrawn && i < kRows; ++i) {
    params[i].temperature = i == 3 ? 0.0F : 0.05F + 0.7F * static_cast<float>(i);
    params[i].draw = i == 0 ? 0.0 : i == 1 ? 1.0 - 0x1p-53 : random_unit(kVocab, i);
  }
  const Tensor picked = written_ints(bench, kRows + 1), y = bench.floats(std::move(logits));
  bench.ahead().pick(picked, y, pick_numbers(bench, params));
  std::vector<Sampled> drawn(kRows);
  bench.ops().sample(drawn, y, params);
  bench.ops().finish();
  for (size_t i = 0; i < kRows && kKind != Logits::least; ++i) EXPECT_EQ(picked.ptr<int32_t>()[i], drawn[i].token) << i;
  std::vector<float> out;
  append(out, picked.span<int32_t>());
  return out;
}

template <Logits kKind, bool kIsDrawn>
void expect_same_picks() {
  expect_same(picked_ids<1, kKind, kIsDrawn>);
  expect_same(picked_ids<31, kKind, kIsDrawn>);
  expect_same(picked_ids<256, kKind, kIsDrawn>);
  expect_same(picked_ids<257, kKind, kIsDrawn>);
  expect_same(picked_ids<1024, kKind, kIsDrawn>);
  expect_same(picked_ids<5003, kKind, kIsDrawn>);
  if (kIsDrawn) expect_same(picked_ids<20 * 1024 + 1, kKind, kIsDrawn>);  // more chunks than are summed at once
}

TEST(CudaAhead, TheLargestIsPickedAndOfEqualsTheFirst) {
  expect_same_picks<Logits::any, false>();
  expect_same_picks<Logits::with_equals, false>();
  expect_same_picks<Logits::least_but_one, false>();
  expect_same_picks<Logits::least, false>();
}

TEST(CudaAhead, DrawsAreTheCpus) {
  expect_same_picks<Logits::any, true>();
  expect_same_picks<Logits::with_equals, true>();
  expect_same_picks<Logits::least_but_one, true>();
}

// Of a row with a NaN or an infinity it is not said which id, but that it is one.
TEST(CudaAhead, WhatIsNoNumberHasAnIdToo) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    static float t_bad = 0;
    t_bad = bad;
    const Body body = [](Bench& bench) {
      Matrix logits(3, 300, 5);
      for (const size_t i : {0, 300 + 299, 600 + 7}) logits.values[i] = t_bad;
      const Tensor picked = written_ints(bench, 3);
      std::vector<SampleParams> params(3);
      params[1].temperature = params[2].temperature = 0.7F;
      bench.ahead().pick(picked, bench.floats(std::move(logits)), pick_numbers(bench, params));
      bench.ops().finish();
      for (const int32_t id : picked.span<int32_t>()) {
        EXPECT_GE(id, 0);
        EXPECT_LT(id, 300);
      }
      return std::vector<float>{};
    };
    on_cpu(body);
    on_devices(body);
  }
}

// A model of one matrix, whose next token follows from its last. Steps of five rows, which change their places, of
// which one is the host's. kAhead: each is asked for before the one before it is waited for.
template <bool kAhead>
std::vector<float> steps(Bench& bench) {
  constexpr int64_t kRows = 5, kVocab = 300, kWide = 64;
  constexpr int kSteps = 7;
  Ops& ops = bench.ops();
  AheadOps& ahead = bench.ahead();
  const Linear table = bench.matrix(kVocab, kWide, 1), head = bench.matrix(kVocab, kWide, 2);
  const Tensor picked = written_ints(bench, kRows), ids = written_ints(bench, kRows);
  const Tensor x = bench.floats(Matrix(kRows, kWide)), logits = bench.floats(Matrix(kRows, kVocab));
  Arena arena(*ops.allocate_arena(4096));
  constexpr int64_t kLogitBytes = kRows * kVocab * 4;
  const Buffer sent[] = {*ahead.allocate_sent(kLogitBytes + kRows * 4), *ahead.allocate_sent(kLogitBytes + kRows * 4)};
  const auto in_slot = [&](int step) {
    std::byte* data = sent[step % 2].data();
    return StepRows{Tensor::dense(data, DType::f32, {kRows, kVocab}),
                    Tensor::dense(data + kLogitBytes, DType::i32, {kRows})};
  };
  std::vector<SampleParams> params(kRows);
  params[1].temperature = params[4].temperature = 0.8F;
  params[4].top_k = 20;
  std::vector<float> out;
  const auto draws = [&](int step, int32_t* to) {
    for (size_t i = 0; i < kRows; ++i) {
      params[i].draw = random_unit(static_cast<uint64_t>(step), i);
      if (to != nullptr) put_pick(params[i], to + i * kPickNumbers);
    }
  };
  const auto ask = [&](int step) {
    arena.reset();
    const Tensor known = arena.alloc(DType::i32, {kRows}), from = arena.alloc(DType::i32, {kRows});
    for (int i = 0; i < kRows; ++i) {
      const bool is_hosts = step == 0 || i == step % 5;
      known.ptr<int32_t>()[i] = is_hosts ? 17 * step + i : 0;
      from.ptr<int32_t>()[i] = is_hosts ? -1 : (i + 3) % 5;
    }
    const Tensor by = arena.alloc(DType::i32, {kRows, kPickNumbers});
    draws(step, by.ptr<int32_t>());
    ahead.take_picked(ids, known, picked, from);
    ops.embed(x, ids, table);
    ops.linear(logits, x, std::span(&head, 1));
    ahead.pick(picked, logits, by);
    ahead.send(in_slot(step), {logits, picked}, step % 2);
  };
  const auto take = [&](int step) {
    const Status arrived = ahead.arrived(step % 2);
    ASSERT_TRUE(arrived);
    std::vector<Sampled> drawn(kRows);
    draws(step, nullptr);
    const StepRows arrived_rows = in_slot(step);
    ahead.sample_sent(drawn, arrived_rows.logits, params);
    for (size_t i = 0; i < kRows; ++i) EXPECT_EQ(arrived_rows.picked.ptr<int32_t>()[i], drawn[i].token) << i;
    append(out, drawn);
  };
  for (int step = 0; step < kSteps; ++step) {
    ask(step);
    if (!kAhead) take(step);
    if (kAhead && step > 0) take(step - 1);
  }
  if (kAhead) take(kSteps - 1);
  ops.finish();
  return out;
}

TEST(CudaAhead, StepsThatAreAskedForAheadHaveTheBitsOfThoseThatAreNot) {
  const std::vector<float> truth = on_cpu(steps<false>);
  EXPECT_TRUE(same_bits(truth, on_cpu(steps<true>)));
  for (const Body body : {steps<false>, steps<true>}) {
    for (const std::vector<float>& got : on_devices(body)) EXPECT_TRUE(same_bits(truth, got));
  }
}

}  // namespace
}  // namespace quire
