// Listens to the KV events of workers: a socket each, one thread for all of them, in turns, so that a worker that says
// too much delays nobody else. What the messages mean is for kv_follower.h; here they come and go.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/metrics.h"
#include "base/result.h"
#include "events/zmq_socket.h"
#include "http/host_lookup.h"
#include "route/event_place.h"
#include "route/fleet.h"
#include "route/kv_follower.h"
#include "route/kv_index.h"

namespace quire {

// Of one worker in a second; beyond it that is not listened to for half a minute.
struct FloodLimits {
  int64_t bytes = 64 << 20, messages = 50'000;  // of three parts each
  int64_t busy_ns = 500'000'000;                // processor time of the thread that reads
};

struct KvFeedOptions {
  FloodLimits most{};
  // As HostLookup::find, which it is where there is none; asked by the thread alone.
  std::function<void(const std::string& host, int port, HostLookup::Done done)> find{};
};

class KvFeeds {
 public:
  static constexpr size_t kMostFeeds = 900;  // of libzmq's 1023 sockets; who comes later is not listened to

  // Fails (Code::unsupported) where libzmq is not installed. All that is referred to outlives the result.
  static Result<std::unique_ptr<KvFeeds>> start(std::vector<EventPlace> places,
                                                std::shared_ptr<Fleet> fleet,
                                                KvIndex& index,
                                                Metrics& metrics,
                                                KvFeedOptions options = {});
  ~KvFeeds();
  KvFeeds(const KvFeeds&) = delete;
  KvFeeds& operator=(const KvFeeds&) = delete;

 private:
  struct Feed;
  class Place;
  KvFeeds(std::vector<EventPlace> places, std::shared_ptr<Fleet> fleet, KvIndex& index, Metrics& metrics);
  void run();
  void find_workers(int64_t now_ns);
  const EventPlace* place_of(const Worker& worker) const;
  void listen(Feed& feed, int64_t now_ns);
  void take_turn(Feed& feed, int64_t now_ns);
  void hear(Feed& feed, int64_t now_ns);
  void hear_answer(Feed& feed, int64_t now_ns);
  void ask(Feed& feed, int64_t now_ns);

  const std::vector<EventPlace> places_;
  KvFeedOptions options_;
  HostLookup lookup_;
  const std::shared_ptr<Fleet> fleet_;
  KvIndex& index_;
  KvCounters counters_;
  SystemClock clock_;
  Fd wake_fd_;
  std::atomic<bool> ending_{false};

  // Of the thread.
  std::shared_ptr<ZmqContext> zmq_;
  std::map<uint64_t, std::unique_ptr<Feed>> feeds_;  // by worker
  int64_t n_asking_ = 0;
  bool told_of_most_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace quire
