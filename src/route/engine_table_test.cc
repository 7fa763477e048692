// Which engines run, on times that are given: no process, no thread.
#include "route/engine_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kMs = 1'000'000;

// A table whose processes do at once what they are told, unless `slow`.
struct World {
  explicit World(EngineRules r, std::vector<std::pair<std::string, int64_t>> models = {{"a", 10}, {"b", 10}, {"c", 10}})
      : rules(r), table(rules, std::move(models)) {}
  void step() {
    for (bool more = true; more;) {
      const EngineTable::Step step = table.step(now_ms * kMs);
      for (const size_t i : step.start) {
        ++n_starts;
        log += '+' + table.models()[i].name;
        if (!slow) table.listens(i, now_ms * kMs);
      }
      for (const size_t i : step.stop) {
        EXPECT_EQ(table.models()[i].n_users, 0);
        log += '-' + table.models()[i].name;
        if (!slow) table.ended(i);
      }
      granted.insert(granted.end(), step.granted.begin(), step.granted.end());
      refused.insert(refused.end(), step.refused.begin(), step.refused.end());
      more = !slow && (!step.start.empty() || !step.stop.empty());
    }
  }
  EngineTable::Ticket ask(size_t model, int64_t keep_alive_ms = -1) {
    const EngineTable::Entered entered = table.enter(model, keep_alive_ms, now_ms * kMs);
    refusal = entered.refusal;
    retry_ms = entered.retry_ms;
    if (entered.granted) granted.push_back(entered.ticket);
    step();
    return entered.ticket;
  }
  void leave(EngineTable::Ticket ticket) {
    table.leave(ticket, now_ms * kMs);
    step();
  }
  bool has(EngineTable::Ticket ticket) const { return table.holds(ticket); }
  EngineState state(size_t i) const { return table.models()[i].state; }
  void pass(int64_t ms) {
    now_ms += ms;
    step();
  }
  EngineRules rules;
  EngineTable table;
  int64_t now_ms = 1'000;
  bool slow = false;
  int n_starts = 0;
  std::string log, refusal;
  int64_t retry_ms = 0;
  std::vector<EngineTable::Ticket> granted;
  std::vector<std::pair<EngineTable::Ticket, std::string>> refused;
};

TEST(EngineTable, StartsAtTheFirstRequestAndEndsWhenNobodyAskedForLong) {
  World world({.keep_alive_ms = 500});
  const auto first = world.ask(0), second = world.ask(0);
  EXPECT_TRUE(world.has(first) && world.has(second));
  EXPECT_EQ(world.log, "+a");
  world.pass(10'000);  // in use
  world.leave(first);
  world.pass(10'000);
  world.leave(second);
  EXPECT_EQ(world.table.next_ns(), (world.now_ms + 500) * kMs);
  world.pass(499);
  EXPECT_EQ(world.log, "+a");
  world.pass(1);
  EXPECT_EQ(world.log, "+a-a");
  EXPECT_EQ(world.table.next_ns(), std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(world.has(world.ask(0)));
  EXPECT_EQ(world.log, "+a-a+a");
}

TEST(EngineTable, ARequestSaysHowLongAndTheNextStartForgetsIt) {
  World world({.keep_alive_ms = 500});
  world.leave(world.ask(0, 0));
  EXPECT_EQ(world.log, "+a-a");
  world.leave(world.ask(0, kKeepForever));
  world.pass(1'000'000'000);
  EXPECT_EQ(world.log, "+a-a+a");
  world.leave(world.ask(0));  // says nothing: as it was
  world.pass(1'000'000'000);
  EXPECT_EQ(world.log, "+a-a+a");
  world.table.unload(0);
  world.step();
  EXPECT_EQ(world.log, "+a-a+a-a");
  world.leave(world.ask(0));
  world.pass(500);
  EXPECT_EQ(world.log, "+a-a+a-a+a-a");
}

TEST(EngineTable, WhoWasUsedLongestAgoGoesFirstAndOnlyWhenThereIsNoRoom) {
  World world({.n_engines = 2});
  world.leave(world.ask(0));
  world.pass(1);
  world.leave(world.ask(1));
  world.pass(1);
  world.leave(world.ask(0));
  world.pass(1);
  EXPECT_EQ(world.log, "+a+b");
  EXPECT_TRUE(world.has(world.ask(2)));
  EXPECT_EQ(world.log, "+a+b-b+c");
}

TEST(EngineTable, AModelWhoseFileIsGoneIsGivenToNobodyAndEndsWhenItIsNotUsed) {
  World world({.keep_alive_ms = kKeepForever});
  const auto ticket = world.ask(0);
  world.table.remove(0);
  world.step();
  EXPECT_TRUE(world.has(ticket)) << "what it has it finishes";
  EXPECT_EQ(world.ask(0), 0U);
  EXPECT_EQ(world.refusal, "its file is not there any more");
  EXPECT_EQ(world.table.load(0, world.now_ms * kMs).ticket, 0U);
  world.leave(ticket);
  EXPECT_EQ(world.log, "+a-a");
  world.table.renew(0, 20);
  EXPECT_TRUE(world.has(world.ask(0)));
  EXPECT_EQ(world.table.models()[0].bytes, 20);
  // One more has a place behind the others.
  EXPECT_EQ(world.table.add("d", 10), 3U);
  EXPECT_TRUE(world.has(world.ask(3)));
  EXPECT_EQ(world.log, "+a-a+a+d");
}

TEST(EngineTable, WhoWaitsForAModelWhoseFileGoesIsRefusedUnlessItIsAboutToComeUp) {
  World world({.n_engines = 1});
  world.slow = true;
  const auto first = world.ask(0), other = world.ask(1);
  world.table.remove(0);
  world.table.remove(1);
  world.step();
  ASSERT_EQ(world.refused.size(), 1U);
  EXPECT_EQ(world.refused[0], std::pair(other, std::string("its file is not there any more")));
  world.table.listens(0, world.now_ms * kMs);
  world.step();
  EXPECT_TRUE(world.has(first));
  world.leave(first);
  EXPECT_EQ(world.log, "+a-a");
  world.table.ended(0);
  // One that fails is not tried again.
  world.table.renew(0, 10);
  const auto next = world.ask(0);
  EXPECT_EQ(world.log, "+a-a+a");
  world.table.remove(0);
  world.table.failed(0, "no such file", world.now_ms * kMs);
  world.step();
  EXPECT_EQ(world.refused.back(), std::pair(next, std::string("no such file")));
  EXPECT_EQ(world.log, "+a-a+a");
  world.table.renew(0, 10);
  EXPECT_NE(world.ask(0), 0U) << "another file may do";
}

TEST(EngineTable, AnEngineOfAnOldFileTakesNobodyNewAndCountsAsItWas) {
  World world({.keep_alive_ms = kKeepForever, .n_engines = 3, .bytes = 100}, {{"a", 60}, {"b", 40}, {"c", 30}});
  const auto old = world.ask(0);
  world.table.renew(0, 10);
  const auto next = world.ask(0);
  EXPECT_TRUE(world.has(old)) << "what it has it finishes";
  EXPECT_TRUE(world.table.waits(next));
  world.leave(world.ask(1));
  const auto other = world.ask(2);
  EXPECT_EQ(world.log, "+a+b") << "the old one has its 60 bytes still";
  EXPECT_TRUE(world.table.waits(other));
  world.leave(old);
  EXPECT_EQ(world.log, "+a+b-a+a+c");
  EXPECT_TRUE(world.has(next) && world.has(other));
  // One that is about to come up may be of the old file too.
  world.leave(next);
  world.table.unload(0);
  world.step();
  world.slow = true;
  const auto last = world.ask(0);
  world.table.renew(0, 10);
  world.table.listens(0, world.now_ms * kMs);
  world.step();
  EXPECT_TRUE(world.table.waits(last));
  world.table.ended(0);
  world.step();
  world.table.listens(0, world.now_ms * kMs);
  world.step();
  EXPECT_TRUE(world.has(last));
  EXPECT_EQ(world.log, "+a+b-a+a+c-a+a-a+a");
}

TEST(EngineTable, BytesAreABoundToo) {
  World world({.n_engines = 10, .bytes = 100}, {{"a", 60}, {"b", 50}, {"c", 40}, {"d", 101}});
  world.leave(world.ask(0));
  world.pass(1);
  world.leave(world.ask(2));
  world.pass(1);
  EXPECT_EQ(world.log, "+a+c");
  EXPECT_TRUE(world.has(world.ask(1)));
  EXPECT_EQ(world.log, "+a+c-a+b");
  EXPECT_EQ(world.ask(3), 0U);
  EXPECT_EQ(world.refusal, "its 101 bytes are more than 100, what models may take together");
}

TEST(EngineTable, AnEngineInUseFinishesAndTakesNobodyNew) {
  World world({.n_engines = 1});
  const auto a1 = world.ask(0), a2 = world.ask(0), b1 = world.ask(1), a3 = world.ask(0), b2 = world.ask(1);
  EXPECT_TRUE(world.has(a1) && world.has(a2));
  EXPECT_TRUE(world.table.waits(b1) && world.table.waits(a3) && world.table.waits(b2));
  world.leave(a1);
  EXPECT_EQ(world.log, "+a");
  world.leave(a2);
  EXPECT_EQ(world.log, "+a-a+b");
  EXPECT_TRUE(world.has(b1) && world.has(b2) && world.table.waits(a3));  // all who waited for b when it came
  const auto b3 = world.ask(1);
  EXPECT_TRUE(world.table.waits(b3));  // a3 came before
  world.leave(b1);
  world.leave(b2);
  EXPECT_EQ(world.log, "+a-a+b-b+a");
  EXPECT_TRUE(world.has(a3));
  world.leave(a3);
  EXPECT_TRUE(world.has(b3));
}

TEST(EngineTable, WhenWhoWantedTheRoomLeavesNobodyHasToGo) {
  World world({.n_engines = 1});
  const auto a1 = world.ask(0), b1 = world.ask(1), a2 = world.ask(0);
  EXPECT_TRUE(world.table.waits(a2));
  world.leave(b1);
  EXPECT_TRUE(world.has(a2) && world.has(a1));
  EXPECT_EQ(world.log, "+a");
}

TEST(EngineTable, WaitingIsBoundedInNumberAndTime) {
  World world({.n_engines = 1, .n_waiting = 2, .wait_ms = 100});
  world.ask(0);
  const auto b1 = world.ask(1), c1 = world.ask(2);
  EXPECT_EQ(world.ask(1), 0U);
  EXPECT_EQ(world.refusal, "2 requests wait for a model already (n_waiting)");
  EXPECT_EQ(world.table.next_ns(), 1'100 * kMs);
  world.pass(100);
  ASSERT_EQ(world.refused.size(), 2U);
  EXPECT_EQ(world.refused[0].first, b1);
  EXPECT_EQ(world.refused[1].first, c1);
  EXPECT_EQ(world.refused[0].second, "it was waited for 100 ms (model_wait_ms)");
  world.leave(b1);  // who was refused has left already
  EXPECT_NE(world.ask(1), 0U);
}

TEST(EngineTable, OneThatDoesNotComeUpSaysSoAndRestsLongerEachTime) {
  World world({.rest_ms = 100, .most_rest_ms = 300});
  world.slow = true;
  const auto a1 = world.ask(0), a2 = world.ask(0), b1 = world.ask(1);
  world.table.failed(0, "no such file", world.now_ms * kMs);
  world.step();
  ASSERT_EQ(world.refused.size(), 2U);
  EXPECT_EQ(world.refused[0], (std::pair<EngineTable::Ticket, std::string>(a1, "no such file")));
  EXPECT_EQ(world.refused[1].first, a2);
  EXPECT_EQ(world.ask(0), 0U);
  EXPECT_EQ(world.refusal, "no such file");
  EXPECT_EQ(world.retry_ms, 100);
  for (const int64_t rest : {200, 300, 300}) {
    world.now_ms += 300;
    EXPECT_NE(world.ask(0), 0U);
    world.table.failed(0, "again", world.now_ms * kMs);
    world.step();
    EXPECT_EQ(world.ask(0), 0U);
    EXPECT_EQ(world.retry_ms, rest);
  }
  world.table.listens(1, world.now_ms * kMs);  // the other one goes on
  world.step();
  EXPECT_TRUE(world.has(b1));
}

TEST(EngineTable, OneThatDiesIsStartedAtOnceAndRestsOnlyWhenItAnsweredNobodySince) {
  World world({.rest_ms = 100});
  const auto a1 = world.ask(0);
  world.table.worked(a1);
  world.table.failed(0, "signal 9", world.now_ms * kMs);
  EXPECT_FALSE(world.has(a1));
  const auto a2 = world.ask(0);
  EXPECT_TRUE(world.has(a2));
  EXPECT_FALSE(world.has(a1));
  world.leave(a1);  // of the one that died: changes nothing
  EXPECT_EQ(world.table.models()[0].n_users, 1);
  world.table.failed(0, "signal 9", world.now_ms * kMs);
  EXPECT_EQ(world.ask(0), 0U);
  EXPECT_EQ(world.retry_ms, 100);
  world.pass(100);
  const auto a3 = world.ask(0);
  EXPECT_TRUE(world.has(a3));
  world.table.worked(a3);
  world.leave(a3);
  EXPECT_EQ(world.table.models()[0].n_failures, 0);
}

TEST(EngineTable, AskedWhileItEndsItIsStartedAnewWhenItIsGone) {
  World world({});
  world.leave(world.ask(0));
  world.slow = true;
  world.table.unload(0);
  world.step();
  EXPECT_EQ(world.state(0), EngineState::ending);
  const auto a = world.ask(0), b = world.ask(1);
  EXPECT_EQ(world.log, "+a-a+b");  // others do not wait for it
  world.table.ended(0);
  world.step();
  EXPECT_EQ(world.log, "+a-a+b+a");
  world.table.listens(0, world.now_ms * kMs);
  world.step();
  EXPECT_TRUE(world.has(a));
  EXPECT_TRUE(world.table.waits(b));
}

TEST(EngineTable, WhereMemoryIsShortOthersEndAndItIsTriedAgain) {
  World world({});
  world.leave(world.ask(0));
  const auto b = world.ask(1);
  world.slow = true;
  const auto c = world.ask(2);
  EXPECT_EQ(world.log, "+a+b+c");
  EXPECT_TRUE(world.table.found_no_room(2));
  world.step();
  EXPECT_EQ(world.log, "+a+b+c-a");  // nobody uses it
  world.table.ended(0);
  world.step();
  EXPECT_EQ(world.log, "+a+b+c-a+c");
  EXPECT_TRUE(world.table.found_no_room(2));
  world.step();
  EXPECT_TRUE(world.table.waits(c));
  EXPECT_TRUE(world.table.models()[1].retiring);
  world.leave(b);
  EXPECT_EQ(world.log, "+a+b+c-a+c-b");
  world.table.ended(1);
  world.step();
  EXPECT_EQ(world.log, "+a+b+c-a+c-b+c");
  EXPECT_FALSE(world.table.found_no_room(2));  // alone: it is too large for the machine
  world.table.failed(2, "does not fit", world.now_ms * kMs);
  world.step();
  ASSERT_EQ(world.refused.size(), 1U);
  EXPECT_EQ(world.refused[0].first, c);
  const auto a = world.ask(0);
  world.table.listens(0, world.now_ms * kMs);
  world.pass(2'000);
  world.ask(2);
  EXPECT_EQ(world.log, "+a+b+c-a+c-b+c+a+c");  // it is tried beside others again
  EXPECT_TRUE(world.has(a));
}

TEST(EngineTable, LoadingAsksForNothingAndUnloadingCutsNothing) {
  World world({.n_engines = 1});
  EXPECT_NE(world.table.load(0, world.now_ms * kMs).ticket, 0U);
  world.step();
  EXPECT_EQ(world.log, "+a");
  EXPECT_EQ(world.table.models()[0].n_users, 0);
  EXPECT_EQ(world.table.models()[0].n_waiting, 0);
  const auto a = world.ask(0);
  world.table.unload(0);
  world.step();
  EXPECT_TRUE(world.has(a));
  world.leave(a);
  EXPECT_EQ(world.log, "+a-a");
}

// Whatever comes in whatever order: bounds hold, nobody who is in use is ended, and everybody has an end.
TEST(EngineTable, NobodyIsForgottenHoweverRequestsCome) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const auto below = [&rng](uint64_t n) { return static_cast<size_t>(rng.bits() % n); };
    World world({.keep_alive_ms = 50,
                 .n_engines = 1 + static_cast<int64_t>(below(3)),
                 .bytes = below(2) == 0 ? 0 : 25,
                 .n_waiting = 40,
                 .wait_ms = 1'000'000,
                 .rest_ms = 1});
    world.slow = true;
    std::deque<EngineTable::Ticket> open;
    const auto settle = [&](size_t i) {
      if (world.state(i) == EngineState::starting && below(4) != 0) world.table.listens(i, world.now_ms * kMs);
      if (world.state(i) == EngineState::ending) world.table.ended(i);
      if (world.state(i) == EngineState::starting && below(10) == 0) (void)world.table.found_no_room(i);
      if (world.state(i) != EngineState::off && below(40) == 0) world.table.failed(i, "x", world.now_ms * kMs);
    };
    const auto check = [&] {
      int64_t n = 0, bytes = 0;
      for (const EngineTable::Model& m : world.table.models()) {
        EXPECT_GE(m.n_users, 0);
        EXPECT_GE(m.n_waiting, 0);
        if (m.state == EngineState::off) continue;
        ++n;
        bytes += m.bytes;
      }
      EXPECT_LE(n, world.rules.n_engines) << seed;
      EXPECT_LE(bytes, world.rules.bytes > 0 ? world.rules.bytes : bytes) << seed;
    };
    for (int i = 0; i < 400; ++i) {
      const size_t what = below(10);
      if (what < 4) {
        if (const auto ticket = world.ask(below(3), below(5) == 0 ? 0 : -1)) open.push_back(ticket);
      } else if (what < 7 && !open.empty()) {
        std::swap(open[below(open.size())], open.back());
        world.leave(open.back());
        open.pop_back();
      } else if (what == 7) {
        world.table.unload(below(3));
      } else {
        settle(below(3));
      }
      world.pass(static_cast<int64_t>(below(5)));
      check();
    }
    // Those who have an engine leave, one after the other: then everybody else gets one, or is told why not.
    for (int i = 0; i < 2'000 && !open.empty(); ++i) {
      for (size_t m = 0; m < 3; ++m) settle(m);
      world.pass(1);
      for (const auto& [ticket, why] : world.refused) std::erase(open, ticket);
      if (open.empty()) break;
      const auto at = std::find_if(open.begin(), open.end(), [&](auto t) { return !world.table.waits(t); });
      if (at == open.end()) continue;
      world.leave(*at);
      open.erase(at);
    }
    EXPECT_TRUE(open.empty()) << seed << ": " << open.size() << " wait still";
  }
}

// So that a request that ends disturbs nobody while there is nothing to do.
TEST(EngineTable, UsersWantSomethingDoneOnlyWhereOneWaitsOrATimeEnds) {
  World world({.keep_alive_ms = 1'000, .n_engines = 1});
  const auto wanted_in = [&](int64_t ms) { return world.table.is_wanted_by((world.now_ms + ms) * kMs); };
  EXPECT_FALSE(wanted_in(1'000'000));
  const auto one = world.ask(0), same = world.ask(0);
  EXPECT_FALSE(wanted_in(1'000'000));  // in use
  const auto other = world.ask(1);
  EXPECT_TRUE(wanted_in(0));  // it waits for the first to end
  world.leave(other);
  EXPECT_FALSE(wanted_in(1'000'000));
  world.leave(one);
  EXPECT_FALSE(wanted_in(1'000'000));
  world.leave(same);
  EXPECT_FALSE(wanted_in(999));
  EXPECT_TRUE(wanted_in(1'000));
}

}  // namespace
}  // namespace quire
