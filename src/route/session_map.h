// Which worker a session was last at: names of sessions to workers, for a time, a bounded number. Some of them are
// pinned: what they go on from is at that worker and nowhere else. The one idea: where there is no room, the kind that
// has more gives its oldest, so whatever names clients make up, half of the places are for sessions that cannot move.
// One thread at a time.
#pragma once
#include <cstdint>
#include <iterator>
#include <list>
#include <unordered_map>

#include "base/hash128.h"

namespace quire {

class SessionMap {
 public:
  SessionMap(int64_t most, int64_t keep_ns) : most_(most), keep_ns_(keep_ns) {}

  // 0: nobody knows, or it is too long ago.
  uint64_t find(const Hash128& session, int64_t now_ns) const {
    const auto found = by_name_.find(session);
    return found == by_name_.end() || found->second->until_ns <= now_ns ? 0 : found->second->worker;
  }
  // REQUIRES worker ≠ 0.
  void set(const Hash128& session, uint64_t worker, bool pinned, int64_t now_ns) {
    std::list<Entry>& by_use = pinned ? pinned_ : free_;
    const auto [at, fresh] = by_name_.try_emplace(session);
    if (fresh) {
      by_use.push_front({session});
      at->second = by_use.begin();
    } else {
      by_use.splice(by_use.begin(), at->second->pinned ? pinned_ : free_, at->second);
    }
    at->second->pinned = pinned;
    at->second->worker = worker;
    at->second->until_ns = now_ns + keep_ns_;
    while (is_over(pinned_, now_ns)) drop_oldest(pinned_);
    while (is_over(free_, now_ns)) drop_oldest(free_);
    while (n_sessions() > most_) drop_oldest(pinned_.size() > free_.size() ? pinned_ : free_);
  }
  int64_t n_sessions() const { return std::ssize(by_name_); }

 private:
  struct Entry {
    Hash128 session;
    uint64_t worker = 0;
    int64_t until_ns = 0;
    bool pinned = false;
  };
  struct Hasher {
    size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.lo); }
  };
  static bool is_over(const std::list<Entry>& by_use, int64_t now_ns) {
    return !by_use.empty() && by_use.back().until_ns <= now_ns;
  }
  void drop_oldest(std::list<Entry>& by_use) {
    by_name_.erase(by_use.back().session);
    by_use.pop_back();
  }

  const int64_t most_, keep_ns_;
  std::list<Entry> pinned_, free_;  // the latest first
  std::unordered_map<Hash128, std::list<Entry>::iterator, Hasher> by_name_;
};

}  // namespace quire
