#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace quire {
namespace {

using Stops = std::vector<std::string>;

StopStrings compile(const Stops& stops) {
  auto made = StopStrings::compile(stops);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return std::move(*made);
}

// What is kept of `text` when it comes in pieces of n bytes; nothing: no stop string was found.
std::optional<std::string> kept(const StopStrings& stops, const std::string& text, size_t n) {
  StopTracker tracker(stops);
  for (size_t i = 0; i < text.size(); i += n) {
    if (tracker.accept(std::string_view(text).substr(i, n))) return text.substr(0, tracker.n_safe_bytes());
  }
  return std::nullopt;
}

TEST(StopStrings, CutExactlyAtEveryTokenCut) {
  const StopStrings stops = compile({"\n\nUser:", "</s>", "é!"});
  for (size_t n = 1; n < 12; ++n) {
    EXPECT_EQ(kept(stops, "hello\n\nUser: x", n), "hello");
    EXPECT_EQ(kept(stops, "a</s</s>b", n), "a</s");
    EXPECT_EQ(kept(stops, "caf\xC3\xA9!!", n), "caf");
    EXPECT_EQ(kept(stops, "\n\nUser\n\nUse", n), std::nullopt);
  }
}

TEST(StopStrings, TheFirstCompleteMatchCountsAndThereTheLongest) {
  EXPECT_EQ(kept(compile({"abc", "b"}), "xabc", 4), "xa");
  EXPECT_EQ(kept(compile({"bc", "abc"}), "xabc", 4), "x");
  EXPECT_EQ(kept(compile({"abcd", "bc"}), "abcd", 1), "a");
}

TEST(StopStrings, HoldsBackWhatMayBegin) {
  const StopStrings stops = compile({"ababc"});
  StopTracker tracker(stops);
  const std::pair<const char*, size_t> steps[] = {{"x", 1}, {"ab", 1}, {"a", 1}, {"b", 1}, {"a", 3}, {"q", 7}};
  for (const auto& [bytes, safe] : steps) {
    EXPECT_FALSE(tracker.accept(bytes));
    EXPECT_EQ(tracker.n_safe_bytes(), safe) << bytes;
  }
}

TEST(StopStrings, RollbackForgetsTokens) {
  const StopStrings stops = compile({"end"});
  StopTracker tracker(stops);
  tracker.accept("the e");
  tracker.accept("n");
  EXPECT_TRUE(tracker.accept("d."));
  EXPECT_EQ(tracker.n_safe_bytes(), 4u);
  tracker.rollback(2);
  EXPECT_FALSE(tracker.stopped());
  EXPECT_EQ(tracker.n_bytes(), 5u);
  EXPECT_FALSE(tracker.accept("d"));
  EXPECT_FALSE(tracker.accept(""));
  EXPECT_EQ(tracker.n_safe_bytes(), 6u);
}

TEST(StopStrings, EqualsTheNaiveSearchForRandomTextsAndCuts) {
  std::mt19937 random(9);
  const auto word = [&random](size_t max) {
    std::string out(1 + random() % max, 'a');
    for (char& c : out) c = static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    Stops list(1 + random() % 4);
    for (std::string& stop : list) stop = word(5);
    const std::string text = word(30);
    std::optional<std::string> want;
    for (size_t end = 1; end <= text.size() && !want; ++end) {
      size_t longest = 0;
      for (const std::string& stop : list) {
        if (std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      }
      if (longest > 0) want = text.substr(0, end - longest);
    }
    const StopStrings stops = compile(list);
    EXPECT_EQ(kept(stops, text, 1 + random() % 7), want) << text;
    // Nothing that is shown before the end is ever part of the stop string.
    StopTracker tracker(stops);
    for (const char c : text) {
      const bool stopped = tracker.accept({&c, 1});
      EXPECT_LE(tracker.n_safe_bytes(), want ? want->size() : text.size());
      if (stopped) break;
    }
  }
}

// Whatever is accepted and taken back: the tracker is as if it had only seen what is left.
TEST(StopStrings, RollbackIsAsIfNeverAccepted) {
  std::mt19937 random(21);
  const StopStrings stops = compile({"abab", "ba\xC3\xA9", "bb"});
  const std::string_view pieces[] = {"a", "b", "ab", "ba", "\xC3", "\xA9", "", "aab", "b\xC3"};
  int n_stops = 0;
  for (int round = 0; round < 500; ++round) {
    StopTracker tracker(stops);
    std::vector<std::string_view> left;
    for (int step = 0; step < 40; ++step) {
      if (tracker.stopped() || random() % 4 == 0) {
        const size_t n = tracker.stopped() ? 1 + random() % left.size() : random() % (left.size() + 1);
        tracker.rollback(static_cast<int>(n));
        left.resize(left.size() - n);
      } else {
        left.push_back(pieces[random() % std::size(pieces)]);
        n_stops += tracker.accept(left.back()) ? 1 : 0;
      }
      StopTracker fresh(stops);
      for (const std::string_view bytes : left) fresh.accept(bytes);
      ASSERT_EQ(tracker.stopped(), fresh.stopped());
      ASSERT_EQ(tracker.n_bytes(), fresh.n_bytes());
      ASSERT_EQ(tracker.n_safe_bytes(), fresh.n_safe_bytes());
    }
  }
  EXPECT_GT(n_stops, 100);
}

TEST(StopStrings, LimitsAreNamed) {
  const auto message = [](const Stops& stops) { return StopStrings::compile(stops).error().message; };
  EXPECT_EQ(message(Stops(17, "x")), "stop: 17 strings, the limit is 16");
  EXPECT_EQ(message({""}), "stop: a string is empty");
  EXPECT_EQ(message({std::string(1025, 'x')}), "stop: a string has 1025 bytes, the limit is 1024");
  EXPECT_TRUE(StopStrings::compile(Stops(16, std::string(1024, 'x'))));
  EXPECT_EQ(kept(compile({}), "anything", 3), std::nullopt);
}

}  // namespace
}  // namespace quire
