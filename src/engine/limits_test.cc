// What make_engine and the limits say no to, with numbers, before any memory is taken.
#include "engine/limits.h"

#include <gtest/gtest.h>

#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int64_t kCell = sizeof(TestModel::Cell);

struct Maker {
  Maker() : model(1000) { env.clock = &clock; }
  // The error's text; empty when an engine was made.
  std::string try_make(const EngineOptions& options, Code code = Code::invalid) {
    const auto made = make_engine(model, ops, options, env);
    if (made) return "";
    EXPECT_EQ(made.error().code, code);
    return made.error().message;
  }
  ManualClock clock;
  TestOps ops;
  TestModel model;
  EngineEnv env;
};

TEST(EngineOptions, OutOfRangeIsRefusedWithRangeAndValue) {
  Maker m;
  EXPECT_EQ(m.try_make({.max_seqs = 0}), "max_seqs must be 1 to 4096, got 0");
  EXPECT_EQ(m.try_make({.step_tokens = 65537}), "step_tokens must be 1 to 65536, got 65537");
  EXPECT_EQ(m.try_make({.max_chunk = -1}), "max_chunk must be 1 to 65536, got -1");
  EXPECT_EQ(m.try_make({.n_ctx = 1}), "n_ctx must be 2 to 268435456, got 1");
  EXPECT_EQ(m.try_make({.max_queue = 0}), "max_queue must be 1 to 1048576, got 0");
  for (const int bad : {0, 8, 24, 4112}) {
    EXPECT_EQ(m.try_make({.block_tokens = bad}),
              "block_tokens must be a multiple of 16 up to 4096, got " + std::to_string(bad));
  }
  EXPECT_EQ(m.try_make({.policy = "fastest"}), "policy \"fastest\" is unknown; there are: fcfs prefix priority");
}

TEST(EngineOptions, CacheMemoryMustHoldABlock) {
  Maker m;
  EXPECT_EQ(m.try_make({.kv_bytes = 16 * kCell - 1}),
            "kv memory of 255 bytes makes 0 blocks of 256 bytes; 1 to 134217727 are possible");
  EXPECT_EQ(m.try_make({.kv_bytes = -1}),
            "kv memory of -1 bytes makes 0 blocks of 256 bytes; 1 to 134217727 are possible");
  EXPECT_EQ(m.try_make({.kv_bytes = 16 * kCell}), "");
  const EngineOptions huge{.kv_bytes = int64_t{1} << 36};
  EXPECT_NE(m.try_make(huge).find("makes 268435456 blocks"), std::string::npos) << "a slot's number is an int32";
}

TEST(EngineOptions, MemoryThatIsNotThereIsAnError) {
  Maker m;
  m.ops.max_allocation = 1000;
  EXPECT_EQ(m.try_make({.kv_bytes = 8 * 16 * kCell}, Code::exhausted), "cannot allocate 2048 bytes");
}

TEST(EngineOptions, DefaultsAreFilledIn) {
  Maker m;
  const auto engine = make_engine(m.model, m.ops, {.max_seqs = 2}, m.env);
  ASSERT_TRUE(engine);
  EXPECT_EQ((*engine)->options().n_ctx, 1000);
  EXPECT_EQ((*engine)->options().kv_bytes, 2 * (1000 + 16) * kCell) << "as many contexts as can run";
  EXPECT_EQ((*engine)->stats().n_blocks, 2 * 1016 / 16);
}

TEST(DefaultKvBytes, IsBoundedByContextsAndByMemory) {
  EXPECT_EQ(default_kv_bytes(1 << 20, 1 << 10, 1), 1 << 20);
  EXPECT_EQ(default_kv_bytes(1 << 20, 1 << 10, 64), 8 << 20);
  const int64_t context = int64_t{1} << 50;  // more than there is
  const int64_t room = default_kv_bytes(context, 1 << 10, 64);
  EXPECT_GT(room, 1 << 20);
  EXPECT_LT(room, context);
  EXPECT_EQ(default_kv_bytes(context, context / 2, 64), context / 2) << "one block at least";
}

}  // namespace
}  // namespace quire
