// What workers say of their load, beside what the fleet knows: how much of it is believed, and what comes of it.
#include <gtest/gtest.h>

#include "route/fleet_testing.h"

namespace quire {
namespace {

// What came past this router is load; what it gave itself, and what other routers say that they gave, is not counted
// twice.
TEST(Fleet, WhatAWorkerHasThatNobodyToldOfIsItsLoadToo) {
  FleetWorld world(2, "least_load");
  const auto first = world.worker(0), second = world.worker(1);
  EXPECT_EQ(world.fleet->n_known(*first), 0);
  world.fleet->said(*first, WorkerWord{2, 1}, 0);
  EXPECT_EQ(world.fleet->states()[0].unseen_requests, 3);
  std::vector<Picked> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(std::move(*world.fleet->choose(asks(std::nullopt, 100), {})));
    EXPECT_EQ(held.back().worker, second) << i;
  }
  EXPECT_EQ(world.fleet->loads(), (std::vector<WorkerLoad>{{second->id, 300, 3, 300, 0}}))
      << "others are not told of it";
  // The three are ours, one by another router is theirs, and so a fifth alone is unseen.
  world.fleet->set_others(std::vector<WorkerLoad>{{second->id, 50, 1, 50, 0}});
  EXPECT_EQ(world.fleet->n_known(*second), 4);
  world.fleet->said(*second, WorkerWord{0, 5}, 4);
  EXPECT_EQ(world.fleet->states()[1].unseen_requests, 1);
  // What was known when it was asked and has ended since may be in its word still: it is not unseen. Words count in the
  // mean of many, so one alone changes little.
  held.clear();
  world.fleet->said(*second, WorkerWord{4, 0}, 4);
  EXPECT_EQ(world.fleet->states()[1].unseen_requests, 1);
  for (int i = 0; i < 10; ++i) world.fleet->said(*second, WorkerWord{4, 0}, 4);
  EXPECT_EQ(world.fleet->states()[1].unseen_requests, 0);
  world.fleet->set_others({});
  // It says nothing any more, or it is down: nothing is believed of it.
  world.fleet->said(*first, std::nullopt, 0);
  EXPECT_EQ(world.fleet->states()[0].unseen_requests, 0);
  world.fleet->said(*first, WorkerWord{kMostSaidRequests, 0}, 0);  // a lie, or beside all others
  EXPECT_EQ(world.fleet->states()[0].unseen_requests, 16);
  world.fleet->probed(*first, Probe::unwell);
  EXPECT_EQ(world.fleet->states()[0].unseen_requests, 0);
  world.fleet->said(*first, WorkerWord{3, 0}, 0);  // that was on its way
  EXPECT_EQ(world.fleet->states()[0].unseen_requests, 0);
}

// Waiting requests are ahead of a prompt's first token, running ones slow it down: the fitting worker is another one.
TEST(Fleet, WhatWaitsUnseenIsAheadOfAPrompt) {
  FleetWorld world(2, "predicted");
  const auto first = world.worker(0), second = world.worker(1);
  world.fleet->said(*first, WorkerWord{0, 3}, 0);
  world.fleet->said(*second, WorkerWord{3, 0}, 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(world.fleet->choose(asks(std::nullopt, 100), {})->worker, second) << i;
}

// However many lie, and however often: what is believed of one does not raise what is believed of another.
TEST(Fleet, LiarsDoNotLiftEachOther) {
  FleetWorld world(3);
  const auto lie = [&] {
    for (int i = 0; i < 50; ++i)
      for (const size_t liar : {size_t{0}, size_t{1}})
        world.fleet->said(*world.worker(liar), WorkerWord{kMostSaidRequests, 0}, 0);
  };
  lie();
  for (const size_t liar : {size_t{0}, size_t{1}}) EXPECT_EQ(world.fleet->states()[liar].unseen_requests, 16);
  const uint64_t third = world.worker(2)->id;
  world.fleet->set_others(std::vector<WorkerLoad>{{third, 500, 5, 500, 0}});
  lie();
  for (const size_t liar : {size_t{0}, size_t{1}}) EXPECT_EQ(world.fleet->states()[liar].unseen_requests, 4 * 5 + 16);
}

// A worker counts each choice of each prompt, and so does the router: what it gave itself is not unseen.
TEST(Fleet, ChoicesAndPromptsOfARequestAreAsManyRequests) {
  FleetWorld world(2, "least_load");
  const auto first = world.worker(0);
  RouteAsk ask = asks(std::nullopt, 800);
  ask.n_requests = 8;
  auto picked = *world.fleet->choose(ask, std::vector{first});
  Worker& worker = *picked.worker;
  EXPECT_NE(picked.worker, first);
  EXPECT_EQ(world.fleet->n_known(worker), 8);
  world.fleet->said(worker, WorkerWord{0, 8}, 8);
  EXPECT_EQ(world.fleet->states()[1].unseen_requests, 0);
  picked.load.begins(1);
  EXPECT_EQ(world.fleet->loads(), (std::vector<WorkerLoad>{{worker.id, 800, 8, 0, 8}}));
  // What is unseen weighs as one of the eight did.
  world.fleet->said(*first, WorkerWord{0, 3}, 0);
  EXPECT_EQ(first->unseen.load_tokens, 300);
  EXPECT_EQ(first->unseen.prefill_tokens, 300);
  picked.load = {};
  EXPECT_EQ(world.fleet->n_known(worker), 0);
  EXPECT_TRUE(world.fleet->loads().empty());
}

// A worker that takes requests and answers none has all of them as its load, for as long as it takes, however often
// others are asked and answer meanwhile.
TEST(Fleet, ASlowWorkerIsNotIdle) {
  for (const char* policy : {"least_load", "two_choices", "predicted", "prefix", "hash"}) {
    FleetWorld world(2, policy);
    std::vector<Picked> unanswered;
    const auto slow = world.worker(0);
    for (int i = 0; i < 400; ++i) {
      auto picked =
          world.fleet->choose(asks(Hash128{static_cast<uint64_t>(i), static_cast<uint64_t>(i) << 40}, 100), {});
      ASSERT_TRUE(picked);
      if (picked->worker != slow) {  // the other one answers at once
        world.fleet->worked(*picked->worker);
        continue;
      }
      unanswered.push_back(std::move(*picked));
    }
    EXPECT_LE(unanswered.size(), 2U) << policy << ": what is not answered is work to do";
    EXPECT_EQ(slow->n_requests, static_cast<int64_t>(unanswered.size()));
    unanswered.clear();
    EXPECT_EQ(world.load(), 0) << policy;
  }
}

}  // namespace
}  // namespace quire
