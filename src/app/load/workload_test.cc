#include "app/load/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace quire {
namespace {

Workload made(const WorkloadOptions& options) {
  auto out = Workload::make(options);
  EXPECT_TRUE(out) << out.error().message;
  return *std::move(out);
}

std::string refusal(const WorkloadOptions& options) {
  const auto out = Workload::make(options);
  return out ? "" : out.error().message;
}

std::string file_with(const char* name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

int64_t n_words(const std::string& text) { return std::count(text.begin(), text.end(), ' ') + 1; }

TEST(Workload, FollowsFromItsSeed) {
  WorkloadOptions options{
      .rate = 10, .n_sessions = 50, .turns = 2, .spread = 0.5, .shared_tokens = 20, .n_prefixes = 3};
  const Workload a = made(options), b = made(options);
  options.seed = 2;
  const Workload other = made(options);
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(a.at_ns(i), b.at_ns(i));
    EXPECT_EQ(a.session(i).system, b.session(i).system);
    ASSERT_EQ(a.session(i).turns.size(), 2U);
    for (size_t t = 0; t < 2; ++t) {
      EXPECT_EQ(a.session(i).turns[t].text, b.session(i).turns[t].text);
      EXPECT_EQ(a.session(i).turns[t].max_tokens, b.session(i).turns[t].max_tokens);
    }
    EXPECT_NE(a.session(i).turns[0].text, other.session(i).turns[0].text);
    EXPECT_NE(a.session(i).turns[0].text, a.session(i).turns[1].text);
  }
}

TEST(Workload, FixedArrivalsAreEvenAndThoseOfAPoissonProcessHaveItsMeanAndVariance) {
  const Workload fixed = made({.rate = 4, .arrivals = "fixed", .seconds = 10});
  ASSERT_EQ(fixed.size(), 40);
  for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(fixed.at_ns(i), i * 250'000'000);

  const Workload poisson = made({.rate = 1000, .n_sessions = 100'000});
  double sum = 0, squares = 0;
  for (int64_t i = 1; i < poisson.size(); ++i) {
    const double gap = static_cast<double>(poisson.at_ns(i) - poisson.at_ns(i - 1)) * 1e-6;  // milliseconds, mean 1
    sum += gap;
    squares += gap * gap;
  }
  const double n = static_cast<double>(poisson.size() - 1);
  EXPECT_NEAR(sum / n, 1.0, 0.02);
  EXPECT_NEAR(squares / n, 2.0, 0.1);
}

TEST(Workload, LengthsStayWithinTheSpread) {
  const Workload w =
      made({.n_sessions = 300, .prompt_tokens = 100, .max_tokens = 50, .spread = 0.2, .tokens_per_word = 1});
  int64_t least = 1000, most = 0;
  for (int64_t i = 0; i < w.size(); ++i) {
    const LoadTurn turn = w.session(i).turns.front();
    EXPECT_GE(turn.max_tokens, 40);
    EXPECT_LE(turn.max_tokens, 60);
    least = std::min(least, n_words(turn.text));
    most = std::max(most, n_words(turn.text));
  }
  EXPECT_GE(least, 80);
  EXPECT_LE(most, 120);
  EXPECT_LT(least, 90);
  EXPECT_GT(most, 110);
}

TEST(Workload, SessionsOfAPrefixBeginAlike) {
  const Workload w = made({.n_sessions = 64, .shared_tokens = 30, .n_prefixes = 2, .tokens_per_word = 1});
  std::vector<std::string> seen;
  for (int64_t i = 0; i < w.size(); ++i) seen.push_back(w.session(i).system);
  EXPECT_EQ(n_words(seen.front()), 30);
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(seen.size(), 2U);
}

TEST(Workload, ReadsAzuresTrace) {
  const std::string path = file_with("azure.csv",
                                     "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                     "2023-11-16 18:59:59.5000000,374,44\n"
                                     "2023-11-16 19:00:01.0000000,100,10\n");
  const Workload w = made({.tokens_per_word = 1, .trace = path, .trace_speed = 3, .trace_lengths = 2});
  ASSERT_EQ(w.size(), 2);
  EXPECT_EQ(w.at_ns(0), 0);
  EXPECT_NEAR(static_cast<double>(w.at_ns(1)), 0.5e9, 1e3);
  EXPECT_EQ(n_words(w.session(0).turns.front().text), 187);
  EXPECT_EQ(w.session(0).turns.front().max_tokens, 22);
}

TEST(Workload, EqualBlocksOfMooncakesTraceAreEqualText) {
  const std::string path =
      file_with("mooncake.jsonl",
                "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 5, \"hash_ids\": [7, 8]}\n"
                "{\"timestamp\": 500, \"input_length\": 1000, \"output_length\": 6, \"hash_ids\": [7, 9]}\n");
  const Workload w = made({.tokens_per_word = 1, .trace = path});
  const std::string a = w.session(0).turns.front().text, b = w.session(1).turns.front().text;
  EXPECT_EQ(w.at_ns(1), 500'000'000);
  EXPECT_EQ(n_words(a), 1024);
  EXPECT_EQ(n_words(b), 1000);
  size_t same = 0;
  while (a[same] == b[same]) ++same;
  EXPECT_GE(n_words(a.substr(0, same)), 512);
  EXPECT_LE(n_words(a.substr(0, same)), 520);
}

TEST(Workload, NamesWhatIsWrong) {
  EXPECT_EQ(refusal({.rate = -1, .n_sessions = 1}), "--rate must be 0 to 1000000, got -1");
  EXPECT_EQ(refusal({.rate = 1, .arrivals = "burst", .n_sessions = 1}),
            "--arrivals must be poisson or fixed, got \"burst\"");
  EXPECT_EQ(refusal({}), "how long? Give --requests or --duration");
  EXPECT_EQ(refusal({.rate = 1, .trace = "x.csv"}),
            "--rate and --trace exclude each other: a trace has its own arrivals");
  EXPECT_EQ(refusal({.rate = std::nan(""), .n_sessions = 1}), "--rate must be 0 to 1000000, got nan");
  const std::string bad = file_with("bad.csv", "heads\nno numbers\n");
  EXPECT_EQ(refusal({.trace = bad}), bad + ": line 2: no TIMESTAMP,ContextTokens,GeneratedTokens");
  const std::string back = file_with("back.jsonl",
                                     "{\"timestamp\": 5, \"input_length\": 1, \"output_length\": 1}\n"
                                     "{\"timestamp\": 4, \"input_length\": 1, \"output_length\": 1}\n");
  EXPECT_EQ(refusal({.trace = back}), back + ": line 2: goes back in time");
  EXPECT_EQ(refusal({.trace = "/nowhere.csv"}), "/nowhere.csv: cannot read");
}

}  // namespace
}  // namespace quire
