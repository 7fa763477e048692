// For tests: a socket that answers commands as it is told to.
#pragma once
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "http/testing.h"
#include "redis/redis_client.h"

namespace quire {

// What it says to each command is the test's; called by one connection at a time.
class FakeRedis {
 public:
  using Answer = std::function<std::optional<std::string>(const std::vector<std::string>& words)>;
  explicit FakeRedis(Answer answer) : answer_(std::move(answer)), thread_([this] { run(); }) {}
  ~FakeRedis() {
    ends_ = true;
    RawClient wake(listener_.port());
    thread_.join();
  }
  int port() const { return listener_.port(); }
  int n_connections() const { return n_connections_; }
  // Of a client that is patient with it, and soon back.
  RedisOptions options() const {
    RedisOptions out;
    out.host = "127.0.0.1";
    out.port = port();
    out.stall_ms = kPatienceMs;
    out.retry_ms = 10;
    return out;
  }

 private:
  void run() {
    std::vector<std::thread> connections;
    while (!ends_) {
      const int fd = listener_.accept();
      if (fd < 0) continue;
      ++n_connections_;
      connections.emplace_back([this, fd] {
        serve(fd);
        ::close(fd);
      });
    }
    for (std::thread& connection : connections) connection.join();
  }
  void serve(int fd) {
    std::string in;
    std::vector<char> buffer(1 << 16);
    while (!ends_) {
      pollfd p{fd, POLLIN, 0};
      if (::poll(&p, 1, 10) == 0) continue;
      const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (n <= 0) return;
      in.append(buffer.data(), static_cast<size_t>(n));
      for (auto words = take(in); !words.empty(); words = take(in)) {
        const std::lock_guard lock(mutex_);
        const auto said = answer_(words);
        if (!said) return;  // closes
        say_to(fd, *said);
      }
    }
  }
  // One command off the front of `in`; empty: none is whole.
  static std::vector<std::string> take(std::string& in) {
    std::vector<std::string> words;
    size_t at = in.find("\r\n");
    if (at == std::string::npos) return {};
    const int n = std::atoi(in.c_str() + 1);
    at += 2;
    for (int i = 0; i < n; ++i) {
      const size_t end = in.find("\r\n", at);
      if (end == std::string::npos) return {};
      const auto size = static_cast<size_t>(std::atoi(in.c_str() + at + 1));
      if (in.size() < end + 2 + size + 2) return {};
      words.push_back(in.substr(end + 2, size));
      at = end + 2 + size + 2;
    }
    in.erase(0, at);
    return words;
  }

  const Answer answer_;
  std::mutex mutex_;
  RawListener listener_;
  std::atomic<bool> ends_{false};
  std::atomic<int> n_connections_{0};
  std::thread thread_;
};

// A Redis that keeps values, whose answers a test may change before they are given: GET, GETRANGE, SET, EXPIRE.
class FakeStore {
 public:
  using Words = std::vector<std::string>;
  // Instead of the answer; nullopt closes the connection.
  using Meddle = std::function<std::optional<std::string>(const Words& words, std::string answer)>;

  FakeStore() : redis_([this](const Words& words) { return answer(words); }) {}
  int port() const { return redis_.port(); }
  int n_connections() const { return redis_.n_connections(); }
  void meddle(Meddle meddle) {
    const std::lock_guard lock(mutex_);
    meddle_ = std::move(meddle);
  }
  // All values, to be changed.
  void change(const std::function<void(std::map<std::string, std::string>&)>& change) {
    const std::lock_guard lock(mutex_);
    change(values_);
  }
  size_t n_values() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  int n_asked(const std::string& what) {
    const std::lock_guard lock(mutex_);
    return n_asked_[what];
  }

 private:
  static std::string bulk(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  std::optional<std::string> answer(const Words& words) {
    Meddle meddle;
    std::string out = "+OK\r\n";
    {
      const std::lock_guard lock(mutex_);
      ++n_asked_[words[0]];
      if (words[0] == "SET") values_[words[1]] = words[2];
      if (words[0] == "EXPIRE") out = values_.contains(words[1]) ? ":1\r\n" : ":0\r\n";
      if (words[0] == "GETRANGE") {
        const auto at = values_.find(words[1]);
        out = bulk(at == values_.end() ? "" : at->second.substr(0, std::stoul(words[3]) + 1));
      }
      meddle = meddle_;
    }
    return meddle ? meddle(words, std::move(out)) : std::move(out);
  }

  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, int> n_asked_;
  Meddle meddle_;
  FakeRedis redis_;  // last: it asks the others
};

// A real server of this machine, empty and without files. Where none is installed port() is 0.
class RealRedis {
 public:
  explicit RealRedis(std::vector<std::string> options = {}) : options_(std::move(options)) {
    const char* program = "/usr/bin/redis-server";
    if (::access(program, X_OK) != 0) return;
    {
      const RawListener free_port;
      port_ = free_port.port();
    }
    start();
  }
  ~RealRedis() { stop(); }
  int port() const { return port_; }
  void signal(int number) const { ::kill(pid_, number); }
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void start() {
    std::vector<std::string> words{
        "redis-server", "--port", std::to_string(port_), "--bind", "127.0.0.1",  "--save", "", "--appendonly", "no",
        "--dir",        "/tmp",   "--daemonize",         "no",     "--loglevel", "warning"};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ASSERT_EQ(::posix_spawn(&pid_, "/usr/bin/redis-server", nullptr, nullptr, arguments.data(), environ), 0);
    ASSERT_TRUE(eventually([this] { return RawClient(port_).connected(); }));
  }
  // What it answers to words without blanks.
  std::string say(const std::string& words) const {
    RawClient client(port_);
    client.send(words + "\r\n");
    return client.read_some();
  }

 private:
  const std::vector<std::string> options_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace quire
