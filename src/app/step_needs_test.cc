#include "app/step_needs.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace quire {
namespace {

constexpr int kWindow = 8;

// 6 layers, 2 of them with all of the past; 10 numbers a vocabulary entry.
ModelInfo model() {
  ModelInfo out;
  out.n_layers = out.n_attention_layers = 6;
  out.n_vocab = 100;
  out.n_embd = 10;
  out.n_heads = 4;
  out.head_dim = 16;
  out.step_params = 5000;
  out.step_bytes = 2600;
  for (int l = 0; l < out.n_layers; ++l) {
    const bool local = l % 3 != 2;
    out.kv_layout.claim(local ? KvGroup{KvGroup::Kind::window, kWindow} : KvGroup{}, 128);
  }
  return out;
}

// Counted one row, layer and key at a time.
double plain_ops(const ModelInfo& info, int begin, int end, int n_out) {
  const int head = info.n_vocab * info.n_embd;
  double sum = 2.0 * head * n_out;
  for (int p = begin; p < end; ++p) {
    sum += 2.0 * static_cast<double>(info.step_params - head);
    for (int l = 0; l < info.n_layers; ++l) {
      for (int key = 0; key <= p; ++key) {
        const bool seen = l % 3 == 2 || key > p - kWindow;
        sum += seen ? 4.0 * info.n_heads * info.head_dim : 0;
      }
    }
  }
  return sum;
}

TEST(StepNeeds, OperationsAreThoseOfEveryRowLayerAndKey) {
  const ModelInfo info = model();
  const StepNeeds needs(info);
  for (const auto& [begin, end, n_out] : std::vector<std::array<int, 3>>{
           {0, 1, 1}, {0, 5, 0}, {0, 8, 1}, {0, 40, 1}, {5, 8, 3}, {5, 30, 2}, {20, 24, 4}}) {
    EXPECT_EQ(needs.ops(begin, end, n_out), plain_ops(info, begin, end, n_out)) << begin << " " << end;
  }
}

TEST(StepNeeds, OnlyRowsThatWantLogitsNeedTheHead) {
  const StepNeeds needs(model());
  EXPECT_EQ(needs.head_ops, 2.0 * 100 * 10);
  EXPECT_EQ(needs.row_ops, 2.0 * (5000 - 100 * 10));
  EXPECT_EQ(needs.ops(0, 16, 16) - needs.ops(0, 16, 1), 15 * needs.head_ops);
}

TEST(StepNeeds, ALongPromptIsItsPartsTogether) {
  const StepNeeds needs(model());
  EXPECT_EQ(needs.ops(0, 4096, 1), needs.ops(0, 512, 0) + needs.ops(512, 4096, 1));
}

TEST(StepNeeds, KeysAndValuesOutsideOfAWindowAreNotRead) {
  const StepNeeds needs(model());
  EXPECT_EQ(needs.weight_bytes, 2600);
  EXPECT_EQ(needs.kv_bytes(0, 1), 6 * 128);
  EXPECT_EQ(needs.kv_bytes(99, 100), 2 * 128 * 100 + 4 * 128 * kWindow);
}

TEST(StepNeeds, TheLimitIsThatOfTheUnitsThatMostWeightsUse) {
  const UnitPeak peak{.int8 = 400, .f32 = 100, .bf16 = 200};
  ModelInfo info = model();
  EXPECT_EQ(StepNeeds(info).limit(peak), 400);
  info.step_floats = info.step_params;
  EXPECT_EQ(StepNeeds(info).limit(peak), 100);
  info.step_bf16 = info.step_params / 2 + 1;
  EXPECT_EQ(StepNeeds(info).limit(peak), 200);
}

TEST(StepNeeds, AModelWithoutACacheNeedsItsMatricesOnly) {
  ModelInfo info = model();
  info.kv_layout = KvLayout();
  EXPECT_EQ(StepNeeds(info).ops(0, 3, 1), 3 * 8000 + 2000);
  EXPECT_EQ(StepNeeds(info).kv_bytes(0, 3), 0);
}

}  // namespace
}  // namespace quire
