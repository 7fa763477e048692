#include "app/memory_plan.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// 1 MiB per 16 tokens.
MemoryNeeds needs() {
  MemoryNeeds out;
  out.weights = 100 * kMiB;
  out.scratch = 10 * kMiB;
  out.process = 24 * kMiB;
  out.token_bytes = kMiB / 16;
  out.block_tokens = 16;
  out.n_ctx = 4096;
  return out;
}
constexpr int64_t kFixed = (110 + 24) * kMiB;

EngineOptions wanted(int n_ctx, int64_t kv_bytes = 0) {
  EngineOptions out;
  out.n_ctx = n_ctx;
  out.kv_bytes = kv_bytes;
  return out;
}

TEST(MemoryPlan, EightContextsWhereThereIsPlenty) {
  const auto plan = plan_memory(needs(), kFixed + 100'000 * kMiB, wanted(0));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->n_ctx, 4096);
  EXPECT_EQ(plan->kv_bytes, (8 * 256 + 1) * kMiB);
}

TEST(MemoryPlan, HalfOfWhatIsLeftWhereThatIsLess) {
  const auto plan = plan_memory(needs(), kFixed + 1000 * kMiB, wanted(0));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->n_ctx, 4096);
  EXPECT_EQ(plan->kv_bytes, 500 * kMiB);
}

TEST(MemoryPlan, OneContextTakesAllThatIsLeft) {
  const auto plan = plan_memory(needs(), kFixed + 256 * kMiB, wanted(0));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->n_ctx, 4096);
  EXPECT_EQ(plan->kv_bytes, 256 * kMiB);
}

// They are loaded when the cache is there, which leaves them what nobody asked it to take.
TEST(MemoryPlan, TheCacheLeavesRoomForAdapters) {
  MemoryNeeds with = needs();
  with.adapters = 56 * kMiB;
  const auto plan = plan_memory(with, kFixed + 256 * kMiB, wanted(0));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->kv_bytes, 192 * kMiB);
  const auto asked = plan_memory(with, kFixed + 256 * kMiB, wanted(1000, 201 * kMiB));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->kv_bytes, 201 * kMiB);
  for (const auto& [adapters, cache] : {std::pair{400, 500}, {600, 400}, {900, 256}}) {
    with.adapters = adapters * kMiB;
    const auto of_many = plan_memory(with, kFixed + 1000 * kMiB, wanted(4096));
    ASSERT_TRUE(of_many);
    EXPECT_EQ(of_many->kv_bytes, cache * kMiB) << adapters;
  }
}

TEST(MemoryPlan, AContextThatNobodyAskedForShrinks) {
  const auto plan = plan_memory(needs(), kFixed + 100 * kMiB, wanted(0));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->n_ctx, 1536);  // a multiple of 256
  EXPECT_EQ(plan->kv_bytes, 96 * kMiB);
}

TEST(MemoryPlan, SaysWhatDoesNotFitAndWhatWould) {
  const auto message = [](int64_t left, const EngineOptions& options) {
    const auto plan = plan_memory(needs(), kFixed + left, options);
    EXPECT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::exhausted);
    return plan.error().message;
  };
  EXPECT_EQ(
      message(100 * kMiB, wanted(4096)),
      "--ctx 4096 does not fit: needs 390.0 MiB, has 234.0 MiB; try --ctx 1536, --weights q8_0 or a smaller model");
  EXPECT_EQ(message(100 * kMiB, wanted(0, 101 * kMiB)),
            "--kv-memory 101.0 MiB does not fit: needs 235.0 MiB, has 234.0 MiB; try --kv-memory 100M or auto");
  EXPECT_EQ(
      message(-50 * kMiB, wanted(0)),
      "the model does not fit: needs 166.0 MiB, has 84.0 MiB; try --weights q8_0, a smaller model or more memory");
  EXPECT_EQ(message(20 * kMiB, wanted(0)),
            "the model with a context does not fit: needs 166.0 MiB, has 154.0 MiB; try --weights q8_0 or a "
            "smaller model");
}

TEST(MemoryPlan, NobodyIsToldToTakeAFormatThatIsNoSmaller) {
  MemoryNeeds of = needs();
  const std::pair<double, const char*> formats[] = {
      {16, "--weights q8_0"}, {8.5, "--weights q4_k"}, {6.6, "--weights q4_k"}, {5, ""}, {4.5, ""}};
  for (const auto& [bits, advice] : formats) {
    of.matrix_elements = static_cast<int64_t>(static_cast<double>(of.weights) * 8 / bits);
    EXPECT_EQ(smaller_weights(of), advice) << bits;
  }
  const auto plan = plan_memory(of, kFixed - 50 * kMiB, wanted(0));
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("try a smaller model or more memory"), std::string::npos) << plan.error().message;
}

TEST(MemoryPlan, WhatWasAskedForIsTakenWhereItFits) {
  const auto plan = plan_memory(needs(), kFixed + 300 * kMiB, wanted(1000, 300 * kMiB));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->n_ctx, 1000);
  EXPECT_EQ(plan->kv_bytes, 300 * kMiB);
}

TEST(MemoryPlan, AContextThatWasAskedForFitsTheCacheThatWasAskedForOrIsRefused) {
  MemoryNeeds of = needs();
  EXPECT_TRUE(check_context(of, 1024, 64 * kMiB));
  EXPECT_TRUE(check_context(of, 0, kMiB));
  EXPECT_TRUE(check_context(of, 1024, 0));
  const Status small = check_context(of, 1025, 64 * kMiB + kMiB / 2);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, Code::exhausted);
  EXPECT_EQ(small.error().message,
            "--ctx 1025 in that --kv-memory does not fit: needs 65.0 MiB, has 64.5 MiB; try --ctx 1024 or "
            "--kv-memory 65M");
  // What guesses has a cache of its own.
  of.draft.token_bytes = kMiB / 16;
  of.token_bytes += of.draft.token_bytes;
  EXPECT_TRUE(check_context(of, 1024, 64 * kMiB));
  // Layers with a window need it once.
  of = needs();
  of.window_token_bytes = kMiB / 32;
  of.window_tokens = 64;
  EXPECT_TRUE(check_context(of, 1024, 34 * kMiB));
  const Status tight = check_context(of, 1024, 33 * kMiB);
  ASSERT_FALSE(tight);
  EXPECT_NE(tight.error().message.find("try --ctx 992 or --kv-memory 34M"), std::string::npos) << tight.error().message;
}

TEST(MemoryPlan, SizesReadWell) {
  EXPECT_EQ(memory_text(1536 * 1024), "1.5 MiB");
  EXPECT_EQ(memory_text(3 * 1024 * kMiB + 256 * kMiB), "3.25 GiB");
}

}  // namespace
}  // namespace quire
