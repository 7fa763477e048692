// The first hour of real traffic, shrunk: everything that holds for random scripts holds for it, and where prompts
// share blocks the cache finds them.
#include <gtest/gtest.h>

#include "base/sanitized.h"
#include "engine/scheduler.h"
#include "tests/sim/traces.h"
#include "tests/sim/world.h"

namespace quire::sim {
namespace {

constexpr int kRequests = kSanitized ? 150 : 1000;

TEST(Traces, AzureConversations) {
  const std::string path = trace_path("AzureLLMInferenceTrace_conv.csv");
  if (path.empty()) GTEST_SKIP() << "no data/traces/AzureLLMInferenceTrace_conv.csv in QUIRE_SHARED";
  const Result<Script> script = azure_script(path, {.length = 16, .time = 40, .n_requests = kRequests});
  ASSERT_TRUE(script) << script.error().message;
  const Outcome out = run(*script);
  EXPECT_EQ(out.failure, "");
  EXPECT_EQ(out.counts.submitted, kRequests);
  EXPECT_EQ(out.counts.finished, kRequests);
  EXPECT_EQ(out.counts.cached, 0) << "these prompts share nothing";
}

TEST(Traces, MooncakeConversationsFindTheirPast) {
  const std::string path = trace_path("mooncake_conversation_trace.jsonl");
  if (path.empty()) GTEST_SKIP() << "no data/traces/mooncake_conversation_trace.jsonl in QUIRE_SHARED";
  const Result<Script> script = mooncake_script(path, {.length = 32, .time = 20, .n_requests = kRequests});
  ASSERT_TRUE(script) << script.error().message;
  const Outcome out = run(*script);
  EXPECT_EQ(out.failure, "");
  EXPECT_EQ(out.counts.finished + out.counts.too_long + out.counts.never_fits, kRequests);
  EXPECT_GT(out.counts.cached, kRequests * 8);
}

// Lengths as they were, blocks of `block_tokens`: what share of the slots of blocks in use holds nothing, over all
// steps.
double empty_share(const Script& trace, int block_tokens) {
  constexpr int kTokenBytes = 4;
  EngineOptions options;
  options.n_ctx = 16384;
  options.block_tokens = block_tokens;
  const int n_blocks = 64 * 4096 / block_tokens;
  KvLayout layout;
  layout.claim(KvGroup{}, kTokenBytes);
  std::vector<Buffer> memory;
  memory.push_back(std::move(*Buffer::allocate(int64_t{kTokenBytes} * n_blocks * block_tokens)));
  KvCache cache(layout, std::move(memory), {block_tokens, n_blocks, true, nullptr});
  Scheduler scheduler(options, cache, *Registry<PolicyEntry>::get().find("fcfs")->get(), CacheKey{});
  SeqId id = 0;
  for (const RequestScript& r : trace.requests) {
    auto seq = std::make_unique<Sequence>();
    seq->id = ++id;
    seq->tokens = prompt_of(r);
    seq->n_prompt = static_cast<int>(seq->tokens.size());
    seq->request.max_tokens = r.max_tokens;
    scheduler.add(std::move(seq));
  }
  std::vector<Ended> ended;
  while (!scheduler.idle()) {
    std::vector<Sampled> sampled(static_cast<size_t>(scheduler.plan(0).n_out), Sampled{1, 0.0F, true, {}});
    scheduler.advance();
    scheduler.commit(sampled, 0, [](Sequence&, Sampled&, bool) {}, ended);
    ended.clear();
  }
  return 1 - static_cast<double>(scheduler.counters().n_filled_slot_steps) /
                 static_cast<double>(scheduler.counters().n_slot_steps);
}

TEST(Traces, UnderFourPercentOfTheSlotsAreEmptyAtTheirRealLengths) {
  const std::string path = trace_path("AzureLLMInferenceTrace_conv.csv");
  if (path.empty()) GTEST_SKIP() << "no data/traces/AzureLLMInferenceTrace_conv.csv in QUIRE_SHARED";
  const Result<Script> trace = azure_script(path, {.length = 1, .time = 1, .n_requests = kRequests});
  ASSERT_TRUE(trace) << trace.error().message;
  for (const int block_tokens : {16, 32, 64}) {
    const double empty = empty_share(*trace, block_tokens);
    RecordProperty("empty_slots_of_" + std::to_string(block_tokens), std::to_string(empty));
    EXPECT_GT(empty, 0);
    EXPECT_LT(empty, block_tokens == 16 ? 0.04 : 1.0);
  }
}

}  // namespace
}  // namespace quire::sim
