#include "route/kv_feeds.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "base/cpu_clock.h"
#include "base/log.h"
#include "base/nanoseconds.h"
#include "base/thread.h"
#include "events/kv_encoder.h"

namespace quire {
namespace {

constexpr int kTurnMs = 100;        // between two looks at which workers there are
constexpr int kMessagesATurn = 64;  // of one worker
constexpr int64_t kMessageParts = 3;
constexpr int kMostUnread = 32;        // messages; beyond it the worker's socket keeps them
constexpr int kMostUnreadAnswers = 2;  // likewise, of an answer
constexpr int kMostAsking = 8;         // at once
constexpr int64_t kMostFrame = 1 << 20, kMostAnswerFrame = 32 << 20;
constexpr int64_t kAnswerMs = 5'000, kMostAnswerMs = 60'000;  // without a message of an answer, and for all of it
constexpr int64_t kTurnNs = 5 * kNsPerMs;  // of its processor time, after which the others have theirs
constexpr int64_t kRestMs = 30'000;        // that a worker beyond FloodLimits is not listened to

}  // namespace

// Where to connect to. libzmq looks names up by itself, but it takes addresses of IPv4 alone, or else those of IPv6
// first, whether somebody listens there or not. So it is given a name that has an address of IPv4, and of another name
// an address; that one is looked up again whenever it is connected to anew.
class KvFeeds::Place {
 public:
  explicit Place(std::string address) : address_(std::move(address)) {
    const size_t from = kTcp.size(), colon = address_.rfind(':');
    if (!address_.starts_with(kTcp) || address_[from] == '[' || colon < from) return;
    host_ = address_.substr(from, colon - from);
    port_ = std::atoi(address_.c_str() + colon + 1);
  }
  bool is_named() const { return !host_.empty(); }
  // Asked again from the next call of ready() on.
  void forget() { found_ = nullptr; }
  // Whether connect_to() may be called. `failed`: it was asked for, and nobody knows it.
  bool ready(const KvFeedOptions& options, bool& failed) {
    if (!is_named()) return true;
    if (found_ == nullptr) {
      found_ = std::make_shared<Found>();
      options.find(host_, port_,
                   [found = found_](const std::vector<HostAddress>& all, const std::string&) { found->take(all); });
    }
    const std::lock_guard lock(found_->mu);
    failed = found_->answered && !found_->has_v4 && found_->v6.empty();
    return found_->answered && !failed;
  }
  std::string connect_to() const {
    if (!is_named()) return address_;
    const std::lock_guard lock(found_->mu);
    return found_->has_v4 ? address_ : std::string(kTcp) + "[" + found_->v6 + "]:" + std::to_string(port_);
  }

 private:
  static constexpr std::string_view kTcp = "tcp://";
  struct Found {
    void take(const std::vector<HostAddress>& all) {
      const std::lock_guard lock(mu);
      answered = true;
      for (const HostAddress& one : all) {
        has_v4 |= one.bytes.ss_family == AF_INET;
        if (one.bytes.ss_family == AF_INET6 && v6.empty()) v6 = number_text(one);
      }
    }
    std::mutex mu;  // guards what follows
    bool answered = false, has_v4 = false;
    std::string v6;  // the first
  };
  std::string address_, host_;
  int port_ = 0;
  std::shared_ptr<Found> found_;
};

struct KvFeeds::Feed {
  Feed(std::shared_ptr<Worker> of, KvFollower following, const EventPlace& place)
      : worker(std::move(of)),
        follower(std::move(following)),
        events(zmq_address(place.events, worker->spec.at.host)),
        replay(place.replay.empty() ? "" : zmq_address(place.replay, worker->spec.at.host)),
        n_downs(worker->n_downs.load()) {}

  const std::shared_ptr<Worker> worker;
  KvFollower follower;
  Place events, replay;
  std::unique_ptr<ZmqSocket> heard, asked;  // null: it is not listened to; nothing is asked
  int64_t answer_until_ns = 0, answer_ends_ns = 0;
  uint32_t n_downs;
  int64_t rests_until_ns = 0;
  int64_t second_ns = 0, n_bytes = 0, n_messages = 0, busy_ns = 0;  // since then
};

KvFeeds::KvFeeds(std::vector<EventPlace> places, std::shared_ptr<Fleet> fleet, KvIndex& index, Metrics& metrics)
    : places_(std::move(places)), fleet_(std::move(fleet)), index_(index), counters_(metrics) {}

Result<std::unique_ptr<KvFeeds>> KvFeeds::start(std::vector<EventPlace> places,
                                                std::shared_ptr<Fleet> fleet,
                                                KvIndex& index,
                                                Metrics& metrics,
                                                KvFeedOptions options) {
  std::unique_ptr<KvFeeds> out(new KvFeeds(std::move(places), std::move(fleet), index, metrics));
  out->options_ = std::move(options);
  if (out->options_.find == nullptr)
    out->options_.find = [feeds = out.get()](const std::string& host, int port, HostLookup::Done done) {
      feeds->lookup_.find(host, port, std::move(done));
    };
  QR_TRY(out->zmq_, ZmqContext::open());
  out->wake_fd_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (out->wake_fd_.get() < 0) return fail(Code::io, "no event descriptor is left");
  out->thread_ = std::thread([feeds = out.get()] { feeds->run(); });
  return out;
}

KvFeeds::~KvFeeds() {
  ending_ = true;
  const uint64_t one = 1;
  if (wake_fd_.get() >= 0) [[maybe_unused]]
    const ssize_t n = ::write(wake_fd_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

const EventPlace* KvFeeds::place_of(const Worker& worker) const {
  const EventPlace* out = nullptr;
  for (const EventPlace& place : places_) {
    if (place.worker == worker.name) return &place;
    if (place.worker.empty()) out = &place;
  }
  return worker.spec.is_local() ? nullptr : out;
}

void KvFeeds::find_workers(int64_t now_ns) {
  std::map<uint64_t, std::unique_ptr<Feed>> old = std::exchange(feeds_, {});
  std::vector<uint64_t> ids;
  bool is_same = true;
  for (const auto& worker : fleet_->workers()) {
    const EventPlace* place = place_of(*worker);
    if (place == nullptr) continue;
    if (ids.size() >= kMostFeeds) {
      if (!std::exchange(told_of_most_, true))
        log_warn("route: KV events are heard of " + std::to_string(kMostFeeds) + " workers at most");
      break;
    }
    ids.push_back(worker->id);
    std::unique_ptr<Feed> feed;
    if (const auto at = old.find(worker->id); at != old.end() && at->second->worker == worker) {
      feed = std::move(at->second);
      old.erase(at);
    } else {
      is_same = false;
      feed = std::make_unique<Feed>(
          worker, KvFollower(index_, counters_, worker->id, worker->name, !place->replay.empty()), *place);
    }
    feeds_.emplace(worker->id, std::move(feed));
  }
  if (is_same && old.empty()) return;
  index_.set_workers(ids);
  // Another worker at the same address holds nothing of what the old one did.
  for (const auto& [id, feed] : old)
    if (const auto next = feeds_.find(id); next != feeds_.end()) next->second->follower.restart(now_ns);
}

// From now on; what was published before is to be asked for.
void KvFeeds::listen(Feed& feed, int64_t now_ns) {
  bool failed = false;
  const bool ready = feed.events.ready(options_, failed) && feed.replay.ready(options_, failed);
  if (!ready && !failed) return;
  feed.rests_until_ns = now_ns + kRestMs * kNsPerMs;  // where it fails
  if (failed) {
    feed.events.forget();
    feed.replay.forget();
    return log_warn("route: KV events of " + feed.worker->name + ": the address of their host cannot be found");
  }
  auto socket = ZmqSocket::open(zmq_, ZmqKind::sub, {1, kMostUnread, kMostFrame});
  if (!socket) return log_warn("route: KV events: " + socket.error().message);
  for (const Status& done : {(*socket)->subscribe(""), (*socket)->connect(feed.events.connect_to())})
    if (!done) return log_warn("route: KV events of " + feed.worker->name + ": " + done.error().message);
  feed.heard = std::move(*socket);
}

void KvFeeds::hear(Feed& feed, int64_t now_ns) {
  if (now_ns - feed.second_ns > kNsPerSecond) {
    feed.second_ns = now_ns;
    feed.n_bytes = feed.n_messages = feed.busy_ns = 0;
  }
  const int64_t began = ThreadCpuClock().now_ns(), busy_before = feed.busy_ns;
  for (int i = 0; i < kMessagesATurn && !feed.follower.asking(); ++i) {
    const auto frames = feed.heard->receive();
    const int64_t n_parts = feed.heard->take_n_read();
    feed.n_messages += (n_parts + kMessageParts - 1) / kMessageParts;
    if (frames)
      for (const std::string& frame : *frames) feed.n_bytes += std::ssize(frame);
    feed.busy_ns = busy_before + ThreadCpuClock().now_ns() - began;
    if (feed.n_bytes > options_.most.bytes || feed.n_messages > options_.most.messages ||
        feed.busy_ns > options_.most.busy_ns) {
      log_warn("route: " + feed.worker->name + " publishes too much and is not listened to for " +
               std::to_string(kRestMs) + " ms");
      counters_.floods.add();
      feed.heard = nullptr;
      feed.rests_until_ns = now_ns + kRestMs * kNsPerMs;
      return feed.follower.restart(now_ns);
    }
    if (!frames) return;
    feed.follower.hear(*frames, now_ns);
    feed.busy_ns = busy_before + ThreadCpuClock().now_ns() - began;
    if (feed.busy_ns - busy_before > kTurnNs) return;
  }
}

void KvFeeds::hear_answer(Feed& feed, int64_t now_ns) {
  for (int i = 0; i < kMessagesATurn && feed.follower.asking(); ++i) {
    const auto frames = feed.asked->receive();
    if (!frames) break;
    feed.answer_until_ns = now_ns + kAnswerMs * kNsPerMs;
    feed.follower.told(*frames, now_ns);
  }
  if (now_ns > std::min(feed.answer_until_ns, feed.answer_ends_ns)) feed.follower.give_up(now_ns);
  if (feed.follower.asking()) return;
  feed.asked = nullptr;
}

void KvFeeds::ask(Feed& feed, int64_t now_ns) {
  if (n_asking_ >= kMostAsking) return;
  const auto number = feed.follower.question(now_ns);
  if (!number) return;
  const auto frame = [](std::string bytes) { return std::make_shared<const std::string>(std::move(bytes)); };
  auto socket = ZmqSocket::open(zmq_, ZmqKind::dealer, {kMostUnread, kMostUnreadAnswers, kMostAnswerFrame});
  if (!socket || !(*socket)->connect(feed.replay.connect_to()) ||
      !(*socket)->send(std::array<ZmqFrame, 2>{frame(""), frame(sequence_bytes(*number))}))
    return feed.follower.give_up(now_ns);
  feed.asked = std::move(*socket);
  feed.answer_until_ns = now_ns + kAnswerMs * kNsPerMs;
  feed.answer_ends_ns = now_ns + kMostAnswerMs * kNsPerMs;
  ++n_asking_;
}

void KvFeeds::take_turn(Feed& feed, int64_t now_ns) {
  if (const uint32_t n = feed.worker->n_downs.load(); n != feed.n_downs) {
    feed.n_downs = n;
    feed.follower.restart(now_ns);
    feed.asked = nullptr;
    feed.heard = nullptr;
    feed.events.forget();
    feed.replay.forget();
    feed.rests_until_ns = 0;
  }
  if (feed.heard == nullptr && feed.rests_until_ns <= now_ns) listen(feed, now_ns);
  if (feed.heard == nullptr) return;
  if (feed.asked != nullptr) return hear_answer(feed, now_ns);
  hear(feed, now_ns);
  if (feed.heard != nullptr) ask(feed, now_ns);
}

void KvFeeds::run() {
  set_thread_name("qr-kv-feeds");
  int64_t look_ns = 0;
  while (!ending_) {
    const int64_t now = clock_.now_ns();
    std::vector<ZmqSocket*> sockets;
    try {
      if (now >= look_ns) {
        find_workers(now);
        look_ns = now + kTurnMs * kNsPerMs;
      }
      n_asking_ = std::ranges::count_if(feeds_, [](const auto& entry) { return entry.second->asked != nullptr; });
      for (const auto& [id, feed] : feeds_) take_turn(*feed, now);
      for (const auto& [id, feed] : feeds_)
        if (feed->heard != nullptr) sockets.push_back(feed->asked != nullptr ? feed->asked.get() : feed->heard.get());
    } catch (const std::bad_alloc&) {
      // What was not taken is not known: as if they had been gone.
      for (const auto& [id, feed] : feeds_) --feed->n_downs;
    }
    ZmqSocket::wait(sockets, wake_fd_.get(), kTurnMs);
  }
}

}  // namespace quire
