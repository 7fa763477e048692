// Proof that the simulation can fail: the engine with one bug after the other switched on (tests/sim/mutants.txt). Each
// must be found within 1,500 seeds, and without any of them the same seeds hold.
#include "mutants.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/sim/shrink.h"
#include "tests/sim/workers.h"

int quire_mutant = -1;

namespace quire::sim {
namespace {

constexpr uint64_t kSeeds = 1500;

class Mutants : public testing::TestWithParam<int> {
 protected:
  void TearDown() override { quire_mutant = -1; }
};

TEST_P(Mutants, AreFound) {
  quire_mutant = GetParam();
  const Report report = run_seeds(1, kSeeds, 1);
  EXPECT_TRUE(report.failed) << "nobody noticed: " << kMutants[GetParam()];
  std::printf("%s: seed %llu: %s\n", kMutants[GetParam()], static_cast<unsigned long long>(report.seed),
              report.failure.c_str());
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, testing::Range(0, static_cast<int>(std::size(kMutants))));

TEST(NoMutant, TheSameSeedsHold) {
  const Report report = run_seeds(1, kSeeds, 1);
  EXPECT_FALSE(report.failed) << "seed " << report.seed << ": " << report.failure;
}

// A real failure shrinks to a handful of requests and still fails when it is read back.
TEST(Shrink, ABugEndsAsAShortScript) {
  const auto name = [](const char* wanted) {
    for (size_t i = 0; i < std::size(kMutants); ++i) {
      if (std::string(kMutants[i]) == wanted) return static_cast<int>(i);
    }
    return -1;
  };
  for (const char* bug : {"salts share", "a commit is off by one"}) {
    quire_mutant = name(bug);
    ASSERT_GE(quire_mutant, 0);
    const Report report = run_seeds(1, kSeeds, 1);
    ASSERT_TRUE(report.failed);
    const Script small =
        shrink(random_script(report.seed), [](const Script& next) { return fails_by_itself(failure_of(next)); }, 1000);
    EXPECT_LE(small.requests.size(), 3U) << to_json(small);
    EXPECT_TRUE(small.faults.empty());
    const Result<Script> read = script_from_json(to_json(small));
    ASSERT_TRUE(read);
    EXPECT_NE(failure_of(*read), "");
    quire_mutant = -1;
    EXPECT_EQ(failure_of(*read), "");
  }
}

}  // namespace
}  // namespace quire::sim
