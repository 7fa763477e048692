// Workers that a name stands for, while its addresses change.
#include "route/discovery.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

#include "http/testing.h"

namespace quire {
namespace {

std::vector<HostAddress> addresses(std::initializer_list<const char*> numbers) {
  std::vector<HostAddress> out;
  for (const char* number : numbers) {
    HostAddress one;
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    if (inet_pton(AF_INET, number, &v4.sin_addr) == 1) {
      v4.sin_family = AF_INET;
      std::memcpy(&one.bytes, &v4, one.n_bytes = sizeof v4);
    } else {
      EXPECT_EQ(inet_pton(AF_INET6, number, &v6.sin6_addr), 1);
      v6.sin6_family = AF_INET6;
      std::memcpy(&one.bytes, &v6, one.n_bytes = sizeof v6);
    }
    out.push_back(one);
  }
  return out;
}

std::string names(const std::vector<WorkerSpec>& workers) {
  std::string out;
  for (const WorkerSpec& worker : workers) out += worker.name() + " ";
  return out;
}

TEST(Discovery, EveryAddressIsAWorkerOnceAndInOrder) {
  const WorkerSpec name{{"pods.example", 8080}, "/base"};
  EXPECT_EQ(names(workers_at(name, addresses({"10.0.0.2", "10.0.0.1", "10.0.0.2"}), 9)),
            "10.0.0.1:8080/base 10.0.0.2:8080/base ");
  EXPECT_EQ(names(workers_at(name, addresses({"fd00::1", "10.0.0.1"}), 9)), "10.0.0.1:8080/base ");
  EXPECT_EQ(names(workers_at(name, addresses({"fd00::2", "fd00::1"}), 9)), "[fd00::1]:8080/base [fd00::2]:8080/base ");
  EXPECT_EQ(names(workers_at(name, addresses({"10.0.0.3", "10.0.0.1", "10.0.0.2"}), 2)),
            "10.0.0.1:8080/base 10.0.0.2:8080/base ");
  EXPECT_EQ(names(workers_at(name, {}, 9)), "");
  const WorkerSpec tls{{"pods.example", 8443, "pods.example"}, ""};
  for (const WorkerSpec& worker : workers_at(tls, addresses({"10.0.0.1", "10.0.0.2"}), 9))
    EXPECT_EQ(worker.at.tls_name, "pods.example") << worker.name();
}

TEST(Discovery, WorkersComeAndGoWithTheAddressesAndStayWhereNobodyAnswers) {
  std::mutex mu;
  std::vector<HostAddress> now = addresses({"10.0.0.1"});
  std::string seen;
  int n_changes = 0, n_asked = 0;
  const auto find = [&](const std::string& host, int port, const HostLookup::Done& done) {
    EXPECT_EQ(port, host == "a" ? 1 : 2);
    std::vector<HostAddress> found;
    {
      const std::lock_guard lock(mu);
      ++n_asked;
      found = host == "a" ? now : addresses({"10.9.9.9"});
    }
    done(found, found.empty() ? "not known" : "");
  };
  const Discovery discovery(
      {{{"a", 1}, ""}, {{"b", 2}, ""}}, 1,
      [&](const std::vector<WorkerSpec>& workers) {
        const std::lock_guard lock(mu);
        seen = names(workers);
        ++n_changes;
      },
      find);
  const auto sees = [&](const std::string& wanted) {
    return eventually([&] {
      const std::lock_guard lock(mu);
      return seen == wanted;
    });
  };
  const auto say = [&](std::vector<HostAddress> next) {
    const std::lock_guard lock(mu);
    now = std::move(next);
    return n_asked;
  };
  EXPECT_TRUE(sees("10.0.0.1:1 10.9.9.9:2 "));
  say(addresses({"10.0.0.1", "10.0.0.2"}));
  EXPECT_TRUE(sees("10.0.0.1:1 10.0.0.2:1 10.9.9.9:2 "));
  const int before = say({});
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mu);
    return n_asked > before + 4;
  }));
  EXPECT_TRUE(sees("10.0.0.1:1 10.0.0.2:1 10.9.9.9:2 "));
  say(addresses({"10.0.0.2"}));
  EXPECT_TRUE(sees("10.0.0.2:1 10.9.9.9:2 "));
  const std::lock_guard lock(mu);
  EXPECT_EQ(n_changes, 4);
}

}  // namespace
}  // namespace quire
