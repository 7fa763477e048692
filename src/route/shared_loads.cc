#include "route/shared_loads.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/secure_random.h"

namespace quire {
namespace {

constexpr std::string_view kVersion = "1 ";
constexpr int kLeaseMs = 2'000;
constexpr int kMostUnanswered = 5;  // sweeps; what was read before them is not believed any longer
constexpr int64_t kMostNumber = int64_t{1} << 40;

std::string key_of(int place) { return "quire:router:" + std::to_string(place); }

void append_number(std::string& out, uint64_t value, int base) {
  std::array<char, 24> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value, base);
  out.append(digits.data(), end);
}

// A number up to `stop`, and behind it.
bool take_number(std::string_view& text, char stop, int base, uint64_t& out) {
  const size_t n = text.find(stop);
  if (n == std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + n, out, base);
  if (error != std::errc() || end != text.data() + n) return false;
  text.remove_prefix(n + 1);
  return true;
}

bool take_count(std::string_view& text, char stop, int64_t& out) {
  uint64_t value = 0;
  if (!take_number(text, stop, 10, value) || value > static_cast<uint64_t>(kMostNumber)) return false;
  out = static_cast<int64_t>(value);
  return true;
}

}  // namespace

// "1 ROUTER WORKER:tokens:requests:prefill:decoding;…", names in hexadecimal digits.
std::string write_loads(const RouterLoads& loads) {
  std::string out(kVersion);
  append_number(out, loads.router, 16);
  out += ' ';
  for (const WorkerLoad& w : loads.workers) {
    const size_t begin = out.size();
    append_number(out, w.worker, 16);
    for (const int64_t count : {w.load_tokens, w.n_requests, w.prefill_tokens, w.n_decoding}) {
      out += ':';
      append_number(out, static_cast<uint64_t>(std::clamp<int64_t>(count, 0, kMostNumber)), 10);
    }
    out += ';';
    if (out.size() <= kMostLoadsBytes) continue;
    out.resize(begin);
    break;
  }
  return out;
}

std::optional<RouterLoads> read_loads(std::string_view text) {
  RouterLoads out;
  if (!text.starts_with(kVersion) || text.size() > kMostLoadsBytes) return std::nullopt;
  text.remove_prefix(kVersion.size());
  if (!take_number(text, ' ', 16, out.router) || out.router == 0) return std::nullopt;
  while (!text.empty()) {
    WorkerLoad w;
    if (!take_number(text, ':', 16, w.worker) || !take_count(text, ':', w.load_tokens) ||
        !take_count(text, ':', w.n_requests) || !take_count(text, ':', w.prefill_tokens) ||
        !take_count(text, ';', w.n_decoding))
      return std::nullopt;
    out.workers.push_back(w);
  }
  return out;
}

// Places are looked for from a different one on by each router, so that those that start together seldom meet.
PlacesSeen look_at_places(std::span<const std::string> places, uint64_t router) {
  PlacesSeen out;
  std::map<uint64_t, WorkerLoad> sums;
  for (size_t k = 0; k < places.size(); ++k) {
    const size_t i = (router + k) % places.size();
    const auto read = read_loads(places[i]);
    if (read && read->router == router) {
      out.own = static_cast<int>(i);
      out.held = true;
    }
    if (places[i].empty() && out.own < 0) out.own = static_cast<int>(i);
    if (!read || read->router == router) continue;
    ++out.n_others;
    for (const WorkerLoad& w : read->workers) {
      WorkerLoad& sum = sums[w.worker];
      sum = {w.worker, sum.load_tokens + w.load_tokens, sum.n_requests + w.n_requests,
             sum.prefill_tokens + w.prefill_tokens, sum.n_decoding + w.n_decoding};
    }
  }
  for (const auto& [worker, sum] : sums) out.others.push_back(sum);
  return out;
}

// What was asked at once. Written by the connection's thread, read once nothing of it is missing.
struct SharedLoads::Round {
  std::mutex mu;
  std::array<std::string, kRouterPlaces> places;
  int n_missing = kRouterPlaces;
  bool broken = false;  // a question had no answer, or one that is none
};

SharedLoads::SharedLoads(const RedisOptions& redis, Own own, Others others, Metrics& metrics, int64_t every_ms)
    : router_(std::max<uint64_t>(1, secure_random_bits())),
      own_(std::move(own)),
      others_(std::move(others)),
      routers_(
          metrics.gauge("quire_directory_routers", "Routers that share their workers' loads, this one among them.")),
      redis_(redis, {}),
      sweeper_(std::chrono::milliseconds(every_ms), [this] { sweep(); }) {}

void SharedLoads::tell(const std::vector<WorkerLoad>& others, int n_routers) {
  others_(others);
  routers_.set(n_routers);
}

void SharedLoads::sweep() {
  if (round_ != nullptr) {
    std::unique_lock lock(round_->mu);
    if (round_->n_missing > 0 && ++n_unanswered_ < kMostUnanswered) return;
    const bool good = round_->n_missing == 0 && !round_->broken;
    const auto places = round_->places;
    lock.unlock();
    round_ = nullptr;
    n_unanswered_ = 0;  // the next one has as long
    if (good) {
      const PlacesSeen seen = look_at_places(places, router_);
      tell(seen.others, 1 + seen.n_others);
      if (seen.own < 0 && !std::exchange(told_full_, true))
        log_warn("route: " + std::to_string(kRouterPlaces) +
                 " routers share this directory already: they do not learn "
                 "what this one gives to workers");
      if (seen.own >= 0) {
        told_full_ = false;
        const std::array<std::string, 6> words{
            "SET", key_of(seen.own),        write_loads({router_, own_()}), seen.held ? "XX" : "NX",
            "PX",  std::to_string(kLeaseMs)};
        redis_.send(words, nullptr, 0);
      }
    } else {
      tell({}, 1);
    }
  }
  if (redis_.up()) return ask();
  tell({}, 1);
}

void SharedLoads::ask() {
  round_ = std::make_shared<Round>();
  for (int i = 0; i < kRouterPlaces; ++i) {
    const std::array<std::string, 2> words{"GET", key_of(i)};
    const auto answer = [round = round_, i](const RedisReply& reply) {
      const std::lock_guard lock(round->mu);
      --round->n_missing;
      if (reply.kind == RedisReply::Kind::string)
        round->places[static_cast<size_t>(i)] = reply.text;
      else if (reply.kind != RedisReply::Kind::nil)
        round->broken = true;
    };
    if (redis_.send(words, answer, 0)) continue;
    const std::lock_guard lock(round_->mu);
    --round_->n_missing;
    round_->broken = true;
  }
}

}  // namespace quire
