// Local engines among other workers, and how they are listed: without processes.
#include <gtest/gtest.h>

#include "base/utc_time.h"
#include "route/engine_pages.h"
#include "route/fleet.h"

namespace quire {
namespace {

WorkerSpec spec(int port, std::string model = "") {
  WorkerSpec out;
  out.at = {"w", port};
  out.model = std::move(model);
  return out;
}

RouteAsk asks(std::string model, std::string local) {
  RouteAsk out;
  out.model = std::move(model);
  out.local = std::move(local);
  out.prompt_tokens = 10;
  return out;
}

struct World {
  explicit World(const std::vector<WorkerSpec>& specs)
      : fleet(std::make_shared<Fleet>("round_robin", limits, clock, metrics)) {
    fleet->set_workers(specs);
    for (const auto& worker : fleet->workers()) fleet->probed(*worker, Probe::well);
  }
  std::string home(const RouteAsk& ask) const {
    const auto picked = fleet->choose(ask, {});
    return picked ? picked->worker->name : "";
  }
  RouteLimits limits;
  ManualClock clock;
  Metrics metrics;
  std::shared_ptr<Fleet> fleet;
};

TEST(FleetLocal, AnEngineIsAskedForItsModelAloneAndForThatNobodyElse) {
  const World world({spec(1), spec(2, "a"), spec(3, "b"), spec(4)});
  const auto workers = world.fleet->workers();
  world.fleet->set_models(*workers[0], {Json::Object{{"id", "a"}}, Json::Object{{"id", "c"}}});
  world.fleet->set_models(*workers[1], {Json::Object{{"id", "a"}}, Json::Object{{"id", "d"}}});
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(world.home(asks("", "a")), "a");
    EXPECT_EQ(world.home(asks("", "b")), "b");
    EXPECT_EQ(world.home(asks("c", "")), "w:1");
    EXPECT_NE(world.home(asks("d", "")), "a");  // what an engine lists beside its model is not looked for
    EXPECT_NE(world.home(asks("", "")), "b");
  }
  EXPECT_EQ(world.home(asks("", "x")), "");
  EXPECT_TRUE(world.fleet->has_remote());
  EXPECT_FALSE(World({spec(2, "a")}).fleet->has_remote());
}

TEST(FleetLocal, AnEngineListsItsModelAndNothingElse) {
  const World world({spec(1), spec(2, "a")});
  const auto workers = world.fleet->workers();
  world.fleet->set_models(*workers[0], {Json::Object{{"id", "c"}}});
  world.fleet->set_models(*workers[1], {Json::Object{{"id", "a"}}, Json::Object{{"id", "a:prefix"}}});
  const Json::Array listed = world.fleet->models();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(*id_of(listed[0]), "c");
  EXPECT_EQ(*id_of(listed[1]), "a");
}

TEST(FleetLocal, ASessionIsAtItsModelWhereverThatListens) {
  const World world({spec(1, "a")});
  RouteAsk ask = asks("", "a");
  ask.session = Hash128{1, 2};
  EXPECT_EQ(world.home(ask), "a");
  EXPECT_EQ(world.fleet->local_home({1, 2}), "a");
  EXPECT_EQ(world.fleet->local_home({3, 4}), "");
  world.fleet->set_workers({});
  EXPECT_EQ(world.fleet->local_home({1, 2}), "");
  world.fleet->set_workers({spec(9, "a")});
  EXPECT_EQ(world.fleet->local_home({1, 2}), "a");
}

// The only one that has its model: left out, it would help nobody.
TEST(FleetLocal, AnEngineThatFailsIsNotLeftOut) {
  const World world({spec(1, "a"), spec(2), spec(3), spec(4)});
  const auto engine = world.fleet->workers()[0];
  for (int i = 0; i < 20; ++i) world.fleet->failed(*engine);
  EXPECT_EQ(world.home(asks("", "a")), "a");
}

TEST(EnginePages, ListsTellWhatIsHereWhatIsLoadedAndUntilWhen) {
  std::vector<LocalModelState> local(3);
  local[0] = {"a", "gguf", "", 7, 86'400, EngineState::on, kKeepForever};
  local[1] = {"b", "gguf", "it ended (exit code 1)", 8, 0, EngineState::off, kKeepForever};
  local[2] = {"c", "safetensors", "", 9, 0, EngineState::on, 90'500};
  const Json::Array models =
      model_entries(local, {Json::Object{{"id", "far"}}, Json::Object{{"id", "a"}, {"max_model_len", 512}}});
  ASSERT_EQ(models.size(), 4U);
  EXPECT_EQ(models[0].dump(), R"({"id":"a","max_model_len":512,"status":{"value":"loaded"}})");
  EXPECT_EQ(*models[1].find("status"),
            (Json(Json::Object{{"value", "unloaded"}, {"failed", true}, {"error", "it ended (exit code 1)"}})));
  EXPECT_EQ(models[3].dump(), R"({"id":"far"})");
  EXPECT_EQ(tag_entries(local).size(), 3U);
  EXPECT_EQ(*tag_entries(local)[0].find("modified_at"), Json("1970-01-02T00:00:00Z"));
  const Json::Array ps = ps_entries(local, 1'000);
  ASSERT_EQ(ps.size(), 2U);
  EXPECT_EQ(*ps[0].find("expires_at"), Json("9999-12-31T23:59:59Z"));
  EXPECT_EQ(*ps[1].find("expires_at"), Json("1970-01-01T00:18:10Z"));
  EXPECT_EQ(utc_time(kMostKeepAliveMs * 100), "9999-12-31T23:59:59Z");
}

}  // namespace
}  // namespace quire
