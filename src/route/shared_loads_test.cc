// Routers that tell each other what they gave to workers, through sockets that answer as Redis does, or as it should
// not.
#include "route/shared_loads.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "redis/testing.h"

namespace quire {
namespace {

TEST(SharedLoads, WhatIsWrittenIsReadAndWhatIsBrokenIsNot) {
  const RouterLoads loads{0xABCD, {{1, 200, 3, 150, 1}, {~uint64_t{0}, 0, 1, 0, 1}}};
  const std::string text = write_loads(loads);
  const auto read = read_loads(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->router, loads.router);
  EXPECT_EQ(read->workers, loads.workers);
  for (size_t n = 0; n < text.size(); ++n) {
    const auto part = read_loads(text.substr(0, n));
    EXPECT_LT(part ? part->workers.size() : 0U, 2U) << n;  // whole workers, or nothing
  }
  for (const char* bad : {"", "1 ", "2 a ", "1 0 ", "1 a 1:2:3:4", "1 a 1:2:3:4:-5;", "1 a 1:2:3:4:1099511627777;",
                          "1 a x:2:3:4:5;", "1 a 1:2:3:4:5;x", "1 a 1:2:3:4:5:6;"})
    EXPECT_FALSE(read_loads(bad)) << bad;
  Rng rng(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = text;
    for (uint64_t n = 1 + rng.bits() % 3; n > 0; --n)
      changed[rng.bits() % changed.size()] = static_cast<char>(rng.bits());
    const auto some = read_loads(changed);
    if (!some) continue;
    for (const WorkerLoad& w : some->workers)
      EXPECT_TRUE(w.load_tokens >= 0 && w.n_requests >= 0 && w.prefill_tokens >= 0 && w.n_decoding >= 0);
  }
}

TEST(SharedLoads, MoreThanAPlaceHoldsIsLeftOut) {
  RouterLoads many{7, {}};
  for (uint64_t i = 0; i < 5'000; ++i) many.workers.push_back({~i, 1 << 20, 100, 1 << 20, 50});
  const std::string text = write_loads(many);
  EXPECT_LE(text.size(), kMostLoadsBytes);
  const auto read = read_loads(text);
  ASSERT_TRUE(read);
  EXPECT_GT(read->workers.size(), 1'000U);
  EXPECT_EQ(read->workers.back(), many.workers[read->workers.size() - 1]);
}

TEST(SharedLoads, PlacesAreHeldFreeOrOthers) {
  std::vector<std::string> places(4);
  EXPECT_EQ(look_at_places(places, 6).own, 2);
  places[2] = write_loads({9, {{1, 10, 1, 10, 0}}});
  places[0] = write_loads({8, {{1, 5, 2, 5, 1}, {2, 7, 1, 0, 1}}});
  PlacesSeen seen = look_at_places(places, 6);
  EXPECT_EQ(seen.own, 3);
  EXPECT_FALSE(seen.held);
  EXPECT_EQ(seen.n_others, 2);
  EXPECT_EQ(seen.others, (std::vector<WorkerLoad>{{1, 15, 3, 15, 1}, {2, 7, 1, 0, 1}}));
  places[1] = write_loads({6, {{1, 1000, 1, 1000, 0}}});
  places[3] = "of somebody else";
  seen = look_at_places(places, 6);
  EXPECT_EQ(seen.own, 1);
  EXPECT_TRUE(seen.held);
  EXPECT_EQ(seen.others.front().load_tokens, 15);  // not its own
  places[1] = write_loads({5, {}});
  EXPECT_EQ(look_at_places(places, 6).own, -1);  // a place of another kind is not taken
}

// A Redis in which keys do not end by themselves.
class Places {
 public:
  Places() : redis_([this](const std::vector<std::string>& words) { return answer(words); }) {}
  RedisOptions options() const { return redis_.options(); }
  void change(const std::function<void(std::map<std::string, std::string>&)>& fn) {
    const std::lock_guard lock(mu_);
    fn(values_);
  }
  std::atomic<bool> refuses{false};

 private:
  std::optional<std::string> answer(const std::vector<std::string>& words) {
    const std::lock_guard lock(mu_);
    if (words[0] == "SELECT") return "+OK\r\n";
    if (refuses) return "-LOADING\r\n";
    const auto at = values_.find(words[1]);
    if (words[0] == "GET")
      return at == values_.end() ? "$-1\r\n" : "$" + std::to_string(at->second.size()) + "\r\n" + at->second + "\r\n";
    EXPECT_EQ(words[4] + words[5], "PX2000");
    if ((words[3] == "NX") != (at == values_.end())) return "$-1\r\n";
    values_[words[1]] = words[2];
    return "+OK\r\n";
  }
  std::mutex mu_;
  std::map<std::string, std::string> values_;
  FakeRedis redis_;  // last: it asks the others
};

struct Router {
  Router(const Places& places, std::vector<WorkerLoad> own)
      : loads(
            places.options(),
            [own = std::move(own)] { return own; },
            [this](const std::vector<WorkerLoad>& seen) {
              const std::lock_guard lock(mu);
              others = seen;
            },
            metrics,
            10) {}
  bool sees(const std::vector<WorkerLoad>& what) {
    return eventually([&] {
      const std::lock_guard lock(mu);
      return others == what;
    });
  }
  std::mutex mu;
  std::vector<WorkerLoad> others;
  Metrics metrics;
  SharedLoads loads;  // last: it tells the others
};

TEST(SharedLoads, RoutersSeeEachOtherAndForgetWhoseLeaseEnds) {
  Places places;
  Router a(places, {{1, 10, 1, 10, 0}});
  Router b(places, {{1, 5, 1, 5, 0}, {2, 3, 1, 0, 1}});
  EXPECT_TRUE(a.sees({{1, 5, 1, 5, 0}, {2, 3, 1, 0, 1}}));
  EXPECT_TRUE(b.sees({{1, 10, 1, 10, 0}}));
  {
    Router c(places, {{2, 4, 1, 4, 0}});
    EXPECT_TRUE(b.sees({{1, 10, 1, 10, 0}, {2, 4, 1, 4, 0}}));
    EXPECT_TRUE(eventually([&] { return c.metrics.gauge("quire_directory_routers", "").value() == 3; }));
  }
  places.change([](auto& values) { values.clear(); });  // all leases end; who lives takes a place anew
  EXPECT_TRUE(b.sees({{1, 10, 1, 10, 0}}));
}

TEST(SharedLoads, WithoutARedisThatAnswersWellNothingIsBelieved) {
  Places places;
  Router a(places, {{1, 10, 1, 10, 0}});
  Router b(places, {});
  EXPECT_TRUE(b.sees({{1, 10, 1, 10, 0}}));
  places.refuses = true;
  EXPECT_TRUE(b.sees({}));
  places.refuses = false;
  EXPECT_TRUE(b.sees({{1, 10, 1, 10, 0}}));
}

TEST(SharedLoads, PlacesThatAreAllTakenAreLeftToTheirHolders) {
  Places places;
  places.change([](auto& values) {
    for (int i = 0; i < kRouterPlaces; ++i)
      values["quire:router:" + std::to_string(i)] = write_loads({1000 + static_cast<uint64_t>(i), {{1, 2, 1, 2, 0}}});
  });
  Router late(places, {{1, 99, 1, 99, 0}});
  EXPECT_TRUE(late.sees({{1, 2 * kRouterPlaces, kRouterPlaces, 2 * kRouterPlaces, 0}}));
  places.change([](auto& values) {
    for (const auto& [key, value] : values) EXPECT_EQ(value.find(":99:"), std::string::npos);
    values.erase("quire:router:3");
  });
  EXPECT_TRUE(eventually([&] {
    bool taken = false;
    places.change([&](auto& values) {
      const auto at = values.find("quire:router:3");
      taken = at != values.end() && at->second.find(":99:") != std::string::npos;
    });
    return taken;
  }));
}

}  // namespace
}  // namespace quire
