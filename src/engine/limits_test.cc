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
  EXPECT_EQ(m.try_make({.step_tokens = 65536}), "step_tokens must be 1 to 65535, got 65536");
  EXPECT_EQ(m.try_make({.max_chunk = -1}), "max_chunk must be 1 to 65535, got -1");
  EXPECT_EQ(m.try_make({.n_ctx = 1}), "n_ctx must be 2 to 268435456, got 1");
  EXPECT_EQ(m.try_make({.max_queue = 0}), "max_queue must be 1 to 1048576, got 0");
  for (const int bad : {0, 8, 24, 4112}) {
    EXPECT_EQ(m.try_make({.block_tokens = bad}),
              "block_tokens must be a multiple of 16 up to 4096, got " + std::to_string(bad));
  }
  EXPECT_EQ(m.try_make({.policy = "fastest"}),
            "policy \"fastest\" is unknown; there are: deadlines fcfs prefix priority vtc");
}

TEST(EngineOptions, AContextShiftMustFitWhatIsAskedBesides) {
  const auto error = [](const ContextShift& shift, const BesideShift& wanted) -> std::string {
    const Status status = check_shift(shift, 32, wanted);
    return status ? "" : status.error().message;
  };
  const std::string named = "a context shift with 4 sinks and a window of ";
  EXPECT_EQ(error({4, 32}, {}), "");
  EXPECT_EQ(error({4, 31}, {}), named + "31 tokens needs a window of at least a block, which is 32 tokens");
  EXPECT_EQ(error({4, 64}, {.learned_prefixes = true}),
            named + "64 tokens excludes learned prefixes: the window would leave them behind");
  EXPECT_EQ(error({4, 64}, {.recording = true}), named + "64 tokens excludes a recording: what is kept is in none");
  EXPECT_EQ(error({}, {.learned_prefixes = true, .recording = true}), "") << "there is none";
}

TEST(EngineOptions, AStateExcludesWhatWouldKeepItElsewhere) {
  KvLayout layout;
  const auto error = [&](const BesideState& wanted) -> std::string {
    const Status status = check_state(layout, wanted);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(error({true, true, true}), "") << "there is none";
  layout.claim_state(640);
  const std::string named = "a model whose layers keep a state of 640 bytes ";
  EXPECT_EQ(error({}), "");
  EXPECT_EQ(error({.learned_prefixes = true}),
            named + "takes no learned prefixes: they bring keys and values but no state");
  EXPECT_EQ(error({.recording = true}), named + "cannot be recorded: a recording does not hold layers' states");
  EXPECT_EQ(error({.disk = true}), named + "excludes kv_disk and kv_remote: states are not stored there");
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
  EXPECT_EQ((*engine)->options().kv_bytes, 2 * 63 * 16 * kCell) << "as many contexts as can run";
  EXPECT_EQ((*engine)->stats().n_blocks, 2 * 63);
}

TEST(DefaultKvBytes, IsBoundedByContextsAndByMemory) {
  const auto bytes = [](int n_ctx, int64_t token_bytes, int max_seqs) {
    KvLayout layout;
    layout.claim(KvGroup{}, token_bytes);
    return default_kv_bytes({.max_seqs = max_seqs, .n_ctx = n_ctx}, layout, int64_t{1} << 36);
  };
  EXPECT_EQ(bytes(1024, 1024, 1), 1 << 20);
  EXPECT_EQ(bytes(1024, 1024, 64), 8 << 20);
  EXPECT_EQ(bytes(1 << 28, 1 << 22, 64), int64_t{1} << 35) << "half, where one context takes more";
  EXPECT_EQ(bytes(1 << 14, 1 << 20, 64), int64_t{1} << 34) << "a quarter, where many do";
  EXPECT_EQ(bytes(1 << 28, int64_t{1} << 45, 64), int64_t{1} << 49) << "one block at least";
}

// Two bytes of a token in full layers, ten in those with a window of 100: blocks of 32 and 160 bytes.
KvLayout with_window() {
  KvLayout layout;
  layout.claim({KvGroup::Kind::window, 100}, 12);
  layout.claim(KvGroup{}, 4);
  return layout;
}

TEST(CountBlocks, WindowsGetWhatMayRunAndHalfOfTheMemoryAtMost) {
  // 100 + 1 tokens touch 8 blocks at most, a step of 64 fills 4 more.
  EngineOptions o{.max_seqs = 4, .step_tokens = 64, .max_chunk = 64, .n_ctx = 4096, .kv_bytes = 1 << 20};
  auto counts = count_blocks(o, with_window());
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->n_window_blocks, 4 * 8 + 4);
  EXPECT_EQ(counts->n_blocks, ((1 << 20) - 36 * 192) / 64);
  o.max_seqs = 64;
  o.kv_bytes = 64 * 192;  // a quarter of the blocks that windows take in all
  counts = count_blocks(o, with_window());
  EXPECT_EQ(counts->n_window_blocks, 32);
  EXPECT_EQ(counts->n_blocks, 32 * 192 / 64);
  o.kv_bytes = 10 * 256;  // under a window and a step: no request is longer than these
  counts = count_blocks(o, with_window());
  EXPECT_EQ(counts->n_window_blocks, 10);
  EXPECT_EQ(counts->n_blocks, 10);
  o.n_window_blocks = 3;
  EXPECT_EQ(count_blocks(o, with_window()).error().message,
            "n_window_blocks must be at least 12 for a window and a step, got 3");
}

// Tokens that are not packed: two blocks of each that runs and those of a step, half of the memory at most; one whole
// context comes first.
TEST(CountBlocks, TailsGetWhatAStepFills) {
  KvLayout layout;
  layout.claim(KvGroup{}, 4);
  layout.claim(kTailGroup, 20);
  EngineOptions o{.max_seqs = 4, .step_tokens = 64, .max_chunk = 64, .n_ctx = 4096, .kv_bytes = 1 << 20};
  auto counts = count_blocks(o, layout);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->n_tail_blocks, 4 * 2 + 4);
  EXPECT_EQ(counts->of(kTailGroup), 12);
  EXPECT_EQ(counts->n_window_blocks, 0);
  EXPECT_EQ(counts->n_blocks, ((1 << 20) - 12 * 320) / 64);
  o.max_seqs = 64;
  o.kv_bytes = cache_bytes(o, layout, 1);
  EXPECT_EQ(o.kv_bytes, 4096 * 4 + (2 + 4) * 320);
  counts = count_blocks(o, layout);
  EXPECT_EQ(counts->n_tail_blocks, 6);
  EXPECT_EQ(counts->n_blocks, 256);
  o.kv_bytes = 14 * 320;
  counts = count_blocks(o, layout);
  EXPECT_EQ(counts->n_tail_blocks, 7) << "half";
  EXPECT_EQ(counts->n_blocks, 7 * 320 / 64);
  o.kv_bytes = 5 * 320;
  EXPECT_EQ(count_blocks(o, layout).error().message,
            "kv memory of 1600 bytes makes 0 blocks of 64 bytes beside 5 of tokens that are not packed; 1 to 134217727 "
            "are possible");
  EXPECT_FALSE(check_tails(layout, true));
  EXPECT_TRUE(check_tails(layout, false));
}

TEST(CountBlocks, StatesGetThreeForEachThatRunsAndHalfOfTheMemoryAtMost) {
  KvLayout layout;
  layout.claim(KvGroup{}, 4);
  layout.claim_state(640);
  EngineOptions o{.max_seqs = 4, .step_tokens = 64, .max_chunk = 64, .n_ctx = 4096, .kv_bytes = 1 << 20};
  auto counts = count_blocks(o, layout);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->n_states, 12);
  EXPECT_EQ(counts->n_blocks, ((1 << 20) - 12 * 640) / 64);
  EXPECT_EQ(cache_bytes(o, layout, 1), 4096 * 4 + 3 * 640);
  o.kv_bytes = 10 * 640;
  counts = count_blocks(o, layout);
  EXPECT_EQ(counts->n_states, 5);
  EXPECT_EQ(counts->n_blocks, 5 * 640 / 64);
  o.kv_bytes = 3 * 640;
  EXPECT_EQ(count_blocks(o, layout)->n_states, 2) << "one cannot go on with fewer";
  o.kv_bytes = 2 * 640 - 1;
  EXPECT_EQ(count_blocks(o, layout).error().message, "kv memory of 1279 bytes has no room for 2 states of 640 bytes");
  o.kv_bytes = 10 * 640;
  o.n_states = 7;
  EXPECT_EQ(count_blocks(o, layout)->n_blocks, 3 * 640 / 64);
  o.n_states = 1;
  EXPECT_FALSE(count_blocks(o, layout));
  EXPECT_EQ(count_blocks(o, layout).error().message,
            "n_states must be at least 2, one that is read and one that is written, got 1");
  o.n_states = 10;
  EXPECT_EQ(count_blocks(o, layout).error().message,
            "kv memory of 6400 bytes makes 0 blocks of 64 bytes beside 10 states; 1 to 134217727 are possible");
  o.n_states = 11;
  EXPECT_EQ(count_blocks(o, layout).error().message, "kv memory of 6400 bytes has no room for 11 states of 640 bytes");
  layout.claim({KvGroup::Kind::window, 100}, 12);
  o.n_states = 2;
  o.n_window_blocks = 27;
  EXPECT_EQ(count_blocks(o, layout).error().message,
            "kv memory of 6400 bytes makes 0 blocks of 64 bytes beside 27 for windows and 2 states; 1 to 134217727 are "
            "possible");
}

// The memory that is taken for one context holds one, however many may run: their states leave it its blocks.
TEST(CountBlocks, OneWholeContextComesBeforeStates) {
  KvLayout layout;
  layout.claim(KvGroup{}, 4);
  layout.claim_state(640);
  const int64_t context = 4096 * 4;
  EngineOptions o{.max_seqs = 64, .step_tokens = 64, .max_chunk = 64, .n_ctx = 4096, .kv_bytes = context + 3 * 640};
  EXPECT_EQ(cache_bytes(o, layout, 1), o.kv_bytes);
  auto counts = count_blocks(o, layout);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->n_states, 3);
  EXPECT_EQ(counts->n_blocks, 256);
  o.kv_bytes -= 1;  // it fits no more, so that half is for states
  counts = count_blocks(o, layout);
  EXPECT_EQ(counts->n_states, (context + 3 * 640 - 1) / 2 / 640);
  layout.claim({KvGroup::Kind::window, 100}, 12);
  o.kv_bytes = cache_bytes(o, layout, 1);
  counts = count_blocks(o, layout);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->n_states, 3);
  EXPECT_EQ(counts->n_window_blocks, 12);
  EXPECT_EQ(counts->n_blocks, 256);
}

TEST(CountBlocks, OneWholeContextInAWindowThatIsAsLongComesBeforeStates) {
  KvLayout layout;
  layout.claim(KvGroup{}, 4);
  layout.claim({KvGroup::Kind::window, 4096}, 12);
  layout.claim_state(640);
  EngineOptions o{.max_seqs = 64, .step_tokens = 64, .max_chunk = 64, .n_ctx = 4096};
  o.kv_bytes = cache_bytes(o, layout, 1);
  const auto counts = count_blocks(o, layout);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->n_states, 3);
  EXPECT_EQ(counts->n_window_blocks, 256);
  EXPECT_EQ(counts->n_blocks, 256);
}

TEST(CountBlocks, StatesAloneTakeAllMemoryAndTheRestIsNumbers) {
  KvLayout layout;
  layout.claim_state(640);
  EngineOptions o{.max_seqs = 4, .step_tokens = 64, .max_chunk = 64, .n_ctx = 4096, .kv_bytes = 9 * 640};
  const auto counts = count_blocks(o, layout);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->n_states, 9);
  EXPECT_EQ(counts->n_blocks, 4 * 256);
  o.n_ctx = 1 << 28;
  o.max_seqs = 8;
  EXPECT_EQ(count_blocks(o, layout).error().message,
            "kv memory of 5760 bytes makes 134217728 blocks of 0 bytes beside 9 states; 1 to 134217727 are possible");
}

TEST(CountBlocks, WindowsAloneTakeAllMemoryAndTheRestIsNumbers) {
  KvLayout layout;
  layout.claim({KvGroup::Kind::window, 100}, 12);
  EngineOptions o{.max_seqs = 2, .step_tokens = 64, .max_chunk = 64, .n_ctx = 4096, .kv_bytes = 50 * 192};
  auto counts = count_blocks(o, layout);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->n_window_blocks, 50);
  EXPECT_EQ(counts->n_blocks, 2 * 256);
  o.kv_bytes = 5 * 192;
  EXPECT_EQ(count_blocks(o, layout)->n_blocks, 5);
  o.kv_bytes = 191;
  EXPECT_EQ(count_blocks(o, layout).error().code, Code::invalid);
}

TEST(CacheBytes, GrowByTheFullLayersAloneBehindTheWindow) {
  EngineOptions o{.max_seqs = 1, .step_tokens = 64, .max_chunk = 64, .n_ctx = 64};
  EXPECT_EQ(cache_bytes(o, with_window(), 1), 4 * (64 + 192));
  o.n_ctx = 1024;
  const int64_t short_context = cache_bytes(o, with_window(), 1);
  EXPECT_EQ(short_context, 64 * 64 + 12 * 192);
  o.n_ctx = 2048;
  EXPECT_EQ(cache_bytes(o, with_window(), 1), short_context + 64 * 64);
}

}  // namespace
}  // namespace quire
