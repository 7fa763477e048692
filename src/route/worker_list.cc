#include "route/worker_list.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "http/message.h"

namespace quire {
namespace {

constexpr const char* kKey = "quire:workers";
// The clock is the Redis's: those of machines differ.
constexpr const char* kNow = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) ";
constexpr const char* kEnter =
    "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now) "
    "redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) "
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
constexpr const char* kRead =
    "return table.concat(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'LIMIT', 0, ARGV[1]), '\\n')";
constexpr std::chrono::milliseconds kLeaveWithin{200};

RedisOptions named(RedisOptions redis, size_t most_reply_bytes) {
  redis.thread_name = "quire-workers";
  redis.most_reply_bytes = std::max(redis.most_reply_bytes, most_reply_bytes);
  return redis;
}

}  // namespace

WorkerEntry::WorkerEntry(RedisOptions redis, std::string url, int64_t every_ms)
    : url_(std::move(url)),
      redis_(named(std::move(redis), 0), {}),
      sweeper_(std::in_place, std::chrono::milliseconds(every_ms), [this] { enter(); }) {}

WorkerEntry::~WorkerEntry() {
  sweeper_.reset();
  const auto left = std::make_shared<std::promise<void>>();
  const std::array<std::string, 3> words{"ZREM", kKey, url_};
  if (redis_.send(words, [left](const RedisReply&) { left->set_value(); }, 0))
    left->get_future().wait_for(kLeaveWithin);
}

void WorkerEntry::enter() {
  if (!redis_.up()) return;
  const std::array<std::string, 6> words{"EVAL", std::string(kNow) + kEnter, "1", kKey, url_, std::to_string(kLeaseMs)};
  redis_.send(words, [this](const RedisReply& reply) { hear(reply); }, 0);
}

void WorkerEntry::hear(const RedisReply& reply) {
  using Kind = RedisReply::Kind;
  if (reply.kind == Kind::late || reply.kind == Kind::lost) return;  // the client says so itself
  const Told told = reply.kind == Kind::error ? Told::refused : Told::entered;
  if (std::exchange(told_, told) == told) return;
  if (told == Told::entered)
    log_info("routers of the directory are told of " + url_);
  else
    log_warn("the directory does not take " + url_ + ": " + shown(reply.text));
}

bool EnteredWorkers::hear(std::string_view lines, const std::function<bool(const WorkerSpec& worker)>& is_up) {
  std::vector<WorkerSpec> now;
  std::unordered_set<std::string> names;
  const auto add = [&](WorkerSpec worker) {
    if (names.insert(worker.name()).second) now.push_back(std::move(worker));
  };
  // Lines may be lies: they take neither the place nor the name of a worker that is well.
  for (const WorkerSpec& worker : workers_)
    if (is_up(worker)) add(worker);
  for (size_t n = 0; n < kMostEntered && now.size() < kMostEntered && !lines.empty(); ++n) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (line.size() > kMostEnteredBytes) continue;
    auto worker = parse_worker(std::string(line));
    if (worker && (!only_tls_ || !worker->at.tls_name.empty())) add(std::move(*worker));
  }
  std::ranges::sort(now, {}, &WorkerSpec::name);
  const bool changed = now != workers_;
  workers_ = std::move(now);
  return changed;
}

WorkerList::WorkerList(RedisOptions redis, EnteredWorkers entered, IsUp is_up, Changed changed, int64_t every_ms)
    : is_up_(std::move(is_up)),
      changed_(std::move(changed)),
      entered_(std::move(entered)),
      redis_(named(std::move(redis), kMostEntered * (kMostEnteredBytes + 1) + kUsualReplyBytes), {}),
      sweeper_(std::chrono::milliseconds(every_ms), [this] { ask(); }) {}

void WorkerList::ask() {
  if (!redis_.up()) return;
  const std::array<std::string, 5> words{"EVAL", std::string(kNow) + kRead, "1", kKey, std::to_string(kMostEntered)};
  redis_.send(words, [this](const RedisReply& reply) { hear(reply); }, 0);
}

void WorkerList::hear(const RedisReply& reply) {
  if (reply.kind == RedisReply::Kind::error && !std::exchange(told_refused_, true))
    log_warn("route: the directory does not tell of workers: " + shown(reply.text));
  if (reply.kind != RedisReply::Kind::string) return;
  told_refused_ = false;
  if (entered_.hear(reply.text, is_up_)) changed_(entered_.workers());
}

}  // namespace quire
