// The first hour of real traffic, shrunk: everything that holds for random scripts holds for it, and where prompts
// share blocks the cache finds them.
#include <gtest/gtest.h>

#include "engine/policy.h"
#include "tests/sim/traces.h"
#include "tests/sim/world.h"

namespace quire::sim {
namespace {

#ifdef QR_DEBUG
constexpr int kRequests = 150;  // sanitizers are slower
#else
constexpr int kRequests = 1000;
#endif

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
  EXPECT_GT(out.counts.cached, kRequests * 16);
}

// The whole of both, under each policy and little memory; ./dev sim runs them.
TEST(Traces, DISABLED_AllOfBothUnderEveryPolicy) {
  const std::string azure = trace_path("AzureLLMInferenceTrace_conv.csv");
  const std::string mooncake = trace_path("mooncake_conversation_trace.jsonl");
  if (azure.empty() || mooncake.empty()) GTEST_SKIP() << "no data/traces in QUIRE_SHARED";
  for (const std::string& policy : Registry<PolicyEntry>::get().names()) {
    for (const bool with_blocks : {false, true}) {
      Result<Script> script = with_blocks ? mooncake_script(mooncake, {.length = 32, .time = 20})
                                          : azure_script(azure, {.length = 16, .time = 40});
      ASSERT_TRUE(script);
      script->knobs.policy = policy;
      script->knobs.n_blocks = 3 * script->knobs.n_ctx / 2 / script->knobs.block_tokens;
      const Outcome out = run(*script);
      EXPECT_EQ(out.failure, "") << policy;
      std::printf("%s %s: %s\n", with_blocks ? "mooncake" : "azure", policy.c_str(), out.counts.text().c_str());
    }
  }
}

}  // namespace
}  // namespace quire::sim
