// EndpointSlices as the API tells of them: who is ready is a worker, whatever else is said.
#include "route/kube_slices.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quire {
namespace {

std::string slice(const std::string& name, const std::string& endpoints, const std::string& more = "") {
  return R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":")" + name +
         R"(","resourceVersion":"7"},"addressType":"IPv4","endpoints":[)" + endpoints +
         R"(],"ports":[{"name":"http","port":8080,"protocol":"TCP"},{"name":"metrics","port":9090}])" + more + "}";
}

std::string endpoint(const std::string& address, const std::string& conditions = R"({"ready":true,"serving":true})") {
  return R"({"addresses":[")" + address + R"("],"conditions":)" + conditions + R"(,"nodeName":"n"})";
}

std::string list(const std::string& items) {
  return R"({"kind":"EndpointSliceList","metadata":{"resourceVersion":"41"},"items":[)" + items + "]}";
}

std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}";
}

std::string names(const KubeSlices& slices) {
  std::string out;
  for (const WorkerSpec& worker : slices.workers()) out += worker.name() + " ";
  return out;
}

TEST(KubeSlices, WhoIsReadyIsAWorkerOnceAndInOrder) {
  KubeSlices slices("");
  EXPECT_EQ(slices.version(), "");
  const std::string not_ready = endpoint("10.0.0.3", R"({"ready":false,"serving":true,"terminating":true})");
  ASSERT_TRUE(slices.list(list(slice("b", endpoint("10.0.0.2") + "," + not_ready) + "," +
                               slice("a", endpoint("10.0.0.2") + "," + endpoint("10.0.0.1", "{}")))));
  EXPECT_EQ(names(slices), "10.0.0.1:8080 10.0.0.2:8080 ");
  EXPECT_EQ(slices.version(), "41");
}

TEST(KubeSlices, ChangesAreFollowed) {
  KubeSlices slices("");
  ASSERT_TRUE(slices.list(list(slice("a", endpoint("10.0.0.1")))));
  ASSERT_TRUE(slices.change(event("ADDED", slice("b", endpoint("10.0.0.2")))));
  EXPECT_EQ(names(slices), "10.0.0.1:8080 10.0.0.2:8080 ");
  EXPECT_EQ(slices.version(), "7");
  ASSERT_TRUE(slices.change(event("MODIFIED", slice("a", endpoint("10.0.0.1", R"({"ready":false})")))));
  EXPECT_EQ(names(slices), "10.0.0.2:8080 ");
  ASSERT_TRUE(slices.change(event("BOOKMARK", R"({"kind":"EndpointSlice","metadata":{"resourceVersion":"99"}})")));
  EXPECT_EQ(slices.version(), "99");
  ASSERT_TRUE(slices.change(event("DELETED", slice("b", endpoint("10.0.0.2")))));
  EXPECT_EQ(names(slices), "");  // the API says so: nobody is ready
  const Status gone = slices.change(event("ERROR", R"({"kind":"Status","code":410,"message":"too old"})"));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().message, "too old");
  EXPECT_EQ(slices.version(), "") << "all has to be listed anew";
}

TEST(KubeSlices, ThePortIsANumberOrANameOrTheOnlyOne) {
  const std::string some = slice("a", endpoint("10.0.0.1"));
  for (const auto& [port, expected] :
       {std::pair{"", "10.0.0.1:8080 "}, {"metrics", "10.0.0.1:9090 "}, {"7000", "10.0.0.1:7000 "}, {"none", ""}}) {
    KubeSlices slices(port);
    ASSERT_TRUE(slices.list(list(some)));
    EXPECT_EQ(names(slices), expected) << port;
  }
  KubeSlices only("");
  ASSERT_TRUE(only.list(list(R"({"metadata":{"name":"a"},"endpoints":[)" + endpoint("10.0.0.1") +
                             R"(],"ports":[{"name":"","port":81}]})")));
  EXPECT_EQ(names(only), "10.0.0.1:81 ");
}

TEST(KubeSlices, AddressesOfIpv6AreLeftOutWhereTheOthersAre) {
  std::string v6 = slice("six", endpoint("fd00::1"));
  v6.replace(v6.find("IPv4"), 4, "IPv6");
  KubeSlices slices("");
  ASSERT_TRUE(slices.list(list(v6)));
  EXPECT_EQ(names(slices), "[fd00::1]:8080 ");
  ASSERT_TRUE(slices.change(event("ADDED", slice("four", endpoint("10.0.0.1")))));
  EXPECT_EQ(names(slices), "10.0.0.1:8080 ");
}

TEST(KubeSlices, WhatIsNoAddressOfItsTypeIsNoWorker) {
  for (const char* bad : {"pod.example", "10.0.0", "10.0.0.1:80", "10.0.0.256", "", "fd00::1", "10.0.0.1\\u0000x",
                          "a b", "10.0.0.1\\r\\nx: y", "0x7f.1"}) {
    KubeSlices slices("");
    ASSERT_TRUE(slices.list(list(slice("a", endpoint(bad) + "," + endpoint("10.0.0.2"))))) << bad;
    EXPECT_EQ(names(slices), "10.0.0.2:8080 ") << bad;
  }
  for (const char* type : {"IPv6", "FQDN", "ipv4"}) {
    std::string other = slice("a", endpoint("10.0.0.1"));
    other.replace(other.find("IPv4"), 4, type);
    KubeSlices slices("");
    ASSERT_TRUE(slices.list(list(other)));
    EXPECT_EQ(names(slices), "") << type;
  }
}

TEST(KubeSlices, WhatIsNoAnswerOfTheApiChangesNothing) {
  KubeSlices slices("");
  ASSERT_TRUE(slices.list(list(slice("a", endpoint("10.0.0.1")))));
  for (const char* bad :
       {"", "{}", "[]", "no", R"({"items":[]})", R"({"metadata":{"resourceVersion":"a/../b"},"items":[]})",
        R"({"metadata":{"resourceVersion":"1"},"items":[{}]})"})
    EXPECT_FALSE(slices.list(bad)) << bad;
  for (const char* bad : {"", "{}", R"({"type":"ADDED"})", R"({"type":"ADDED","object":{}})", R"({"object":{}})"})
    EXPECT_FALSE(slices.change(bad)) << bad;
  EXPECT_EQ(names(slices), "10.0.0.1:8080 ");
  EXPECT_EQ(slices.version(), "41");
  const std::string good = event("MODIFIED", slice("a", endpoint("10.0.0.9")));
  Rng rng(5);
  for (int i = 0; i < 5'000; ++i) {
    std::string line = good;
    for (int64_t k = rng.between(1, 4); k > 0; --k)
      line[static_cast<size_t>(rng.between(0, std::ssize(line) - 1))] = "{}[]\",:019aT\\"[rng.between(0, 12)];
    static_cast<void>(slices.change(line));
    ASSERT_LE(slices.workers().size(), KubeSlices::kMostWorkers);
    for (const char c : slices.version()) ASSERT_TRUE(std::isalnum(static_cast<unsigned char>(c)) != 0);
  }
}

TEST(KubeSlices, HoweverManyThereAreTheyAreBounded) {
  std::string items;
  for (int i = 0; i < 30; ++i) {
    std::string endpoints;
    for (int k = 0; k < 100; ++k)
      endpoints += (k > 0 ? "," : "") + endpoint("10.0." + std::to_string(i) + "." + std::to_string(k));
    items += (i > 0 ? "," : "") + slice("s" + std::to_string(i), endpoints);
  }
  KubeSlices slices("");
  ASSERT_TRUE(slices.list(list(items)));
  EXPECT_EQ(slices.workers().size(), KubeSlices::kMostWorkers);
}

TEST(KubeService, IsReadAndBadOnesAreNamed) {
  const auto full = parse_kube_service("kubernetes://models/quire:http");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->space + " " + full->name + " " + full->port, "models quire http");
  EXPECT_EQ(
      full->watch_path("7"),
      "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dquire"
      "&watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=7");
  const auto plain = parse_kube_service("kubernetes://quire");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->space + plain->port, "");
  for (const char* url :
       {"kubernetes://", "kubernetes://a/", "kubernetes:///a", "kubernetes://A", "kubernetes://a:", "kubernetes://a:0",
        "kubernetes://a:70000", "kubernetes://a/b/c", "kubernetes://a?b", "kubernetes://../a", "http://a"}) {
    const auto bad = parse_kube_service(url);
    ASSERT_FALSE(bad) << url;
    EXPECT_NE(bad.error().message.find(url), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
