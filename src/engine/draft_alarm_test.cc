#include "engine/draft_alarm.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

// What is logged in so many whole runs of steps like this.
std::vector<std::string> told(DraftAlarm& alarm, int n_runs, int n_drafted, int n_accepted) {
  std::vector<std::string> out;
  for (int i = 0; i < n_runs * DraftAlarm::kSteps; ++i) {
    if (std::string line = alarm.step(n_drafted, n_accepted); !line.empty()) out.push_back(std::move(line));
  }
  return out;
}

TEST(DraftAlarm, TellsOnceThatFewGuessesComeTrue) {
  DraftAlarm alarm;
  EXPECT_TRUE(told(alarm, 3, 5, 3).empty()) << "60 % are enough";
  EXPECT_EQ(alarm.kind(), DraftAlarm::Kind::none);
  EXPECT_EQ(told(alarm, 3, 4, 2),
            std::vector<std::string>{"of the tokens guessed ahead in 1024 steps 50 % came true, which is under 60 %"});
  EXPECT_EQ(alarm.kind(), DraftAlarm::Kind::few_accepted);
  EXPECT_TRUE(told(alarm, 1, 4, 4).empty());
  EXPECT_EQ(alarm.kind(), DraftAlarm::Kind::none) << "and that it is over";
  EXPECT_TRUE(told(alarm, 1, 4, 2).empty()) << "once";
  EXPECT_EQ(alarm.kind(), DraftAlarm::Kind::few_accepted);
  EXPECT_EQ(alarm.n_few(), 4) << "all runs are counted";
}

TEST(DraftAlarm, TellsOnceThatNobodyGuesses) {
  DraftAlarm alarm;
  EXPECT_EQ(told(alarm, 4, 0, 0),
            std::vector<std::string>{"guessing ahead has not paid in 1024 steps, so nobody guesses but to try"});
  EXPECT_EQ(alarm.kind(), DraftAlarm::Kind::never);
  EXPECT_EQ(alarm.n_never(), 4);
}

TEST(DraftAlarm, AFewTokensSayNothing) {
  DraftAlarm alarm;
  for (int i = 0; i < DraftAlarm::kSteps; ++i) EXPECT_EQ(alarm.step(i < DraftAlarm::kLeastDrafted - 1 ? 1 : 0, 0), "");
  EXPECT_EQ(alarm.kind(), DraftAlarm::Kind::none);
  EXPECT_EQ(told(alarm, 1, 1, 0).size(), 1U);
}

}  // namespace
}  // namespace quire
