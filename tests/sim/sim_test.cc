// The part of the simulation that runs on every commit: thousands of seeds, and that seeds, scripts and the shrinker do
// what a failure will need them for. States of the cache and of numbers that an engine may be brought into, and who
// tests that it holds:
//   K1  more blocks than there are           EngineSubmit.RefusesWhatCanNeverRun…, …WhatJustFits…;
//   World::expected_refusal K2  all blocks in use                    Engine.PreemptedIsNotPreempted,
//   Scheduler.TheFirstIsNeverPreempted; Books here K3  colliding hashes KvCacheModel.CollisionsAreMisses…,
//   PrefixTree.ACollisionIsAMiss… K4  another tenant's prompt, guessed     TheTimeToTheFirstTokenTellsNothing… here,
//   Engine.SaltsNeverShare,
//                                            EngineSharing.WhatIsPublic…, Tenant.* (serve)
//   K5  equal tokens, another model, codec,  PrefixTree.KeysNeverShare, PrefixTree.Extras…,
//       adapter, image                       InvarianceKeys.ModelsAndCodecs…
//   K6  a prompt that is known as a whole    KvCache.AFullHitLeavesTheLastToken…; Books::check_hit
//   K7  copies, a branch cancelled, eviction KvCacheModel.RandomOperations…, EngineSharing.ChoicesShare…; Books
//   N1  logits NaN, infinite, all forbidden  EngineEnd.ARowThatCannotBeSampled…, SampleRow.RefusesWhatIsNotANumber…,
//                                            …ExtremeParameters…, …EqualLogits…; row faults here
//   N2  large activations                    Parity.ExtremeActivations, Parity.GatedOverTheWholeRange
//   guesses of every kind, and lies          half of the seeds here, EngineDrafting.*, EngineRandom.*
//   P9  features together                    Invariance.* and Schedules.* (tests/invariance): penalties, bias, logprobs
//                                            of prompts and answers, hits, chunks, preemption, several answers
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "base/sanitized.h"
#include "tests/sim/reference.h"
#include "tests/sim/shrink.h"
#include "tests/sim/workers.h"

namespace quire::sim {
namespace {

constexpr uint64_t kSeeds = kSanitized ? 300 : 5000;

TEST(Sim, ThousandsOfSeedsHold) {
  const int n_workers = static_cast<int>(std::thread::hardware_concurrency());
  const Report report = run_seeds(1, kSeeds, n_workers);
  ASSERT_FALSE(report.failed) << "seed " << report.seed << ": " << report.failure
                              << "\nagain, and smaller: ./dev sim --seed " << report.seed;
  const Counts& c = report.counts;
  RecordProperty("reached", c.text());
  // The runs reach everything that they are about.
  const auto n = static_cast<int64_t>(kSeeds);
  EXPECT_EQ(c.runs, n);
  EXPECT_EQ(c.finished + c.cancelled + c.failed, c.submitted);
  EXPECT_GT(c.finished, 4 * n);
  EXPECT_GT(c.cancelled, n / 8);
  EXPECT_GT(c.failed, n / 4);
  EXPECT_GT(c.preempted, n / 4);
  EXPECT_GT(c.recomputed, n / 4);
  EXPECT_GT(c.cached, n);
  EXPECT_GT(c.drafted, c.accepted);
  EXPECT_GT(c.accepted, n);
  EXPECT_GT(c.bad_drafts, n);
  for (const int64_t reached : {c.too_long, c.never_fits, c.queue_full, c.slow, c.jumps, c.throws}) {
    EXPECT_GT(reached, n / 20) << c.text();
  }
  if (n >= 5000) {
    EXPECT_GT(c.no_memory, 0) << "rare";
  }
  EXPECT_GT(c.apart, n);
  EXPECT_GT(c.loaded, n / 4);
  EXPECT_GT(c.overtaken, n / 200);
  EXPECT_GT(c.stalled, n / 200);
  if (n >= 5000) {
    EXPECT_GT(std::min({c.loads_lost, c.cancelled_loading, c.preempted_loading}), 0) << "rare: " << c.text();
  }
  for (const int64_t reached : {c.asked, c.answered, c.brought, c.full}) EXPECT_GT(reached, n / 20) << c.text();
  for (const int64_t reached : {c.lies, c.away}) EXPECT_GT(reached, n / 200) << c.text();
  for (size_t kind = 1; kind < c.row_faults.size(); ++kind) EXPECT_GT(c.row_faults[kind], n / 200) << kind;
}

TEST(Sim, ASeedGivesTheSameRun) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Outcome a = run(random_script(seed));
    const Outcome b = run(random_script(seed));
    EXPECT_EQ(a.decisions, b.decisions) << "seed " << seed;
    EXPECT_EQ(a.counts.text(), b.counts.text());
  }
  EXPECT_NE(run(random_script(3)).decisions, run(random_script(4)).decisions);
}

TEST(Sim, AScriptSurvivesItsJson) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Script script = random_script(seed);
    const Result<Script> read = script_from_json(to_json(script));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(to_json(*read), to_json(script));
    if (seed <= 20) {
      EXPECT_EQ(run(*read).decisions, run(script).decisions) << "seed " << seed;
    }
  }
  EXPECT_FALSE(script_from_json("{\"requests\":7}"));
  EXPECT_FALSE(script_from_json("{"));
}

// K11: neither a jump of the clock by a day nor a slow step changes what is decided, only when.
TEST(Sim, TheClockDecidesNothingUnderFcfs) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Script script = random_script(seed);
    script.knobs.policy = "fcfs";
    script.knobs.itl_target_ms = script.knobs.step_target_us = 0;
    script.knobs.tier_blocks = script.knobs.remote_blocks = 0;  // what is brought depends on how long it takes
    script.faults.clear();
    for (RequestScript& r : script.requests) {
      r.arrival_ns = 0;
      r.cancel_ns = -1;
    }
    const Outcome plain = run(script);
    for (int64_t step = 1; step < 200; step += 7) {
      script.faults.push_back({StepFault::Kind::jump, step, step % 2 == 0 ? kDayNs : -kDayNs});
      script.faults.push_back({StepFault::Kind::slow, step + 3, 100});
    }
    const Outcome jumped = run(script);
    EXPECT_EQ(jumped.failure, "");
    EXPECT_EQ(jumped.decisions, plain.decisions) << "seed " << seed;
    EXPECT_EQ(jumped.counts.cached, plain.counts.cached);
  }
}

// K4: who guesses another tenant's prompt waits exactly as long as who guesses wrong; only the tenant itself is faster.
TEST(Sim, TheTimeToTheFirstTokenTellsNothingAcrossSalts) {
  for (const char* policy : {"fcfs", "priority", "prefix"}) {
    Script script;
    script.knobs.n_ctx = 256;
    script.knobs.policy = policy;
    const auto ask = [&](uint64_t text, uint64_t salt) {
      RequestScript r;
      r.arrival_ns = static_cast<int64_t>(script.requests.size()) * 1'000'000'000;  // nobody beside it
      r.prompt = {{text, 200}};
      r.salt = salt;
      script.requests.push_back(r);
      return script.requests.size() - 1;
    };
    ask(1, 1);
    const size_t again = ask(1, 1);
    std::vector<size_t> right, wrong;
    for (uint64_t i = 0; i < 40; ++i) {
      right.push_back(ask(1, 100 + 2 * i));
      wrong.push_back(ask(50 + i, 101 + 2 * i));
    }
    const Outcome out = run(script);
    ASSERT_EQ(out.failure, "");
    for (size_t i = 0; i < right.size(); ++i) EXPECT_EQ(out.ttft_ns[right[i]], out.ttft_ns[wrong[i]]) << policy;
    EXPECT_LT(2 * out.ttft_ns[again], out.ttft_ns[right[0]]) << "the measure sees a hit";
  }
}

// Requests one after the other, each with a prompt of its own, before a store of several servers.
Outcome before_a_store(int64_t ask_ns, bool another_was_there) {
  Script script;
  script.knobs.n_ctx = 256;
  script.knobs.row_ns = 1'000'000;
  script.knobs.remote_blocks = ask_ns > 0 ? 1000 : 0;
  script.knobs.remote_ask_ns = ask_ns;
  script.knobs.remote_before = another_was_there;
  for (uint64_t i = 0; i < 20; ++i) {
    RequestScript r;
    r.arrival_ns = static_cast<int64_t>(i) * 10'000'000'000;  // nobody beside it
    r.prompt = {{i, 200}};
    script.requests.push_back(r);
  }
  return run(script);
}

// The first comes before any step has told what computing takes, and may wait for two seconds.
TEST(Sim, AStoreThatNeverAnswersCostsAnEighthAtMost) {
  constexpr int64_t kLookNs = 10'000'000;  // how often the world looks
  const Outcome without = before_a_store(0, false), with = before_a_store(kDayNs, false);
  ASSERT_EQ(with.failure, "");
  EXPECT_EQ(with.counts.asked, 20);
  EXPECT_EQ(with.counts.answered, 0);
  for (size_t i = 1; i < with.ttft_ns.size(); ++i) {
    EXPECT_LE(with.ttft_ns[i], without.ttft_ns[i] * 9 / 8 + kLookNs) << i;
    EXPECT_GT(with.ttft_ns[i], without.ttft_ns[i]) << "the measure sees the wait";
  }
}

TEST(Sim, WhatAnotherServerHasComputedIsBrought) {
  const Outcome alone = before_a_store(100'000, false), second = before_a_store(100'000, true);
  ASSERT_EQ(alone.failure, "");
  ASSERT_EQ(second.failure, "");
  EXPECT_EQ(alone.counts.brought, 0);
  EXPECT_EQ(second.counts.brought, 20 * (199 / 16));
  for (size_t i = 0; i < second.ttft_ns.size(); ++i) EXPECT_LT(10 * second.ttft_ns[i], alone.ttft_ns[i]) << i;
}

// One tenant asks for everything at once, with long prompts and long answers; one request of another comes later. It
// waits for steps that all the others are part of, but not for any of them to end.
TEST(Sim, ANewTenantWaitsForNoOtherTenantsEnd) {
  for (const char* policy : {"fcfs", "priority"}) {
    for (const int n_blocks : {4096, 40}) {  // places are short, or blocks
      Script script;
      script.knobs.n_ctx = 320;
      script.knobs.policy = policy;
      script.knobs.n_blocks = n_blocks;
      script.knobs.max_queue = 1000;
      const auto ask = [&](uint64_t text, uint64_t tenant, int64_t at_ns, int n_prompt, int max_tokens) {
        RequestScript r;
        r.arrival_ns = at_ns;
        r.prompt = {{text, n_prompt}};
        r.max_tokens = max_tokens;
        r.tenant = tenant;
        script.requests.push_back(r);
        return script.requests.size() - 1;
      };
      for (uint64_t i = 0; i < 40; ++i) ask(10 + i, 1, 0, 200, 60);
      const size_t newcomer = ask(1, 2, 30'000'000, 20, 4);
      const Outcome out = run(script);
      ASSERT_EQ(out.failure, "");
      const int64_t longest_step = 200'000 + 64 * 20'000 + 64 * 300 * 100;
      EXPECT_LE(out.ttft_ns[newcomer], 3 * longest_step) << policy << ", " << n_blocks << " blocks";
      script.requests[newcomer].tenant = 1;
      EXPECT_GT(run(script).ttft_ns[newcomer], 20 * longest_step) << "the measure sees a queue";
    }
  }
}

// Two tenants whose allowances come and go with what the cache has of their prompts, and a window that holds one of
// them.
TEST(Sim, TwoTenantsDoNotSendEachOtherBackForEver) {
  const Result<Script> script = script_from_json(
      R"({"knobs":{"step_tokens":1,"n_ctx":239,"block_tokens":3,"n_blocks":131,"window":9,"n_window_blocks":7,)"
      R"("policy":"vtc","allowance":483,"kv_policy":"cost_aware","noise":78},"seed":117360,"requests":[)"
      R"({"prompt":[{"n":177}],"tenant":3},{"prompt":[{"n":129}],"tenant":3},{"prompt":[{"text":2,"n":233}],"tenant":3},)"
      R"({"prompt":[{"n":119},{"n":100}],"tenant":3},{"prompt":[{"n":72}],"tenant":3},)"
      R"({"arrival_ns":8975277,"prompt":[{"text":2,"n":103}],"tenant":2},)"
      R"({"arrival_ns":10156154,"prompt":[{"n":94}],"tenant":3,"weight":2}]})");
  ASSERT_TRUE(script);
  const Outcome out = run(*script);
  EXPECT_EQ(out.failure, "");
  EXPECT_EQ(out.counts.finished, 7);
}

TEST(Sim, TheShrinkerKeepsWhatFails) {
  // "Fails" when two requests of one salt come before a slow step: all else must go.
  const auto fails = [](const Script& s) {
    std::map<uint64_t, int> salts;
    for (const RequestScript& r : s.requests) ++salts[r.salt];
    const bool twice = std::any_of(salts.begin(), salts.end(), [](const auto& each) { return each.second >= 2; });
    const bool slow = std::any_of(s.faults.begin(), s.faults.end(),
                                  [](const StepFault& f) { return f.kind == StepFault::Kind::slow; });
    return twice && slow;
  };
  Script script;
  for (uint64_t seed = 1; !fails(script) || script.requests.size() < 20; ++seed) script = random_script(seed);
  const Script small = shrink(script, fails, 2000);
  EXPECT_TRUE(fails(small));
  ASSERT_EQ(small.requests.size(), 2U);
  EXPECT_EQ(small.faults.size(), 1U);
  for (const RequestScript& r : small.requests) {
    EXPECT_EQ(r.max_tokens, 1);
    EXPECT_EQ(r.cancel_ns, -1);
    ASSERT_EQ(r.prompt.size(), 1U);
    EXPECT_EQ(r.prompt[0].n, 1);
  }
}

TEST(Sim, ACrashAndAWrongAnswerAreToldWithTheirWords) {
  Script script = random_script(5);
  EXPECT_EQ(failure_of(script), "");
  script.knobs.policy = "no such policy";
  EXPECT_NE(failure_of(script).find("no such policy"), std::string::npos);
}

}  // namespace
}  // namespace quire::sim
