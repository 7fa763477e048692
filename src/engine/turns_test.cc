// Tenants take turns for places, blocks and what a step computes, and nothing of it shows in anybody's answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/scheduler.h"
#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kBlock = 16;
constexpr uint64_t kFew = 1, kMany = 2;  // tenants

struct World {
  World(EngineOptions wanted, int n_blocks) : options(wanted) {
    options.n_ctx = 1000;
    KvLayout layout;
    layout.claim(KvGroup{}, 4);
    std::vector<Buffer> memory;
    memory.push_back(std::move(*Buffer::allocate(int64_t{4} * kBlock * n_blocks)));
    cache = std::make_unique<KvCache>(layout, std::move(memory),
                                      KvCacheOptions{kBlock, n_blocks, options.prefix_cache, nullptr});
    scheduler = std::make_unique<Scheduler>(options, *cache, *Registry<PolicyEntry>::get().find(options.policy)->get(),
                                            CacheKey{});
  }

  Sequence& add(uint64_t tenant, SeqId id, int n_prompt, int max_tokens = 100) {
    auto seq = std::make_unique<Sequence>();
    seq->id = id;
    seq->request.tenant = tenant;
    seq->request.max_tokens = max_tokens;
    seq->tokens = random_tokens(id, n_prompt);
    seq->n_prompt = n_prompt;
    Sequence& out = *seq;
    scheduler->add(std::move(seq));
    return out;
  }
  // One step; tokens by sequence.
  std::map<SeqId, int> step() {
    const Plan& plan = scheduler->plan(0);
    std::map<SeqId, int> out;
    std::vector<Sampled> sampled;
    for (const Grant& grant : plan.grants) {
      out[grant.seq->id] = grant.n_tokens;
      if (grant.n_out > 0) sampled.push_back({1, 0.0F, true, {}});
    }
    std::vector<Ended> ended;
    scheduler->advance();
    scheduler->commit(sampled, 0, [](Sequence&, Sampled&, bool) {}, ended);
    for (const Ended& e : ended) order_of_ends.push_back(e.seq->id);
    return out;
  }
  int n_running(uint64_t tenant) const {
    const auto running = scheduler->running();
    return static_cast<int>(
        std::count_if(running.begin(), running.end(), [&](const auto& seq) { return seq->request.tenant == tenant; }));
  }

  EngineOptions options;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<SeqId> order_of_ends;
};

TEST(Turns, ANewTenantHasAPlaceInTheNextStepBesideAThousandOfAnother) {
  World w({.max_seqs = 64}, 2000);
  for (SeqId id = 1; id <= 1024; ++id) w.add(kMany, id, 8);
  for (int i = 0; i < 3; ++i) w.step();
  ASSERT_EQ(w.n_running(kMany), 64);
  w.add(kFew, 2000, 8, 5);
  EXPECT_EQ(w.step().count(2000), 1U) << "its first token is made";
  EXPECT_EQ(w.n_running(kMany), 63);
  EXPECT_EQ(w.scheduler->counters().n_preempted, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(w.step().count(2000), 1U);
  ASSERT_EQ(w.order_of_ends, std::vector<SeqId>{2000});
  w.step();
  EXPECT_EQ(w.n_running(kMany), 64) << "who was sent back resumes";
  EXPECT_EQ(w.scheduler->counters().n_preempted, 1);
}

TEST(Turns, WhoWasSentBackComputesAtMostABlockAgain) {
  World w({.max_seqs = 2}, 200);
  w.add(kMany, 1, 90);
  w.add(kMany, 2, 90);
  w.step();
  w.add(kFew, 3, 8, 1);
  for (int i = 0; i < 3; ++i) w.step();
  EXPECT_EQ(w.scheduler->counters().n_preempted, 1);
  EXPECT_LE(w.scheduler->counters().spent.computed[static_cast<size_t>(Cause::recomputed)], kBlock);
}

TEST(Turns, TwoTenantsShareThePlacesWhateverEachSends) {
  World w({.max_seqs = 16}, 2000);
  for (SeqId id = 1; id <= 200; ++id) w.add(kMany, id, 8);
  w.step();
  for (SeqId id = 201; id <= 240; ++id) w.add(kFew, id, 8);
  for (int i = 0; i < 8; ++i) w.step();
  EXPECT_EQ(w.n_running(kMany), 8);
  EXPECT_EQ(w.n_running(kFew), 8);
  const int64_t n = w.scheduler->counters().n_preempted;
  EXPECT_EQ(n, 8) << "one for each place that changed hands";
  for (int i = 0; i < 50; ++i) w.step();
  EXPECT_EQ(w.scheduler->counters().n_preempted, n) << "and then nobody is sent back any more";
}

// With one place the second of the many is older than the newcomer, and yet it comes after it.
TEST(Turns, TenantsAlternateWhereThereIsOnePlace) {
  World w({.max_seqs = 1}, 100);
  for (SeqId id = 1; id <= 6; ++id) w.add(kMany, id, 8, 2);
  w.step();
  for (SeqId id = 11; id <= 13; ++id) w.add(kFew, id, 8, 2);
  while (!w.scheduler->idle()) w.step();
  EXPECT_EQ(w.order_of_ends, (std::vector<SeqId>{1, 11, 2, 12, 3, 13, 4, 5, 6}));
  EXPECT_EQ(w.scheduler->counters().n_preempted, 0) << "the first is never sent back";
}

TEST(Turns, ANewTenantsPromptGoesBeforeLongPromptsOfAnother) {
  World w({.max_seqs = 64, .step_tokens = 64, .max_chunk = 64}, 4000);
  for (SeqId id = 1; id <= 60; ++id) w.add(kMany, id, 900);
  for (int i = 0; i < 15; ++i) w.step();  // 1 is through with its prompt, 2 has begun
  ASSERT_EQ(w.scheduler->running().size(), 2U);
  w.add(kFew, 100, 20);
  const auto plan = w.step();
  EXPECT_EQ(plan.at(100), 20) << "before the rest of 2's prompt";
  EXPECT_EQ(plan.at(1), 1);
  EXPECT_EQ(plan.at(2), 64 - 21);
}

// Twelve blocks, of which 1 holds four, 2 three and 3 three. The newcomer needs five, and one for each that runs.
TEST(Turns, ANewTenantGetsBlocksOfThoseBehindItAndNotOfTheFirst) {
  World w({.prefix_cache = false}, 12);
  w.add(kMany, 1, 56);
  w.add(kMany, 2, 40);
  w.add(kMany, 3, 40);
  w.step();
  ASSERT_EQ(w.n_running(kMany), 3);
  w.add(kFew, 9, 70);
  EXPECT_EQ(w.step().count(9), 1U);
  EXPECT_EQ(w.n_running(kMany), 1);
  EXPECT_EQ(w.scheduler->running()[0]->id, 1U);
}

TEST(Turns, NobodyIsSentBackForOneThatWouldNotFitAllTheSame) {
  World w({.prefix_cache = false}, 12);
  w.add(kMany, 1, 56);
  w.add(kMany, 2, 20);
  w.step();
  w.add(kFew, 9, 150);  // ten blocks: more than there are without those of 1
  for (int i = 0; i < 3; ++i) w.step();
  EXPECT_EQ(w.scheduler->counters().n_preempted, 0);
  EXPECT_EQ(w.n_running(kMany), 2);
  w.scheduler->remove(1);
  EXPECT_EQ(w.step().count(9), 1U) << "it has become the first";
}

// Requests of one token, one after another, and each finds the places taken by the many.
TEST(Turns, AStreamOfShortRequestsCostsOneOfTheOthersAtMostAndThatOneMovesToo) {
  World w({.max_seqs = 4}, 400);
  for (SeqId id = 1; id <= 4; ++id) w.add(kMany, id, 40, 500);
  w.step();
  int n_moves_of_last = 0;
  for (SeqId id = 100; id < 200; ++id) {
    w.add(kFew, id, 4, 1);
    for (int i = 0; i < 2; ++i) {
      const auto plan = w.step();
      for (SeqId other = 1; other <= 3; ++other) ASSERT_EQ(plan.count(other), 1U);
      n_moves_of_last += static_cast<int>(plan.count(4));
    }
  }
  EXPECT_EQ(w.order_of_ends.size(), 100U);
  EXPECT_EQ(w.scheduler->counters().n_preempted, 100);
  EXPECT_GE(n_moves_of_last, 99);
  EXPECT_LE(w.scheduler->counters().spent.computed[static_cast<size_t>(Cause::recomputed)], 100 * kBlock);
}

// Whatever else the tenants send and whenever they end: nobody is passed for ever.
TEST(Turns, EverySequenceEndsWhileOtherTenantsKeepComing) {
  for (const char* policy : {"fcfs", "priority", "prefix", "vtc", "deadlines"}) {
    World w({.max_seqs = 2, .policy = policy}, 40);
    for (SeqId id = 1; id <= 5; ++id) w.add(kMany, id, 10, 5);
    int n_steps = 0;
    const auto many_left = [&] {
      const auto is_many = [](SeqId id) { return id <= 5; };
      return 5 - std::count_if(w.order_of_ends.begin(), w.order_of_ends.end(), is_many);
    };
    for (SeqId id = 100; many_left() > 0 && n_steps < 2000; ++id, ++n_steps) {
      w.add(1000 + id, id, 4, 1);  // a new tenant in every step, more than there are places for
      w.step();
    }
    EXPECT_EQ(many_left(), 0) << policy;
    EXPECT_LT(n_steps, 100) << policy << ": each of the five comes to stand first";
  }
}

TEST(Turns, OneTenantIsServedAsIfThereWereNone) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    for (const char* policy : {"fcfs", "priority", "prefix", "vtc", "deadlines"}) {
      const auto trace = [&](uint64_t tenant) {
        Rng rng(seed);
        World w({.max_seqs = static_cast<int>(rng.between(1, 6)),
                 .step_tokens = static_cast<int>(rng.between(4, 60)),
                 .max_chunk = static_cast<int>(rng.between(4, 60)),
                 .policy = policy},
                8);
        std::string out;
        for (SeqId id = 1; !w.scheduler->idle() || id <= 12; ++id) {
          if (id <= 12) {
            w.add(tenant, id, static_cast<int>(rng.between(1, 90)), static_cast<int>(rng.between(1, 30)))
                .request.priority = static_cast<int>(rng.between(-1, 1));
          }
          for (const auto& [seq, n] : w.step()) out += std::to_string(seq) + ":" + std::to_string(n) + " ";
          out += "\n";
        }
        return out;
      };
      ASSERT_EQ(trace(7), trace(0)) << policy << " " << seed;
    }
  }
}

// Same request, same bits: sent back for others, resumed, computed in other chunks and beside others.
TEST(Turns, AnswersDoNotDependOnWhoElseIsThere) {
  int64_t n_preempted = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    EngineOptions options;
    options.max_seqs = static_cast<int>(rng.between(1, 4));
    options.step_tokens = static_cast<int>(rng.between(8, 40));
    options.n_ctx = 120;
    TestEngine engine(options, static_cast<int>(rng.between(8, 14)));
    std::vector<std::pair<std::vector<Token>, std::shared_ptr<Heard>>> asked;
    for (int i = 0; i < 60 || engine.busy; ++i) {
      if (i < 60 && rng.between(0, 1) == 0) {
        Request r;
        r.prompt = random_tokens(static_cast<uint64_t>(rng.between(0, 5)), static_cast<int>(rng.between(1, 60)));
        r.max_tokens = 30;
        r.tenant = static_cast<uint64_t>(rng.between(0, 4) == 0 ? rng.between(1, 3) : 0);
        auto heard = std::make_shared<Heard>();
        asked.emplace_back(r.prompt, heard);
        const auto id = engine.engine->submit(std::move(r), heard);
        ASSERT_TRUE(id) << id.error().message;
        heard->seq = *id;
      }
      ASSERT_EQ(engine.step(), "");
      ASSERT_LT(i, 10000);
    }
    n_preempted += engine.engine->stats().n_preempted;
    for (const auto& [prompt, heard] : asked) {
      Request r;
      r.prompt = prompt;
      r.max_tokens = 30;
      ASSERT_EQ(heard->answer, alone(r, options.n_ctx)) << "seed " << seed;
    }
  }
  EXPECT_GT(n_preempted, 40);
}

}  // namespace
}  // namespace quire
