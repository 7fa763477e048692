// Counters of what tenants were served: charges, weights, the lift of who comes back, and what is remembered.
#include "engine/tenants.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// A tenant with one more sequence, which waits.
Tenant& arrives(Tenants& all, uint64_t id, int weight = 1) {
  Tenant& tenant = all.of(id);
  all.enter(tenant, weight);
  Tenants::waits(tenant);
  return tenant;
}
void plan(Tenants& all) {
  all.begin_plan();
  all.end_plan();
}
// It is admitted, served and ends.
void serve(Tenants& all, Tenant& tenant, int64_t n_prompt, int64_t n_output) {
  Tenants::waits_no_more(tenant);
  all.end_plan();
  Tenants::charge(tenant, n_prompt, n_output);
  all.leave(tenant);
}

TEST(Tenants, AnswersCountTwiceAndAWeightDivides) {
  Tenants all(0);
  Tenant &one = arrives(all, 1), &heavy = arrives(all, 2, 4);
  Tenants::charge(one, 10, 3);
  Tenants::charge(heavy, 10, 3);
  EXPECT_EQ(one.served, 16 * kServedUnit);
  EXPECT_EQ(heavy.served, 4 * kServedUnit);
}

TEST(Tenants, WhoComesBackIsLiftedToTheLeastServedThatWaits) {
  Tenants all(0);
  Tenant &busy = arrives(all, 1), &busier = arrives(all, 2);
  plan(all);
  Tenants::charge(busy, 100, 0);
  Tenants::charge(busier, 120, 0);
  Tenant& back = arrives(all, 3);
  all.begin_plan();
  EXPECT_EQ(back.served, 100 * kServedUnit - 1) << "it goes first, and by no more than that";
  EXPECT_EQ(busy.served, 100 * kServedUnit);
  all.end_plan();
  Tenants::charge(busy, 100, 0);
  arrives(all, 3);
  all.begin_plan();
  EXPECT_EQ(back.served, 100 * kServedUnit - 1) << "who waits already is not lifted";
}

TEST(Tenants, WhoComesBackIsOwedTheAllowanceAndNoMore) {
  Tenants all(100);
  Tenant &busy = arrives(all, 1), &heavy = arrives(all, 2, 4);
  EXPECT_EQ(busy.served, -100 * kServedUnit) << "who was never here is owed it as well";
  EXPECT_EQ(heavy.served, -100 * kServedUnit) << "of its own tokens four times as many";
  plan(all);
  Tenants::charge(busy, 500, 0);
  Tenants::charge(heavy, 4 * 500, 0);
  Tenant& back = arrives(all, 3);
  all.begin_plan();
  EXPECT_EQ(back.served, 300 * kServedUnit);
}

TEST(Tenants, WhoseWholeBacklogFitsIsWithinItsAllowance) {
  Tenants all(100);
  Tenant &flood = arrives(all, 1), &quiet = arrives(all, 2);
  flood.n_pending = 101;
  quiet.n_pending = 100;
  plan(all);
  EXPECT_FALSE(flood.within) << "before anything of it is computed";
  EXPECT_TRUE(quiet.within);
  Tenants::charge(quiet, 60, 1);
  quiet.n_pending = 39;
  plan(all);
  EXPECT_FALSE(quiet.within) << "what it was served counts: 62, and 39 are to come";
  quiet.n_pending = 38;
  plan(all);
  EXPECT_TRUE(quiet.within);
}

TEST(Tenants, OneTenantIsNeverWithin) {
  Tenants all(100);
  Tenant& one = arrives(all, 1);
  plan(all);
  EXPECT_FALSE(one.within);
}

TEST(Tenants, WhereNobodyWaitsTheLastThatDidSaysHowFarItIs) {
  Tenants all(0);
  Tenant& first = arrives(all, 1);
  plan(all);
  Tenants::waits_no_more(first);
  all.end_plan();
  Tenants::charge(first, 50, 0);
  Tenant& second = arrives(all, 2);
  all.begin_plan();
  EXPECT_EQ(second.served, 50 * kServedUnit - 1);
}

TEST(Tenants, WhoWasServedMoreThanOthersIsRememberedWhileItIsAway) {
  Tenants all(0);
  Tenant& other = arrives(all, 1);
  plan(all);
  serve(all, arrives(all, 2), 500, 0);
  EXPECT_EQ(arrives(all, 2).served, 500 * kServedUnit) << "leaving and coming back forgives nothing";
  EXPECT_EQ(other.served, 0);
}

TEST(Tenants, WhatIsRememberedIsBounded) {
  Tenants all(0);
  Tenant& other = arrives(all, 1);
  plan(all);
  for (uint64_t id = 0; id < 2 * kMostIdleTenants; ++id) {
    all.begin_plan();
    serve(all, arrives(all, 100 + id), 1000 + static_cast<int64_t>(id), 0);
  }
  EXPECT_EQ(all.n_here(), 1);
  EXPECT_LE(all.size(), kMostIdleTenants + 1);
  EXPECT_EQ(all.of(100).served, 0) << "the one that had least was forgotten";
  EXPECT_GT(all.of(100 + 2 * kMostIdleTenants - 1).served, 0);
  EXPECT_EQ(other.served, 0);
}

}  // namespace
}  // namespace quire
