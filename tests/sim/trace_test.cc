// The first hour of real traffic, shrunk: everything that holds for random scripts holds for it, and where prompts
// share blocks the cache finds them.
#include <gtest/gtest.h>

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
  EXPECT_GT(out.counts.cached, kRequests * 8);
}

}  // namespace
}  // namespace quire::sim
