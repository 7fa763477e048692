#include "route/kv_follower.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/nanoseconds.h"
#include "events/kv_encoder.h"

namespace quire {
namespace {

constexpr int64_t kFirstWaitMs = 100, kMostWaitMs = 120'000;                // before it is asked again; doubles
constexpr int64_t kConfirmMs = 30'000;                                      // between questions to who is whole
constexpr int64_t kGoodBatches = 16;                                        // then what was wrong is forgotten
constexpr int64_t kMostToldBytes = 256 << 20, kMostToldMessages = 1 << 18;  // of an answer
constexpr int64_t kLogMs = 10'000;                                          // between lines about one worker

}  // namespace

KvCounters::KvCounters(Metrics& m)
    : batches(m.counter("quire_route_kv_batches_total", "Batches of workers' KV events that were taken.")),
      gaps(m.counter("quire_route_kv_gaps_total", "Times that batches of a worker were missing.")),
      restarts(m.counter("quire_route_kv_restarts_total", "Times that a worker's numbers began anew.")),
      replays(m.counter("quire_route_kv_replays_total", "Questions to workers for batches from a number on.")),
      dumps(m.counter("quire_route_kv_dumps_total", "Questions to workers for all blocks that they have.")),
      bad(m.counter("quire_route_kv_bad_total", "Messages that are no KV events, or do not fit those before.")),
      full(m.counter("quire_route_kv_full_total", "Times that a worker had more blocks than its share of the index.")),
      floods(m.counter("quire_route_kv_floods_total", "Times that a worker published too much to be listened to.")) {}

KvFollower::KvFollower(KvIndex& index, KvCounters& counters, uint64_t worker, std::string name, bool may_ask)
    : index_(index), counters_(counters), worker_(worker), name_(std::move(name)), may_ask_(may_ask) {
  index_.set_whole(worker_, false);
}

// Into the index. `only_from_clear`: what comes before an event that clears all is left out.
KvFollower::Read KvFollower::apply(std::string_view payload, bool only_from_clear, bool& cleared) {
  Read out = Read::well;
  const Status status = read_kv_batch(payload, [&](const KvEvent& event) {
    cleared |= event.kind == KvEvent::Kind::cleared;
    if (out != Read::well || (only_from_clear && !cleared)) return;
    const KvIndex::Taken taken = index_.take(worker_, event);
    if (taken == KvIndex::Taken::strange) out = Read::bad;
    if (taken == KvIndex::Taken::full) out = Read::full;
  });
  return status ? out : Read::bad;
}

// False: it is lost.
bool KvFollower::take(std::string_view payload, int64_t now_ns) {
  bool cleared = false;
  const Read read = apply(payload, false, cleared);
  if (read == Read::well) {
    counters_.batches.add();
    last_payload_ = kv_hash(payload);
    return true;
  }
  if (read == Read::bad) {
    counters_.bad.add();
    lose("its KV events make no sense", now_ns);
  } else {
    counters_.full.add();
    wait_ms_ = kMostWaitMs;
    lose("it has more blocks than its share of n_kv_blocks", now_ns);
  }
  return false;
}

void KvFollower::back_off(int64_t now_ns) {
  wait_ms_ = std::clamp(wait_ms_, kFirstWaitMs, kMostWaitMs);
  ask_at_ns_ = now_ns + wait_ms_ * kNsPerMs;
  wait_ms_ *= 2;
  n_good_ = 0;
}

bool KvFollower::may_log(int64_t now_ns) {
  if (now_ns < log_at_ns_) return false;
  log_at_ns_ = now_ns + kLogMs * kNsPerMs;
  return true;
}

void KvFollower::lose(std::string_view why, int64_t now_ns) {
  if (whole_ && may_log(now_ns))
    log_warn("route: " + name_ + ": " + std::string(why) + "; what it has cached is guessed for now");
  whole_ = false;
  index_.set_whole(worker_, false);
  index_.clear(worker_);
  plan_.clear();
  back_off(now_ns);
}

void KvFollower::restart(int64_t now_ns) {
  lose("it was gone", now_ns);
  asked_.reset();
  last_.reset();
  next_ = 0;
  confirm_ms_ = kFirstConfirmMs;
  ask_at_ns_ = now_ns;
}

void KvFollower::become_whole(int64_t now_ns) {
  if (!whole_ && may_log(now_ns)) log_info("route: " + name_ + ": what it has cached is known");
  whole_ = true;
  confirm_at_ns_ = now_ns + std::exchange(confirm_ms_, kConfirmMs) * kNsPerMs;
  plan_.clear();
  index_.set_whole(worker_, true);
}

void KvFollower::hear(const std::vector<std::string>& frames, int64_t now_ns) {
  const auto number = frames.size() == 3 ? sequence_number(frames[1]) : std::nullopt;
  if (!number) {
    counters_.bad.add();
    return lose("what it publishes are no KV events", now_ns);
  }
  if (whole_ && !index_.state(worker_).whole) lose("its share of n_kv_blocks has become smaller", now_ns);
  const std::string& payload = frames[2];
  const bool again = last_ && *number <= *last_;
  last_ = number;
  if (again) {
    counters_.restarts.add();
    lose("its KV events begin anew", now_ns);
    ask_at_ns_ = std::min(ask_at_ns_, now_ns + kFirstWaitMs * kNsPerMs);
  }
  // The first batch of a process is about an empty cache.
  if (*number == 0) {
    index_.clear(worker_);
    next_ = 1;
    if (take(payload, now_ns)) become_whole(now_ns);
    return;
  }
  if (!whole_) {
    bool cleared = false;
    if (apply(payload, true, cleared) == Read::well && cleared) {
      next_ = *number + 1;
      become_whole(now_ns);
    }
    return;
  }
  if (*number < next_) return;  // of before all was told
  if (*number == next_) {
    if (!take(payload, now_ns)) return;
    ++next_;
    if (++n_good_ >= kGoodBatches) wait_ms_ = 0;
    return;
  }
  counters_.gaps.add();
  if (!may_ask_) return lose("some of its KV events are missing, and it has no address to ask for them", now_ns);
  miss(now_ns);
}

// All of it first: who has begun anew behind the gap has other batches under these numbers.
// The first time at once, then less and less often.
void KvFollower::miss(int64_t now_ns) {
  whole_ = false;
  index_.set_whole(worker_, false);
  plan_ = {kAll, next_};
  ask_at_ns_ = now_ns + wait_ms_ * kNsPerMs;
  wait_ms_ = std::clamp(2 * wait_ms_, kFirstWaitMs, kMostWaitMs);
  n_good_ = 0;
}

std::optional<uint64_t> KvFollower::question(int64_t now_ns) {
  if (!may_ask_ || asked_ || now_ns < (whole_ ? confirm_at_ns_ : ask_at_ns_)) return std::nullopt;
  n_told_ = told_bytes_ = told_messages_ = 0;
  if (whole_) {
    confirm_at_ns_ = now_ns + kConfirmMs * kNsPerMs;
    asked_ = next_ > 0 ? next_ - 1 : 0;
    return asked_;
  }
  if (plan_.empty()) {
    index_.clear(worker_);
    next_ = 0;
    plan_ = {kAll, 0};
  }
  asked_ = plan_.front();
  plan_.erase(plan_.begin());
  if (*asked_ == 0) next_ = 0;
  (*asked_ == kAll ? counters_.dumps : counters_.replays).add();
  return asked_;
}

void KvFollower::give_up(int64_t now_ns) {
  if (asked_) finish(false, now_ns);
}

void KvFollower::finish(bool well, int64_t now_ns) {
  asked_.reset();
  if (whole_) return;
  if (well) return become_whole(now_ns);
  if (plan_.empty() && ask_at_ns_ <= now_ns) back_off(now_ns);
}

// False: the answer is of no use.
bool KvFollower::told_batch(uint64_t number, std::string_view payload, int64_t now_ns) {
  if (*asked_ == kAll) {
    if (n_told_++ > 0) return false;
    index_.clear(worker_);
    next_ = number;
  } else {
    if (number < next_) return n_told_ == 0;
    if (number > next_) return false;
    ++n_told_;
  }
  if (!take(payload, now_ns)) return false;
  if (*asked_ == kAll) last_payload_ = 0;
  next_ = number + 1;
  return true;
}

// Of who is whole: the last batch once more, and what should have been heard behind it.
bool KvFollower::told_again(uint64_t number, std::string_view payload, int64_t now_ns) {
  if (n_told_ == 0 && number + 1 == next_) {
    ++n_told_;
    const uint64_t hash = kv_hash(payload);
    if (last_payload_ == 0 || last_payload_ == hash) {
      last_payload_ = hash;
      return true;
    }
    counters_.restarts.add();
    lose("its KV events are those of another process", now_ns);
    next_ = 0;
    ask_at_ns_ = now_ns;
    plan_ = {kAll, 0};
    return false;
  }
  if (number < next_) return n_told_ == 0;
  if (number == next_) {
    ++n_told_;
    if (!take(payload, now_ns)) return false;
    ++next_;
    return true;
  }
  counters_.gaps.add();
  miss(now_ns);
  return false;
}

void KvFollower::told(const std::vector<std::string>& frames, int64_t now_ns) {
  if (!asked_) return;
  const auto number = frames.size() == 3 && frames[0].empty() ? sequence_number(frames[1]) : std::nullopt;
  told_bytes_ += frames.size() == 3 ? std::ssize(frames[2]) : 0;
  if (!number || told_bytes_ > kMostToldBytes || ++told_messages_ > kMostToldMessages) {
    counters_.bad.add();
    return finish(false, now_ns);
  }
  if (*number != UINT64_MAX) {
    const bool well = whole_ ? told_again(*number, frames[2], now_ns) : told_batch(*number, frames[2], now_ns);
    if (!well) finish(false, now_ns);
    return;
  }
  // Where its last batch is not there it is another process, or that batch was never published.
  if (whole_ && n_told_ == 0 && next_ > 0) {
    miss(now_ns);
    asked_.reset();
    return;
  }
  // Who has published nothing yet has nothing; who was to say what is missing has said something.
  finish(n_told_ > 0 || (*asked_ == 0 && !last_), now_ns);
}

}  // namespace quire
