// What the number of workers that there should be follows, on a clock of the test's.
#include "route/replicas.h"

#include <gtest/gtest.h>

#include "base/nanoseconds.h"

namespace quire {
namespace {

// A fleet that is given the same for a while, looked at ten times a second.
struct Steady {
  ReplicaEstimate estimate{ReplicaGoals{}};
  FleetWork work;
  int64_t now_ns = 1;

  double after(double seconds, double given_each_s, double backlog_s, int64_t n_requests) {
    work.backlog_s = backlog_s;
    work.n_requests = n_requests;
    for (int i = 0; i < static_cast<int>(seconds * 10); ++i) {
      estimate.see(now_ns, work);
      now_ns += kNsPerSecond / 10;
      work.given_s += given_each_s / 10;
    }
    estimate.see(now_ns, work);
    return estimate.desired();
  }
};

TEST(Replicas, AreAsManyAsTheWorkThatIsGivenTakesTime) {
  Steady fleet;
  fleet.work.n_usable = 4;
  EXPECT_EQ(fleet.after(10, 0, 0, 0), 0);
  EXPECT_NEAR(fleet.after(600, 2.1, 0, 8), 3.0, 0.01) << "2.1 seconds of work a second, at 0.7 of each worker's time";
  EXPECT_NEAR(fleet.after(600, 0, 0, 0), 0, 0.01);
}

TEST(Replicas, AreMoreWhereWorkWaits) {
  Steady fleet;
  fleet.work.n_usable = 4;
  EXPECT_NEAR(fleet.after(600, 0.7, 0, 0), 1.0, 0.01);
  EXPECT_NEAR(fleet.after(2, 0.7, 5, 0), 1.9, 0.1) << "a moment's backlog is not yet a reason";
  EXPECT_NEAR(fleet.after(100, 0.7, 5, 0), 6.0, 0.01) << "five seconds are to be begun within one";
  EXPECT_NEAR(fleet.after(100, 0.7, 0, 0), 1.0, 0.01);
}

TEST(Replicas, AreEnoughForAllRequestsAtOnce) {
  Steady fleet;
  fleet.work.n_usable = 4;
  EXPECT_NEAR(fleet.after(600, 0.1, 0, 96), 3.0, 0.01) << "answers are long, prompts short";
}

TEST(Replicas, AreBoundedByThoseThatThereAre) {
  Steady fleet;
  EXPECT_EQ(fleet.after(600, 0, 1000, 5000), 1) << "there is none: one is a beginning";
  fleet.work.n_usable = 4;
  EXPECT_EQ(fleet.after(1, 1e9, 1e9, 1'000'000), 9);
}

TEST(Replicas, ALookAtTheSameMomentChangesNothing) {
  Steady fleet;
  fleet.work.n_usable = 4;
  const double before = fleet.after(600, 1.4, 1, 8);
  fleet.work.given_s += 1000;
  fleet.estimate.see(fleet.now_ns, fleet.work);
  EXPECT_EQ(fleet.estimate.desired(), before);
}

}  // namespace
}  // namespace quire
