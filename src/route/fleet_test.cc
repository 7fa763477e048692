// The choice among workers, and what is remembered of them: on a clock of its own, without sockets.
#include "route/fleet.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "route/asked.h"
#include "route/fleet_testing.h"
#include "route/session_key.h"

namespace quire {
namespace {

TEST(Fleet, WhatOtherRoutersGaveAWorkerIsItsLoadTooAndNotToldAsOurs) {
  FleetWorld world(2);
  const auto first = world.worker(0), second = world.worker(1);
  world.fleet->set_others(std::vector<WorkerLoad>{{first->id, 900, 2, 900, 0}, {12345, 1, 1, 1, 1}});
  std::vector<Picked> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(std::move(*world.fleet->choose(asks(std::nullopt, 100), {})));
    EXPECT_EQ(held.back().worker, second) << i;
  }
  EXPECT_EQ(world.fleet->loads(), (std::vector<WorkerLoad>{{second->id, 400, 4, 400, 0}}));
  EXPECT_EQ(world.fleet->states()[0].others_tokens, 900);
  world.fleet->set_others({});
  EXPECT_EQ(world.fleet->choose(asks(std::nullopt, 100), {})->worker, first);
  held.clear();
  EXPECT_TRUE(world.fleet->loads().empty());
}

TEST(Fleet, AServerThatTwoNamesHaveOverTlsIsOneWorker) {
  FleetWorld world(1);
  std::vector<WorkerSpec> specs;
  for (const char* name : {"one.example", "two.example"}) {
    WorkerSpec& spec = specs.emplace_back();
    spec.at.host = "10.0.0.1";
    spec.at.port = 443;
    spec.at.tls_name = name;
  }
  world.fleet->set_workers(specs);
  ASSERT_EQ(world.fleet->workers().size(), 1U);
  EXPECT_EQ(world.worker(0)->spec, specs[0]);
}

TEST(Fleet, PromptsAreAheadUntilTheirAnswersBeginAndSayHowFastTheirWorkerIs) {
  FleetWorld world(1, "predicted");
  const auto worker = world.worker(0);
  auto first = world.fleet->choose(asks(std::nullopt, 100), {});
  auto second = world.fleet->choose(asks(std::nullopt, 300), {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(worker->prefill_tokens, 400);
  first->load.begins(200 * kMs);
  EXPECT_EQ(worker->token_ns, 2e6);
  first->load.begins(900 * kMs);  // once counts
  EXPECT_EQ(worker->token_ns, 2e6);
  EXPECT_EQ(worker->prefill_tokens, 300);
  EXPECT_EQ(worker->n_decoding, 1);
  LoadLease moved = std::move(second->load);
  moved.begins(400 * kMs);  // 400 tokens were before its first: a millisecond each
  EXPECT_NEAR(worker->token_ns, 1.8e6, 1);
  EXPECT_EQ(worker->n_decoding, 2);
  auto third = world.fleet->choose(asks(std::nullopt, 10), {});
  third->load.begins(900 * kMs);  // too few to measure by
  EXPECT_NEAR(worker->token_ns, 1.8e6, 1);
  auto fourth = world.fleet->choose(asks(std::nullopt, 70), {});
  fourth.reset();
  third.reset();
  first.reset();
  moved = {};
  second.reset();
  EXPECT_EQ(worker->prefill_tokens, 0);
  EXPECT_EQ(worker->n_decoding, 0);
  EXPECT_EQ(world.load(), 0);
}

TEST(Fleet, WhatWasGivenIsCountedInTheTimeThatItTakes) {
  FleetWorld world(2, "round_robin");
  auto first = world.fleet->choose(asks(std::nullopt, 100), {});
  FleetWork work = world.fleet->work(0);
  EXPECT_EQ(work.given_s, 0) << "nobody knows yet how long a token takes";
  EXPECT_EQ(work.n_requests, 1);
  EXPECT_EQ(work.n_usable, 2);
  first->load.begins(200 * kMs);                                   // two milliseconds each
  auto second = world.fleet->choose(asks(std::nullopt, 300), {});  // of the other one, so as usual
  work = world.fleet->work(0);
  EXPECT_NEAR(work.given_s, 0.6, 1e-9);
  EXPECT_NEAR(work.backlog_s, 0.6, 1e-9);
  EXPECT_EQ(work.n_requests, 2);
  work = world.fleet->work(10);
  EXPECT_EQ(work.n_requests, 12);
  EXPECT_NEAR(work.backlog_s, 0.6 + 10 * 0.002 * 110, 1e-9) << "those that wait are as requests usually are";
  second.reset();
  first.reset();
  work = world.fleet->work(0);
  EXPECT_EQ(work.backlog_s, 0);
  EXPECT_NEAR(work.given_s, 0.6, 1e-9) << "it never falls";
}

TEST(Fleet, ASessionStaysAndItsLoadIsChargedOnceAndReleasedOnce) {
  FleetWorld world(4);
  std::shared_ptr<Worker> home;
  for (int turn = 0; turn < 20; ++turn) {
    auto picked = world.fleet->choose(asks(Hash128{1, 2}), {});
    ASSERT_TRUE(picked);
    if (home == nullptr) home = picked->worker;
    EXPECT_EQ(picked->worker, home);
    EXPECT_EQ(picked->reason, turn == 0 ? "miss" : "session");
    EXPECT_EQ(world.load(), 101);
    Picked moved = std::move(*picked);  // however it is handed on
    moved.load = LoadLease();
    EXPECT_EQ(world.load(), 0);
  }
}

TEST(Fleet, ASessionMovesWithAReasonWhenItsWorkerIsFullOrGone) {
  FleetWorld world(4);
  std::vector<Picked> held;
  held.push_back(*world.fleet->choose(asks(Hash128{1, 1}, 1000), {}));
  auto full = world.fleet->choose(asks(Hash128{1, 1}, 100), {});
  EXPECT_EQ(full->reason, "session_full");
  EXPECT_NE(full->worker, held[0].worker);
  const auto now_at = full->worker;
  world.fleet->unreached(*now_at);
  auto gone = world.fleet->choose(asks(Hash128{1, 1}, 100), {});
  EXPECT_EQ(gone->reason, "session_gone");
  EXPECT_NE(gone->worker, now_at);
  RouteAsk pinned = asks(Hash128{1, 1}, 100);
  pinned.pinned = true;
  held.push_back(*world.fleet->choose(asks({}, 100000), {}));
  EXPECT_EQ(world.fleet->choose(pinned, {})->worker, gone->worker);
}

TEST(Fleet, SessionsAreForgottenAfterATimeAndBeyondANumber) {
  SessionMap map(2, 10 * kMs);
  map.set({1, 0}, 11, false, 0);
  map.set({2, 0}, 12, false, kMs);
  EXPECT_EQ(map.find({1, 0}, 9 * kMs), 11U);
  EXPECT_EQ(map.find({1, 0}, 10 * kMs), 0U);
  map.set({1, 0}, 11, false, 2 * kMs);
  map.set({3, 0}, 13, false, 3 * kMs);  // the one that was not asked for longest goes
  EXPECT_EQ(map.find({2, 0}, 3 * kMs), 0U);
  EXPECT_EQ(map.find({1, 0}, 3 * kMs), 11U);
  EXPECT_EQ(map.n_sessions(), 2);
}

TEST(Fleet, NamesThatClientsMakeUpTakeNoPlaceOfAPinnedSession) {
  SessionMap map(10, 1'000 * kMs);
  for (uint64_t i = 1; i <= 5; ++i) map.set({i, 7}, i, true, 0);
  for (uint64_t i = 1; i <= 1'000; ++i) map.set({i, 8}, 9, false, kMs);
  for (uint64_t i = 1; i <= 5; ++i) EXPECT_EQ(map.find({i, 7}, kMs), i);
  EXPECT_EQ(map.find({1'000, 8}, kMs), 9U);
  for (uint64_t i = 1; i <= 1'000; ++i) map.set({i, 9}, 9, true, kMs);  // nor do pinned ones take all
  EXPECT_EQ(map.find({1'000, 8}, kMs), 9U);
  EXPECT_EQ(map.find({1, 7}, kMs), 0U);
  EXPECT_EQ(map.n_sessions(), 10);
}

TEST(Fleet, APinnedSessionKeepsItsPlaceWhateverBecomesOfItsWorker) {
  FleetWorld world(4);
  const auto home = world.worker(3);
  world.fleet->remember({1, 1}, home->id, true);
  RouteAsk ask = asks(Hash128{1, 1});
  ask.pinned = true;
  EXPECT_EQ(world.fleet->choose(ask, {})->worker, home);
  world.fleet->rest(*home, 1'000);
  EXPECT_FALSE(world.fleet->choose(ask, {}));  // nobody else has it
  world.clock.advance_ns(1'000 * kMs);
  EXPECT_EQ(world.fleet->choose(ask, {})->worker, home);
  const std::vector<std::shared_ptr<Worker>> tried{home};
  EXPECT_FALSE(world.fleet->choose(ask, tried));
  world.fleet->set_models(*world.worker(0), Json::Array{Json::Object{{"id", "m"}}});
  ask.model = "m";  // whatever name its client uses now
  EXPECT_EQ(world.fleet->choose(ask, {})->worker, home);
  world.set(3);  // it leaves: whoever is asked says that it is not there
  const auto other = world.fleet->choose(ask, {});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->reason, "session_gone");
  world.set(4);
  for (int i = 0; i < 2; ++i) world.fleet->probed(*world.worker(3), Probe::well);
  EXPECT_EQ(world.fleet->choose(ask, {})->worker, world.worker(3));
}

TEST(Fleet, NobodyIsSentToAWorkerThatIsNotOfTheFleet) {
  FleetWorld world(2);
  world.fleet->remember({1, 1}, 12345, false);
  EXPECT_FALSE(world.fleet->knows({1, 1}));
  world.fleet->remember({1, 1}, world.worker(1)->id, false);
  EXPECT_TRUE(world.fleet->knows({1, 1}));
}

TEST(Fleet, ConnectionsThatFailCountAsFailuresDo) {
  FleetWorld world(4);
  const auto flaky = world.worker(0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(flaky->health.ejected());
    world.fleet->unreached(*flaky);
    for (int k = 0; k < 2; ++k) world.fleet->probed(*flaky, Probe::well);
  }
  EXPECT_TRUE(flaky->health.ejected());  // well whenever it is asked, and never there
}

TEST(Fleet, ASharedBeginningMeetsWhereItWas) {
  FleetWorld world(4);
  const auto ask_for = [](const std::string& text) {
    RouteAsk out;
    const std::string body = "{\"prompt\":\"" + text + "\"}";
    out.blocks = block_names(read_asked(body), 0);
    out.prompt_tokens = tokens_of_bytes(std::ssize(text));
    return out;
  };
  const std::string system(2000, 's');
  const auto first = world.fleet->choose(ask_for(system + "one"), {})->worker;
  auto second = world.fleet->choose(ask_for(system + "two, which is another"), {});
  EXPECT_EQ(second->worker, first);
  EXPECT_EQ(second->reason, "prefix");
  EXPECT_LT(world.load(), 50);  // what is cached costs nothing
  second.reset();
  world.fleet->unreached(*first);
  world.fleet->probed(*first, Probe::well);
  world.fleet->probed(*first, Probe::well);
  ASSERT_TRUE(first->health.up());
  EXPECT_EQ(world.fleet->choose(ask_for(system + "one"), {})->reason, "miss");  // it died, and holds nothing
}

// An activated adapter's request finds the worker of the model's own dialogue, an ordinary one's does not.
TEST(Fleet, AnActivatedAdapterSharesTheBeginningsOfItsModel) {
  FleetWorld world(4);
  const auto listed = [](const char* id, bool activated) {
    Json out = Json::Object{{"id", id}, {"parent", "m"}};
    if (activated) out.set("activated", true);
    return out;
  };
  for (const auto& worker : world.fleet->workers())
    world.fleet->set_models(*worker, {Json::Object{{"id", "m"}}, listed("m:late", true), listed("m:early", false)});
  EXPECT_EQ(world.fleet->base_of("m:late"), "m");
  EXPECT_EQ(world.fleet->base_of("m:early"), "");
  EXPECT_EQ(world.fleet->base_of("m"), "");
  const auto choose = [&](const std::string& name) {
    const std::string body = R"({"model":")" + name + R"(","prompt":")" + std::string(2000, 'p') + "\"}";
    HttpRequest request;
    return world.fleet->choose(route_ask(request, read_asked(body), 0, world.fleet->base_of(name)), {});
  };
  const auto first = choose("m")->worker;
  const auto late = choose("m:late"), early = choose("m:early");
  EXPECT_EQ(late->worker, first);
  EXPECT_EQ(late->reason, "prefix");
  EXPECT_EQ(early->reason, "miss");
  for (const auto& worker : world.fleet->workers()) world.fleet->set_models(*worker, {});
  EXPECT_EQ(world.fleet->base_of("m:late"), "");
}

TEST(Fleet, FailuresEjectButNeverOverHalf) {
  FleetWorld world(4);
  for (size_t i = 0; i < 4; ++i)
    for (int k = 0; k < 10; ++k) world.fleet->failed(*world.worker(i));
  int n_out = 0;
  for (const WorkerState& w : world.fleet->states()) n_out += w.ejected;
  EXPECT_EQ(n_out, 2);
  EXPECT_TRUE(world.fleet->choose(asks({}), {}));
  FleetWorld alone(1);
  for (int k = 0; k < 10; ++k) alone.fleet->failed(*alone.worker(0));
  EXPECT_TRUE(alone.fleet->any_usable());
}

TEST(Fleet, WorkersComeAndGoWhileRequestsAreUnderWay) {
  FleetWorld world(2);
  auto picked = world.fleet->choose(asks(Hash128{5, 5}), {});
  world.set(0);
  EXPECT_FALSE(world.fleet->choose(asks(Hash128{5, 5}), {}));
  world.fleet->failed(*picked->worker);
  picked.reset();
  world.set(3);
  EXPECT_FALSE(world.fleet->any_usable());  // nobody has asked them yet
  int n_told = 0;
  world.fleet->on_more([&] { ++n_told; });
  world.fleet->probed(*world.worker(1), Probe::well);
  EXPECT_EQ(n_told, 1);
  const auto same = world.worker(1);
  world.set(2);
  EXPECT_EQ(world.worker(1), same);
  EXPECT_TRUE(world.fleet->any_usable());
}

TEST(Fleet, RequestsGoWhereTheirModelIs) {
  FleetWorld world(3);
  const auto list = [](const char* name) { return Json::Array{Json::Object{{"id", name}}}; };
  world.fleet->set_models(*world.worker(0), list("a"));
  world.fleet->set_models(*world.worker(1), list("b"));
  world.fleet->set_models(*world.worker(2), list("b"));
  RouteAsk ask = asks({});
  ask.model = "a";
  for (int i = 0; i < 8; ++i) EXPECT_EQ(world.fleet->choose(ask, {})->worker, world.worker(0));
  ask.model = "nobody's";
  EXPECT_TRUE(world.fleet->choose(ask, {}));
  EXPECT_EQ(world.fleet->models().size(), 2U);
  const std::vector<std::shared_ptr<Worker>> tried{world.worker(0)};
  ask.model = "a";
  EXPECT_FALSE(world.fleet->choose(ask, tried));
}

// One prompt of another dialogue is no reason to leave the worker that has the past, a second is; and what all prompts
// begin with is no reason to go anywhere.
TEST(Fleet, ADialogueStaysWhereItsCacheIs) {
  FleetWorld world(8);
  const auto ask_for = [](uint64_t dialogue, int n_blocks) {
    RouteAsk out;
    for (int i = 0; i < n_blocks; ++i)
      out.blocks.push_back(i == 0 ? 1 : random_bits(dialogue, static_cast<uint64_t>(i)));
    out.prompt_tokens = tokens_of_bytes(bytes_of_blocks(n_blocks));
    return out;
  };
  const auto home = world.fleet->choose(ask_for(1, 100), {})->worker;
  std::vector<Picked> held;
  for (uint64_t dialogue = 2; dialogue <= 9; ++dialogue) {
    held.push_back(std::move(*world.fleet->choose(ask_for(dialogue, 40), {})));
    EXPECT_EQ(held.back().reason, "miss");
  }
  std::erase_if(held, [&](const Picked& one) { return one.worker != home; });
  ASSERT_EQ(held.size(), 1U);  // one went to each
  const auto next = world.fleet->choose(ask_for(1, 104), {});
  EXPECT_EQ(next->reason, "prefix");
  EXPECT_EQ(next->worker, home);
  EXPECT_EQ(next->hit_tokens, tokens_of_bytes(bytes_of_blocks(100)));
  const auto third = world.fleet->choose(ask_for(1, 108), {});
  EXPECT_EQ(third->reason, "prefix_full");
  EXPECT_NE(third->worker, home);
}

// What is remembered of prompts is so much for each worker.
TEST(Fleet, MoreWorkersRememberMorePrompts) {
  RouteLimits limits;
  limits.n_prefix_blocks = 4;
  for (const int n_workers : {1, 2}) {
    FleetWorld world(n_workers, "prefix", limits);
    RouteAsk ask = asks({}, 128);
    ask.blocks = {1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_EQ(world.fleet->choose(ask, {})->hit_tokens, 0);
    EXPECT_EQ(world.fleet->choose(ask, {})->hit_tokens, tokens_of_bytes(bytes_of_blocks(4 * n_workers)));
  }
}

// Whatever happens, in any order, nothing is charged in the end.
TEST(Fleet, LoadIsExactUnderAnyOrderOfEvents) {
  for (const char* policy : {"prefix", "hash", "least_load", "two_choices", "round_robin"}) {
    FleetWorld world(5, policy);
    Rng rng(3);
    std::vector<Picked> held;
    for (int i = 0; i < 5000; ++i) {
      const auto at = [&](size_t n) { return static_cast<size_t>(rng.between(0, static_cast<int64_t>(n) - 1)); };
      world.clock.advance_ns(rng.between(0, 50) * kMs);
      const int64_t what = rng.between(0, 9);
      const auto worker = world.worker(at(5));
      if (what == 0) world.fleet->failed(*worker);
      if (what == 1) world.fleet->unreached(*worker);
      if (what == 2) world.fleet->probed(*worker, Probe::well);
      if (what == 3) world.fleet->rest(*worker, rng.between(0, 3000));
      if (what >= 4 && what < 7)
        if (auto picked = world.fleet->choose(asks(Hash128{static_cast<uint64_t>(rng.between(0, 9)), 0}, i), {}))
          held.push_back(std::move(*picked));
      if (what >= 7 && !held.empty()) {
        std::swap(held[at(held.size())], held.back());
        held.pop_back();
      }
    }
    EXPECT_EQ(world.load() == 0, held.empty());
    held.clear();
    EXPECT_EQ(world.load(), 0) << policy;
  }
}

TEST(WorkerHealth, ComesBackAfterATimeAndGoodAnswersOnly) {
  const RouteLimits limits;
  WorkerHealth health(limits);
  EXPECT_FALSE(health.usable(0));
  health.probed(Probe::well, 0);
  EXPECT_TRUE(health.usable(0));
  EXPECT_FALSE(health.failed(0, true));
  EXPECT_FALSE(health.failed(0, true));
  health.worked();  // one good answer: the others are forgotten
  EXPECT_FALSE(health.failed(0, true));
  EXPECT_FALSE(health.failed(0, true));
  EXPECT_TRUE(health.failed(0, true));
  EXPECT_FALSE(health.usable(0));
  health.probed(Probe::well, 10 * kMs);
  health.probed(Probe::well, 20 * kMs);
  EXPECT_FALSE(health.usable(20 * kMs));  // too early
  health.probed(Probe::well, limits.eject_ms * kMs);
  EXPECT_TRUE(health.usable(limits.eject_ms * kMs));
  for (int i = 0; i < 3; ++i) health.failed(limits.eject_ms * kMs, true);
  health.probed(Probe::well, 2 * limits.eject_ms * kMs);
  health.probed(Probe::well, 2 * limits.eject_ms * kMs);
  EXPECT_FALSE(health.usable(2 * limits.eject_ms * kMs));  // the second time is twice as long
  health.probed(Probe::well, 3 * limits.eject_ms * kMs);
  EXPECT_TRUE(health.usable(3 * limits.eject_ms * kMs));
}

TEST(WorkerHealth, OneBadWordOrTwoSilencesAreEnoughAndOneGoodOneIsNot) {
  const RouteLimits limits;
  WorkerHealth health(limits);
  health.probed(Probe::well, 0);
  health.probed(Probe::silent, 0);
  EXPECT_TRUE(health.usable(0));
  health.probed(Probe::silent, 0);
  EXPECT_FALSE(health.usable(0));
  health.probed(Probe::well, 0);
  EXPECT_FALSE(health.usable(0));
  health.probed(Probe::well, 0);
  EXPECT_TRUE(health.usable(0));
  health.probed(Probe::unwell, 0);
  EXPECT_FALSE(health.usable(0));
}

TEST(WorkerHealth, WhoAsksForRestGetsItUpToALimit) {
  const RouteLimits limits;
  WorkerHealth health(limits);
  health.probed(Probe::well, 0);
  health.rest(0, 5000);
  EXPECT_FALSE(health.usable(4999 * kMs));
  EXPECT_TRUE(health.usable(5000 * kMs));
  health.rest(0, 86'400'000);
  EXPECT_TRUE(health.usable(limits.most_eject_ms * kMs));
}

TEST(WorkerSpec, UrlsAreReadAndBadOnesNamed) {
  const auto read = [](const char* url) {
    const auto spec = parse_worker(url);
    return spec ? spec->name() : spec.error().message;
  };
  EXPECT_EQ(read("http://h:81/base/v1/"), "h:81/base");
  EXPECT_EQ(read("h"), "h:80");
  EXPECT_EQ(read("http://[::1]:8080"), "[::1]:8080");
  EXPECT_EQ(read("https://h/v1"), "h:443");
  EXPECT_EQ(parse_worker("https://h:1")->at.tls_name, "h");
  EXPECT_EQ(parse_worker("http://h:1")->at.tls_name, "");
  for (const char* bad : {"https://", "ftp://h", "http://", "http://h:0", "http://h:99999", "http://h:x", "http://a@h",
                          "h:1\r\nx", "http://[::1", "http://h:80:90", "h ?x"})
    EXPECT_NE(read(bad).find("a worker is http://HOST:PORT or https://HOST:PORT, got"), std::string::npos) << bad;
}

}  // namespace
}  // namespace quire
