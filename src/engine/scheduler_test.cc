// Who gets how many tokens, step by step, with plain values. A plan is written "id:tokens …", a trailing ! marks a
// grant that reaches the last pending token.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "engine/scheduler_world.h"

namespace quire {
namespace {

// Forty guesses for everyone that streams; no sequence ever samples what is guessed.
void guess_forty(World& w) {
  const auto nothing_known = [](SeqId) { return std::span<const Token>(); };

  w.scheduler->draft_with(
      std::make_shared<ScriptedProposer>(40, kTestVocab, 1, nothing_known, std::vector{Guess::right}),
      {40, 1000, kTestVocab}, nullptr);
}

TEST(Scheduler, ADraftedStreamIsAStream) {
  World w({.step_tokens = 200, .max_chunk = 50}, 50);
  guess_forty(w);
  w.add(1, 8);
  EXPECT_EQ(w.step(), "1:8!");
  EXPECT_EQ(w.step(), "1:41!");
  w.add(2, 300);
  EXPECT_EQ(w.step(), "1:6! 2:50") << "who waits finds what a guess would have taken: the rest of one block is left";
  EXPECT_EQ(w.step(), "1:41! 2:50");
  World narrow({.step_tokens = 20, .max_chunk = 50}, 50);
  guess_forty(narrow);
  narrow.add(1, 8);
  narrow.add(2, 100);
  EXPECT_EQ(narrow.step(), "1:8! 2:12");
  EXPECT_EQ(narrow.step(), "1:10! 2:10");
}

TEST(Scheduler, NobodyIsPreemptedForADraft) {
  World w({.step_tokens = 200, .max_chunk = 16}, 5);
  guess_forty(w);
  w.add(1, 8);
  w.add(2, 33);
  EXPECT_EQ(w.step(), "1:8! 2:16");
  EXPECT_EQ(w.step(), "1:1! 2:16") << "the guesses had taken all blocks and gave them back";
  EXPECT_EQ(w.step(), "1:1! 2:1!") << "no room for guesses";
  EXPECT_EQ(w.scheduler->counters().n_preempted, 0);
  EXPECT_EQ(w.scheduler->counters().spent.computed[static_cast<size_t>(Cause::draft)], 0);
}

// The first one's last chunk could leave a state behind 96 tokens, but only one is left, and the second needs it.
TEST(Scheduler, NobodyIsPreemptedForAStateOnTheWay) {
  World w({.step_tokens = 200, .max_chunk = 40}, 50, 4);
  w.add(1, 100);
  w.add(2, 100);
  EXPECT_EQ(w.step(), "1:40 2:40");
  EXPECT_EQ(w.step(), "1:40 2:40");
  EXPECT_EQ(w.step(), "1:20! 2:20!");
  EXPECT_EQ(w.step(), "1:1! 2:1!");
  EXPECT_EQ(w.scheduler->counters().n_preempted, 0);
}

TEST(Scheduler, CutsAPromptIntoChunksAndThenDecodes) {
  World w({.step_tokens = 64, .max_chunk = 20}, 10);
  w.add(1, 50, 3);
  EXPECT_EQ(w.step(), "1:20");
  EXPECT_EQ(w.step(), "1:20");
  EXPECT_EQ(w.step(), "1:10!");
  EXPECT_EQ(w.step(), "1:1!");
  EXPECT_EQ(w.step(), "1:1!");
  EXPECT_TRUE(w.scheduler->idle());
  EXPECT_EQ(w.step(), "");
}

TEST(Scheduler, NobodysDecodeWaitsForAnothersPrompt) {
  World w({.step_tokens = 12, .max_chunk = 512}, 40);
  w.add(1, 3);
  w.add(2, 4);
  EXPECT_EQ(w.step(), "1:3! 2:4!");
  w.add(3, 100);
  w.add(4, 5);
  EXPECT_EQ(w.step(), "1:1! 2:1! 3:10");
  for (int i = 0; i < 8; ++i) EXPECT_EQ(w.step(), "1:1! 2:1! 3:10");
  EXPECT_EQ(w.step(), "1:1! 2:1! 3:10!") << "the prompt's last chunk";
  EXPECT_EQ(w.step(), "1:1! 2:1! 3:1! 4:5!") << "then the next in the queue";
}

// With a budget of 4, four could decode forever while an older prompt gets nothing. Only as many run as the budget has
// tokens, so the oldest always has one.
TEST(Scheduler, TheOldestPromptAdvancesBesideDecodes) {
  World w({.max_seqs = 64, .step_tokens = 4, .max_chunk = 2}, 60);
  w.add(1, 40);
  for (SeqId id = 2; id <= 8; ++id) w.add(id, 1);
  EXPECT_EQ(w.step(), "1:2 2:1! 3:1!");
  EXPECT_EQ(w.step(), "2:1! 3:1! 1:2");
  for (int i = 0; i < 18; ++i) {
    const std::string plan = w.step();
    EXPECT_NE(plan.find("1:"), std::string::npos) << plan;
    EXPECT_LE(w.scheduler->n_running(), 4);
  }
  EXPECT_EQ(w.scheduler->running()[0]->n_pending(), 1) << "through its prompt in 20 steps";
}

TEST(Scheduler, AdmissionWaitsForRoomAndSkipsNobody) {
  World w({.prefix_cache = false}, 8);
  w.add(1, 60);  // 4 of 8 blocks
  w.add(2, 70);  // 5
  w.add(3, 10);  // would fit beside the first
  EXPECT_EQ(w.step(), "1:60!");
  EXPECT_EQ(w.waiting(), "2 3");
  EXPECT_EQ(w.step(), "1:1!");
  w.scheduler->remove(1);
  EXPECT_EQ(w.step(), "2:70! 3:10!");
}

// Two blocks are free and the second wants two, but the first is about to need one: admitted, it would be preempted.
TEST(Scheduler, AdmissionLeavesABlockForEachThatRuns) {
  World w({.prefix_cache = false}, 4);
  w.add(1, 31);
  w.add(2, 20);
  EXPECT_EQ(w.step(), "1:31!");
  EXPECT_EQ(w.waiting(), "2");
  w.scheduler->remove(2);
  w.add(3, 16);  // would fit, but not its first answer
  EXPECT_EQ(w.step(), "1:1!");
  w.scheduler->remove(3);
  w.scheduler->remove(1);
  w.add(4, 30);
  w.add(5, 15);
  EXPECT_EQ(w.step(), "4:30! 5:15!");
  EXPECT_EQ(w.step(), "4:1! 5:1!");
  EXPECT_EQ(w.scheduler->counters().n_preempted, 0);
}

TEST(Scheduler, RunsAtMostMaxSeqs) {
  World w({.max_seqs = 2}, 40);
  for (SeqId id = 1; id <= 3; ++id) w.add(id, 5);
  EXPECT_EQ(w.step(), "1:5! 2:5!");
  EXPECT_EQ(w.waiting(), "3");
  w.scheduler->remove(1);
  EXPECT_EQ(w.step(), "2:1! 3:5!");
}

//  blocks    1: ████ ███▒      each sequence fills two blocks of 16; with five in all, the third block of the first
//            2: ████ ███▒      costs nobody, that of the second costs the second itself
TEST(Scheduler, PreemptsTheLastAndResumesItAtItsPlaceAsAHit) {
  World w({}, 5);
  w.add(1, 30);
  w.add(2, 30);
  w.add(3, 90);  // too large for now
  EXPECT_EQ(w.step(), "1:30! 2:30!");
  EXPECT_EQ(w.step(), "1:1! 2:1!");
  EXPECT_EQ(w.step(), "1:1! 2:1!");
  EXPECT_EQ(w.step(), "1:1!") << "both are at 32: the fifth block goes to the first";
  EXPECT_EQ(w.running(), "1");
  EXPECT_EQ(w.scheduler->counters().n_preempted, 1);
  const auto waiting = w.scheduler->waiting();
  ASSERT_EQ(w.who(waiting), "3 2") << "put in order when somebody can be admitted";
  EXPECT_TRUE(waiting[1]->kv.table.empty());
  EXPECT_EQ(waiting[1]->n_computed, 0);
  EXPECT_EQ(w.cache->n_cached_blocks(), 2) << "its past is in the tree";
  w.scheduler->remove(1);
  EXPECT_EQ(w.step(), "2:1!") << "everything but the last token is a hit, and nobody behind it was taken first";
  EXPECT_EQ(w.scheduler->counters().spent.computed[static_cast<size_t>(Cause::recomputed)], 0);
}

TEST(Scheduler, TheFirstIsNeverPreempted) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const auto n_blocks = static_cast<int>(rng.between(3, 8));
    World w({.max_seqs = 8,
             .step_tokens = static_cast<int>(rng.between(1, 60)),
             .max_chunk = static_cast<int>(rng.between(1, 60)),
             .prefix_cache = rng.between(0, 1) == 1},
            n_blocks);
    const int most = n_blocks * kBlock;
    for (SeqId id = 1; id <= 10; ++id) {
      const auto n_prompt = static_cast<int>(rng.between(1, most - 2));
      w.add(id, n_prompt, static_cast<int>(rng.between(1, most - n_prompt)));
    }
    // Ids are places in the queue: the smallest that is left gets something in every step.
    for (int n_steps = 0; !w.scheduler->idle(); ++n_steps) {
      SeqId first = 100;
      for (const auto seqs : {w.scheduler->running(), w.scheduler->waiting()}) {
        for (const auto& seq : seqs) first = std::min(first, seq->id);
      }
      const std::string plan = " " + w.step();
      ASSERT_NE(plan.find(" " + std::to_string(first) + ":"), std::string::npos) << plan;
      ASSERT_LT(n_steps, 10 * most);
    }
  }
}

// 1 computes what 2 and 3 need too; they wait for its blocks and compute only what is theirs.
TEST(Scheduler, AFollowerWaitsForTheBlocksOfItsLeader) {
  World w({.step_tokens = 64, .max_chunk = 32}, 40);
  w.add(1, 70);
  w.add(2, 70).tokens = random_tokens(1, 70);
  w.add(3, 70).tokens = random_tokens(1, 70);
  EXPECT_EQ(w.step(), "1:32");
  EXPECT_EQ(w.running(), "1 2 3") << "they keep their places meanwhile";
  EXPECT_EQ(w.step(), "1:32");
  EXPECT_EQ(w.step(), "1:6!");
  EXPECT_EQ(w.step(), "1:1! 2:1! 3:1!") << "four blocks are shared, the part of the fifth is copied";
  EXPECT_EQ(w.scheduler->counters().spent.n_reused, 2 * 69);
  EXPECT_EQ(w.scheduler->counters().spent.n_wasted, 0);
  EXPECT_EQ(w.scheduler->counters().spent.n_computed(), 70 + 1 + 2);
  EXPECT_EQ(w.scheduler->counters().n_cached_tokens, 2 * 69);
  EXPECT_EQ(w.cache->n_blocks() - w.cache->n_free_blocks(), 4 + 3);
}

TEST(Scheduler, ChoicesOfAShortPromptAreCopiedToo) {
  World w({.step_tokens = 64}, 40);
  for (SeqId id = 1; id <= 4; ++id) w.add(id, 10).tokens = random_tokens(1, 10);
  EXPECT_EQ(w.step(), "1:10!");
  EXPECT_EQ(w.step(), "1:1! 2:1! 3:1! 4:1!");
  EXPECT_EQ(w.scheduler->counters().spent.n_computed(), 10 + 3 + 1);
}

TEST(Scheduler, AFollowerComputesTheRestWhereThereIsNoRoomForACopy) {
  World w({.step_tokens = 64}, 3);
  w.add(1, 20, 4);
  w.add(2, 20, 4).tokens = random_tokens(1, 20);
  for (int i = 0; !w.scheduler->idle(); ++i) {
    w.step();
    ASSERT_LT(i, 30);
  }
  EXPECT_LE(w.scheduler->counters().spent.n_computed(), 2 * 24);
}

TEST(Scheduler, AFollowerComputesItselfWhereThePastsPart) {
  World w({.step_tokens = 64, .max_chunk = 16}, 40);
  w.add(1, 64);
  Sequence& other = w.add(2, 64);
  other.tokens = random_tokens(1, 64);
  other.tokens[40] = (other.tokens[40] + 1) % kPoison;
  EXPECT_EQ(w.step(), "1:16");
  EXPECT_EQ(w.step(), "1:16");
  EXPECT_EQ(w.step(), "1:16 2:16") << "two blocks are common, the third is not";
}

TEST(Scheduler, AFollowerGoesOnWhenItsLeaderIsGone) {
  World w({.step_tokens = 64, .max_chunk = 16}, 40);
  w.add(1, 64);
  w.add(2, 64).tokens = random_tokens(1, 64);
  w.add(3, 64).tokens = random_tokens(1, 64);
  EXPECT_EQ(w.step(), "1:16");
  w.scheduler->remove(1);
  EXPECT_EQ(w.step(), "2:16") << "with what the leader had computed, and leading";
  EXPECT_EQ(w.scheduler->running()[0]->n_computed, 32);
  EXPECT_EQ(w.step(), "2:16");
}

TEST(Scheduler, NobodyFollowsAcrossSaltsOrWithoutACache) {
  World salted({.step_tokens = 64, .max_chunk = 32}, 40);
  salted.add(1, 70);
  Sequence& other = salted.add(2, 70);
  other.tokens = random_tokens(1, 70);
  other.request.cache_salt = 1;
  EXPECT_EQ(salted.step(), "1:32 2:32");
  World bare({.step_tokens = 64, .max_chunk = 32, .prefix_cache = false}, 40);
  bare.add(1, 70);
  bare.add(2, 70).tokens = random_tokens(1, 70);
  EXPECT_EQ(bare.step(), "1:32 2:32");
}

TEST(Scheduler, AFollowerOfAnotherSaltWaitsForWhatIsPublic) {
  World w({.step_tokens = 64, .max_chunk = 32}, 40);
  for (SeqId id = 1; id <= 2; ++id) {
    Sequence& seq = w.add(id, 90);
    seq.tokens = random_tokens(1, 90);
    seq.request.cache_salt = id;
    seq.request.n_public = 40;
  }
  EXPECT_EQ(w.step(), "1:32") << "two whole blocks are public";
  EXPECT_EQ(w.step(), "1:32 2:32");
  EXPECT_EQ(w.scheduler->counters().spent.n_reused, 32);
}

TEST(Scheduler, TheLongestCommonPastLeads) {
  World w({.step_tokens = 200, .max_chunk = 32}, 60);
  w.add(1, 96);
  Sequence& second = w.add(2, 96);
  second.tokens = random_tokens(1, 96);
  for (size_t i = 32; i < 96; ++i) second.tokens[i] = (second.tokens[i] + 1) % kPoison;
  w.add(3, 96).tokens = second.tokens;
  EXPECT_EQ(w.step(), "1:32");
  EXPECT_EQ(w.step(), "1:32 2:32") << "3 waits for 2, which waited for 1";
  EXPECT_EQ(w.step(), "1:32! 2:32!");
  EXPECT_EQ(w.step(), "1:1! 2:1! 3:1!");
}

// 1 is the least urgent, but 3 needs what it computes: it goes on the place of 3, before 2.
TEST(Scheduler, ALeaderGoesOnThePlaceOfItsFirstFollower) {
  World w({.step_tokens = 24, .max_chunk = 16, .policy = "priority"}, 40);
  w.add(1, 64);
  EXPECT_EQ(w.step(), "1:16");
  w.add(2, 64).request.priority = -1;
  Sequence& urgent = w.add(3, 64);
  urgent.request.priority = -2;
  urgent.tokens = random_tokens(1, 64);
  EXPECT_EQ(w.step(), "1:16 2:8");
  EXPECT_EQ(w.step(), "1:16 2:8");
  EXPECT_EQ(w.running(), "1 3 2");
  EXPECT_EQ(w.step(), "1:16! 2:8");
  EXPECT_EQ(w.step(), "1:1! 3:1! 2:16");
  EXPECT_EQ(w.scheduler->counters().spent.n_wasted, 1) << "1 completes the block first; the rest of 3's was a copy";
  w.step();
  EXPECT_EQ(w.running(), "3 2 1") << "nobody waits for it any more";
  EXPECT_EQ(w.scheduler->counters().spent.n_reused, 63);
}

// 3 waits for 1 and holds nothing else, yet it is sent back before 2: when 1 ends it would run while the older 2 waits.
TEST(Scheduler, NobodyWaitsWhileOneThatCameLaterRuns) {
  World w({.step_tokens = 64, .max_chunk = 1, .recompute_share = 1}, 19);
  w.add(1, 160, 1);
  w.add(2, 160, 1);
  Sequence& follower = w.add(3, 161, 1);
  follower.tokens = random_tokens(1, 160);
  follower.tokens.push_back(7);
  int n_steps = 0;
  for (; !w.scheduler->idle() && n_steps < 1000; ++n_steps) {
    w.step();
    SeqId youngest = 0;
    for (const auto& seq : w.scheduler->running()) youngest = std::max(youngest, seq->id);
    for (const auto& seq : w.scheduler->waiting()) EXPECT_GT(seq->id, youngest) << "step " << n_steps;
  }
  EXPECT_TRUE(w.scheduler->idle());
  EXPECT_EQ(w.scheduler->counters().n_preempted, 2);
}

// 1 computes what the urgent 2 waits for, on its place; when blocks run out it is the last all the same, and then 3. 2
// goes on in that step behind what 1 has computed.
TEST(Scheduler, ALeaderOnALentPlaceIsSentBackAsTheLast) {
  World w({.step_tokens = 24, .max_chunk = 16, .policy = "priority", .recompute_share = 1}, 20);
  w.add(1, 240);
  EXPECT_EQ(w.step(), "1:16");
  Sequence& urgent = w.add(2, 240);
  urgent.request.priority = -2;
  urgent.tokens = random_tokens(1, 240);
  w.add(3, 150).request.priority = -1;
  std::string plan;
  for (int i = 0; i < 20 && w.scheduler->counters().n_preempted == 0; ++i) {
    EXPECT_EQ(w.scheduler->counters().spent.n_reused, i < 1 ? 0 : 16)
        << "2 takes what 1 has when it comes, then it waits";
    plan = w.step();
  }
  EXPECT_EQ(plan, "2:16");
  EXPECT_EQ(w.running(), "2");
  EXPECT_EQ(w.waiting(), "1 3");
  EXPECT_EQ(urgent.n_computed, w.scheduler->counters().spent.n_reused + 16)
      << "nothing of what 1 had was computed again";
  EXPECT_GT(urgent.n_computed, 200);
}

TEST(Scheduler, AStepIsChargedToItsRowsAndBlocksToTheNanosecond) {
  World w({.step_tokens = 64, .max_chunk = 32}, 40);
  w.step_ns = 1000;
  w.add(1, 20);
  w.add(2, 10);
  EXPECT_EQ(w.step(), "1:20! 2:10!");
  EXPECT_EQ(w.step(), "1:1! 2:1!");
  const Cost& one = w.scheduler->running()[0]->account.cost;
  const Cost& two = w.scheduler->running()[1]->account.cost;
  EXPECT_EQ(one.prefill_ns, 666);
  EXPECT_EQ(two.prefill_ns, 334);
  EXPECT_EQ(one.decode_ns + two.decode_ns, 1000);
  EXPECT_EQ(one.block_ns, 2 * 2000);
  EXPECT_EQ(two.block_ns, 2000);
  EXPECT_EQ(w.scheduler->counters().busy_ns, 2000);
  EXPECT_EQ(w.scheduler->counters().spent.block_ns, 6000);
}

TEST(Scheduler, WhatWaitsIsPredictedFromTheStepsSoFar) {
  World w({.max_seqs = 1}, 40);
  w.step_ns = 1'000'000;
  EXPECT_EQ(w.scheduler->queue_ns(), 0);
  w.add(1, 100, 5);
  for (int i = 0; i < 5; ++i) w.step();
  EXPECT_EQ(w.scheduler->queue_ns(), 0) << "nobody waits";
  for (SeqId id = 2; id <= 12; ++id) w.add(id, 100, 5);
  w.step();
  const int64_t ten = w.scheduler->queue_ns();
  EXPECT_GT(ten, 10 * 4 * 1'000'000) << "each makes about five tokens, one a step";
  EXPECT_LT(ten, 10 * 30 * 1'000'000);
  for (SeqId id = 2; id <= 12; ++id) w.scheduler->remove(id);
  EXPECT_EQ(w.scheduler->queue_ns(), 0);
}

// Prompts of 16 to 1,500 tokens, answers of up to 300, short ones more often: what of the blocks' slots holds nothing.
TEST(Scheduler, UnderFourPercentOfTheSlotsAreEmptyUnderAMixedTrace) {
  World w({.max_seqs = 32, .step_tokens = 256}, 2500);
  w.options.n_ctx = 2000;
  Rng rng(1);
  const auto length = [&](int least, int most) {
    const double u = rng.unit();
    return least + static_cast<int>(u * u * (most - least));
  };
  for (SeqId id = 1; id <= 200; ++id) w.add(id, length(16, 1500), length(1, 300));
  while (!w.scheduler->idle()) w.step();
  const auto filled = static_cast<double>(w.scheduler->counters().n_filled_slot_steps);
  const double empty = 1 - filled / static_cast<double>(w.scheduler->counters().n_slot_steps);
  RecordProperty("empty_slots", std::to_string(empty));
  EXPECT_GT(empty, 0);
  EXPECT_LT(empty, 0.04);
}

TEST(Scheduler, RemoveFreesBlocksWhereverTheSequenceIs) {
  World w({.max_seqs = 1, .prefix_cache = false}, 10);
  w.add(1, 40);
  w.add(2, 40);
  w.step();
  EXPECT_EQ(w.cache->n_free_blocks(), 7);
  EXPECT_NE(w.scheduler->remove(2), nullptr);
  const auto removed = w.scheduler->remove(1);
  EXPECT_TRUE(removed->kv.table.empty()) << "at once, not when the last who looks at it is done";
  EXPECT_EQ(w.scheduler->remove(1), nullptr);
  EXPECT_EQ(w.cache->n_free_blocks(), 10);
  EXPECT_TRUE(w.scheduler->idle());
}

TEST(Scheduler, TheMoreUrgentIsAdmittedFirstAndPreemptedLast) {
  World w({.max_seqs = 2, .policy = "priority"}, 6);
  w.add(1, 16, 40).request.priority = 2;
  w.add(2, 16, 40).request.priority = 1;
  w.add(3, 16, 40).request.priority = -1;
  EXPECT_EQ(w.step(), "3:16! 2:16!");
  for (int i = 0; i < 60 && w.scheduler->counters().n_preempted == 0; ++i) w.step();
  EXPECT_EQ(w.running(), "3");
  EXPECT_EQ(w.waiting(), "1 2");
}

TEST(Scheduler, WhatIsCachedIsAdmittedFirstUnderPrefix) {
  World w({.max_seqs = 1, .policy = "prefix"}, 40);
  w.add(1, 64, 1);
  w.step();
  w.add(2, 64, 1);
  w.add(3, 64, 1).tokens = random_tokens(1, 64);
  EXPECT_EQ(w.step(), "3:1!") << "63 of its 64 tokens are known";
  EXPECT_EQ(w.step(), "2:64!");
}

TEST(Scheduler, ADeepQueueIsLookedUpALittleInEachStep) {
  World w({.max_seqs = 1, .policy = "prefix"}, 200);
  w.add(1, 640, 1);
  for (int i = 0; i < 3; ++i) w.step();
  for (SeqId id = 2; id <= 400; ++id) w.add(id, 640, 9).tokens = random_tokens(1, 640);
  w.step();
  const auto looked_up = [&] {
    int n = 0;
    for (const auto& seq : w.scheduler->waiting()) n += seq->probed_plan > 0 ? 1 : 0;
    return n;
  };
  EXPECT_GT(looked_up(), 10);
  EXPECT_LE(looked_up(), 1024 / 40 + 1);
}

}  // namespace
}  // namespace quire
