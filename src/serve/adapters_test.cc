#include "serve/adapters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "serve/testing.h"
#include "serve/vllm_names.h"

namespace quire {
namespace {

constexpr int64_t kAdapterBytes = 4096;

// Folders are names of contents: "/a7" is adapter 7; "/bad" is none.
AdapterTable::Load loader() {
  return [](const std::string& folder, AdapterTable::Room& room) -> Result<std::shared_ptr<const Adapter>> {
    if (folder == "/bad") return fail(Code::corrupt, "/bad: adapter_config.json: must be an object");
    if (room.most_bytes < kAdapterBytes) return fail(Code::exhausted, folder + ": there is no room");
    auto out = std::make_shared<Adapter>();
    out->content = static_cast<uint64_t>(std::stoi(folder.substr(2)));
    QR_TRY(out->memory, Buffer::allocate(kAdapterBytes));
    return out;
  };
}

std::string names(const AdapterTable& table) {
  std::string out;
  for (const AdapterTable::Entry& entry : table.all()) out += entry.name + " ";
  return out;
}

// 0: nothing has the name.
uint64_t content(AdapterTable& table, const std::string& name) {
  const auto found = table.acquire(name);
  return found ? (*found)->content : 0;
}

TEST(AdapterTable, NamesComeAndGo) {
  AdapterTable table(loader(), {});
  ASSERT_TRUE(table.load("b", "/a2", false));
  ASSERT_TRUE(table.load("a", "/a1", false));
  EXPECT_EQ(names(table), "a b ");
  EXPECT_EQ(content(table, "a"), 1U);
  EXPECT_EQ(table.load("a", "/a3", false).error().message, "adapter 'a' is loaded already");
  EXPECT_EQ(content(table, "a"), 1U);
  ASSERT_TRUE(table.load("a", "/a3", true));
  EXPECT_EQ(content(table, "a"), 3U);
  EXPECT_EQ(table.load("a", "/bad", true).error().code, Code::corrupt);
  EXPECT_EQ(content(table, "a"), 3U) << "a failed load leaves what is there";
  ASSERT_TRUE(table.unload("a"));
  EXPECT_EQ(content(table, "a"), 0U);
  EXPECT_EQ(table.unload("a").error().code, Code::not_found);
  EXPECT_EQ(names(table), "b ");
}

TEST(AdapterTable, HoldsNoMoreThanItsLimits) {
  ServeLimits limits;
  limits.n_adapters = 2;
  limits.adapter_bytes = 3 * kAdapterBytes - 1;
  AdapterTable table(loader(), limits);
  ASSERT_TRUE(table.load("a", "/a1", false));
  const auto held = *table.acquire("a");  // as a request holds it
  ASSERT_TRUE(table.load("b", "/a2", false));
  const auto other = *table.acquire("b");
  EXPECT_EQ(table.load("c", "/a3", false).error().message, "there are 2 adapters already (n_adapters)");
  ASSERT_TRUE(table.unload("a"));
  const Status full = table.load("c", "/a3", false);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message,
            "/a3: there is no room: adapters that requests hold take 8192 of 12287 bytes (adapter_bytes)");
  EXPECT_EQ(held->content, 1U);
}

TEST(AdapterTable, WhatARequestLeavesMakesRoom) {
  ServeLimits limits;
  limits.adapter_bytes = kAdapterBytes;
  AdapterTable table(loader(), limits);
  ASSERT_TRUE(table.load("a", "/a1", false));
  std::shared_ptr<const Adapter> held = *table.acquire("a");
  ASSERT_TRUE(table.unload("a"));
  EXPECT_FALSE(table.load("b", "/a2", false));
  held = nullptr;
  EXPECT_TRUE(table.load("b", "/a2", false));
}

std::string in_memory(const AdapterTable& table) {
  std::string out;
  for (const AdapterTable::Entry& entry : table.all()) out += entry.in_memory ? entry.name : ".";
  return out;
}

TEST(AdapterTable, TheOneAskedForLongestAgoMakesRoom) {
  ServeLimits limits;
  limits.adapter_bytes = 2 * kAdapterBytes;
  AdapterTable table(loader(), limits);
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(table.load(name, std::string("/a") + char('1' + *name - 'a'), false));
  EXPECT_EQ(in_memory(table), ".bc");
  EXPECT_EQ(content(table, "b"), 2U);
  EXPECT_EQ(content(table, "a"), 1U) << "read again";
  EXPECT_EQ(in_memory(table), "ab.");
  const auto held = *table.acquire("b");
  EXPECT_EQ(content(table, "a"), 1U);
  EXPECT_EQ(content(table, "c"), 3U);
  EXPECT_EQ(in_memory(table), ".bc") << "what a request holds stays";
  const auto other = *table.acquire("c");
  const auto none = table.acquire("a");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::exhausted);
  EXPECT_EQ(none.error().message,
            "adapter 'a': /a1: there is no room: adapters that requests hold take 8192 of 8192 bytes (adapter_bytes)");
  EXPECT_EQ(names(table), "a b c ");
  EXPECT_EQ(table.acquire("d").error().code, Code::not_found);
  const AdapterTable::Stats stats = table.stats();
  EXPECT_EQ(stats.n_in_memory, 2);
  EXPECT_EQ(stats.bytes, 2 * kAdapterBytes);
  EXPECT_EQ(stats.n_loads, 5);
  EXPECT_EQ(stats.n_evictions, 3);
}

// A backend with room for three and a half.
TEST(AdapterTable, WhatABackendLacksIsTakenFromOthersWhereTheyHaveIt) {
  int64_t wanted = kAdapterBytes;
  int n_reads = 0;
  AdapterTable* all = nullptr;
  AdapterTable table(
      [&, read = loader()](const std::string& folder,
                           AdapterTable::Room& room) -> Result<std::shared_ptr<const Adapter>> {
        ++n_reads;
        const int64_t left = 7 * kAdapterBytes / 2 - all->stats().bytes;
        if (wanted <= left) return read(folder, room);
        room.backend_lacks = wanted - left;
        return fail(Code::exhausted, folder + ": cannot allocate");
      },
      {});
  all = &table;
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(table.load(name, std::string("/a") + char('1' + *name - 'a'), false));
  const auto held = *table.acquire("a");
  n_reads = 0;
  wanted = 3 * kAdapterBytes;
  const Status large = table.load("d", "/a4", false);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::exhausted);
  EXPECT_EQ(large.error().message,
            "/a4: cannot allocate: adapters that no request holds take too little to make room for it");
  EXPECT_EQ(in_memory(table), "abc") << "nothing goes in vain";
  EXPECT_EQ(n_reads, 1);
  wanted = 5 * kAdapterBytes / 2;  // lacks two
  ASSERT_TRUE(table.load("d", "/a4", false));
  EXPECT_EQ(in_memory(table), "a..d");
  EXPECT_EQ(n_reads, 3) << "read again once";
}

// A request for it must not be taken for one that names no adapter, which the model itself may answer.
TEST(AdapterTable, FilesThatAreGoneAreNoNameThatIsNotThere) {
  ServeLimits limits;
  limits.adapter_bytes = kAdapterBytes;
  bool is_gone = false;
  AdapterTable table(
      [&is_gone, read = loader()](const std::string& folder,
                                  AdapterTable::Room& room) -> Result<std::shared_ptr<const Adapter>> {
        if (is_gone) return fail(Code::not_found, folder + ": adapter_config.json: cannot be read");
        return read(folder, room);
      },
      limits);
  ASSERT_TRUE(table.load("a", "/a1", false));
  ASSERT_TRUE(table.load("b", "/a2", false));
  is_gone = true;
  const auto found = table.acquire("a");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::io);
  EXPECT_EQ(found.error().message,
            "adapter 'a' left memory for others and cannot be read again; the server's log says why")
      << "the folder is the operator's";
  is_gone = false;
  EXPECT_EQ(content(table, "a"), 1U);
}

// A hundred names, room for eight, four askers: each gets the content that it asks for, and memory stays bounded.
TEST(AdapterTable, ChurnStaysWithinItsRoom) {
  constexpr int kNames = 100, kRoom = 8;
  ServeLimits limits;
  limits.n_adapters = kNames;
  limits.adapter_bytes = kRoom * kAdapterBytes;
  AdapterTable table(loader(), limits);
  for (int i = 0; i < kNames; ++i)
    ASSERT_TRUE(table.load("n" + std::to_string(i), "/a" + std::to_string(i + 1), false));
  std::atomic<int> wrong{0};
  const auto ask = [&](int first) {
    for (int i = 0; i < 3 * kNames; ++i) {
      const int at = (first + 37 * i) % kNames;
      const auto got = table.acquire("n" + std::to_string(at));
      wrong += !got || (*got)->content != static_cast<uint64_t>(at + 1);
      wrong += table.stats().bytes > kRoom * kAdapterBytes;
    }
  };
  std::vector<std::thread> askers;
  for (int t = 0; t < 4; ++t) askers.emplace_back(ask, 11 * t);
  for (std::thread& one : askers) one.join();
  EXPECT_EQ(wrong, 0);
  const AdapterTable::Stats stats = table.stats();
  EXPECT_EQ(stats.n_in_memory, kRoom);
  EXPECT_EQ(stats.n_loads - stats.n_evictions, kRoom);
  EXPECT_GT(stats.n_loads, kNames);
}

TEST(AdapterTable, RefusesNamesThatAreNone) {
  const auto refusal = [](std::string_view name) {
    const Status fits = check_adapter_name(name, {"tiny"}, {});
    return fits ? "" : fits.error().message;
  };
  EXPECT_EQ(refusal("pirate-2.1/b"), "");
  EXPECT_EQ(refusal(""), "an adapter's name is not empty");
  EXPECT_EQ(refusal("a:b"), "an adapter's name has no ':' and no control characters, got 'a:b'");
  EXPECT_EQ(refusal("tiny"), "'tiny' is the name of the model or of a learned prefix here");
  EXPECT_EQ(refusal(std::string(257, 'x')), "an adapter's name has at most 256 bytes, got 257 (name_bytes)");
}

class AdapterServer : public testing::Test {
 protected:
  AdapterServer() : table_(loader(), {}) {
    server_.options.adapters = &table_;
    server_.options.prefixes = {{"radio", 77, 16}};
    server_.engine.script = [this](const Request& request) {
      asked_.push_back(request.adapter != nullptr ? static_cast<int>(request.adapter->content) : 0);
      return FakeEngine::default_script(request);
    };
  }
  // What a completion of this model has; -1: it was refused.
  int asks(const std::string& model, const std::string& more = "") {
    asked_.clear();
    const HttpResponse r = server_.post("/v1/completions", R"({"prompt":"a","model":")" + model + "\"" + more + "}");
    last_ = r.body;
    return r.status == 200 && asked_.size() == 1 ? asked_[0] : -1;
  }
  // The same, where what a request holds goes a moment after its answer has come.
  int asks_when_free(const std::string& model) {
    int found = asks(model);
    for (int i = 0; i < 2000 && last_.find("adapters_in_use") != std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      found = asks(model);
    }
    return found;
  }
  std::string load(const std::string& body) { return server_.post("/v1/load_lora_adapter", body).body; }

  AdapterTable table_;
  std::vector<int> asked_;
  std::string last_;
  TestServer server_;
};

TEST_F(AdapterServer, LoadsUnloadsAndLists) {
  server_.start();
  EXPECT_EQ(server_.get("/lora-adapters").body, "[]");
  EXPECT_EQ(load(R"({"lora_name":"pirate","lora_path":"/a5"})"), R"({"loaded":"pirate"})");
  EXPECT_EQ(server_.get("/lora-adapters").body,
            R"([{"id":0,"name":"pirate","path":"/a5","bytes":4096,"in_memory":true}])");
  EXPECT_EQ(asks("pirate"), 5);
  EXPECT_NE(last_.find(R"("model":"tiny:pirate")"), std::string::npos);
  EXPECT_EQ(asks("tiny:pirate"), 5);
  EXPECT_EQ(asks("tiny"), 0);
  EXPECT_EQ(asks("other:pirate"), 0) << "another model's";
  const std::string listed = server_.get("/v1/models").body;
  EXPECT_NE(listed.find(R"("id":"pirate","object":"model")"), std::string::npos) << listed;
  EXPECT_NE(listed.find(R"("id":"tiny:pirate")"), std::string::npos) << listed;
  EXPECT_EQ(server_.post("/v1/unload_lora_adapter", R"({"lora_name":"pirate"})").body, R"({"unloaded":"pirate"})");
  EXPECT_EQ(asks("pirate"), 0);
  EXPECT_EQ(server_.post("/v1/unload_lora_adapter", R"({"lora_name":"pirate"})").status, 404);
}

TEST_F(AdapterServer, RefusalsNameTheirField) {
  server_.options.strict_model = true;
  server_.start();
  const auto refused = [this](const std::string& body, const std::string& field, const std::string& text) {
    const std::string answer = load(body);
    EXPECT_NE(answer.find("\"param\":\"" + field + "\""), std::string::npos) << answer;
    EXPECT_NE(answer.find(text), std::string::npos) << answer;
  };
  refused(R"({"lora_path":"/a1"})", "lora_name", "is required");
  refused(R"({"lora_name":"x"})", "lora_path", "is required");
  refused(R"({"lora_name":"tiny","lora_path":"/a1"})", "lora_name", "is the name of the model");
  refused(R"({"lora_name":"radio","lora_path":"/a1"})", "lora_name", "or of a learned prefix");
  refused(R"({"lora_name":"x","lora_path":"/bad"})", "lora_path", "adapter_config.json: must be an object");
  EXPECT_EQ(names(table_), "");
  EXPECT_EQ(load(R"({"lora_name":"x","lora_path":"/a1"})"), R"({"loaded":"x"})");
  refused(R"({"lora_name":"x","lora_path":"/a2"})", "lora_name", "is loaded already");
  EXPECT_EQ(load(R"({"lora_name":"x","lora_path":"/a2","load_inplace":true})"), R"({"loaded":"x"})");
  EXPECT_EQ(asks("x"), 2);
  EXPECT_EQ(asks("x", R"(,"prefix":"radio")"), -1);
  EXPECT_NE(last_.find("the model's name asks for the adapter 'x'"), std::string::npos) << last_;
  EXPECT_EQ(asks("y"), -1) << "strict";
}

TEST_F(AdapterServer, RequestsAreToldWhereAllRoomIsInUse) {
  ServeLimits limits;
  limits.adapter_bytes = kAdapterBytes;
  AdapterTable table(loader(), limits);
  server_.options.adapters = &table;
  server_.start();
  load(R"({"lora_name":"x","lora_path":"/a1"})");
  load(R"({"lora_name":"y","lora_path":"/a2"})");
  EXPECT_EQ(asks("y"), 2);
  EXPECT_EQ(asks_when_free("x"), 1) << last_;
  const auto held = *table.acquire("x");
  EXPECT_EQ(asks("y"), -1);
  EXPECT_NE(last_.find("\"code\":\"adapters_in_use\""), std::string::npos) << last_;
  EXPECT_NE(last_.find("adapter 'y': /a2: there is no room: adapters that requests hold take 4096"), std::string::npos)
      << last_;
  const std::string metrics = server_.get("/metrics").body;
  EXPECT_NE(metrics.find("\nquire_adapters_in_memory 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("\nquire_adapter_bytes 4096\n"), std::string::npos);
}

TEST_F(AdapterServer, AServerWithoutAdaptersSaysWhy) {
  server_.options.adapters = nullptr;
  server_.options.no_adapters = "the run is recorded, and a recording holds none";
  server_.start();
  const std::string answer = load(R"({"lora_name":"x","lora_path":"/a1"})");
  EXPECT_NE(answer.find("adapters are not available here: the run is recorded"), std::string::npos) << answer;
  EXPECT_EQ(server_.get("/lora-adapters").body, "[]");
}

TEST(AdapterMetrics, NameWhatRunsAndWhatWaits) {
  const auto shown = [](const AdapterUse& use) {
    const std::string text = vllm_adapter_lines(use, 64, 1'700'000'000);
    EXPECT_NE(text.find("\n# TYPE vllm:lora_requests_info gauge\n"), text.npos) << text;
    return text.substr(text.rfind("vllm:"));
  };
  EXPECT_EQ(
      shown(AdapterUse({})),
      "vllm:lora_requests_info{max_lora=\"64\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1700000000\n");
  RequestViews engine;
  for (const SeqId id : {1U, 2U, 3U}) engine.views.push_back({.id = id, .running = true});
  engine.views.push_back({.id = 4});
  AdapterUse use(engine);
  for (const auto& [adapter, sequence] : {std::pair{"b", 1}, {"a\"", 2}, {"b", 3}, {"b", 4}, {"c", 0}})
    use.add(adapter, static_cast<SeqId>(sequence));
  EXPECT_EQ(shown(use),
            "vllm:lora_requests_info{max_lora=\"64\",running_lora_adapters=\"a\\\",b\",waiting_lora_adapters=\"b,c\"} "
            "1700000000\n");
}

}  // namespace
}  // namespace quire
