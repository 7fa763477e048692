// Which worker a session was last at: names of sessions to workers, for a time, a bounded number; who was not asked for
// longest goes first. Only a hint. One thread at a time.
#pragma once
#include <cstdint>
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
  void set(const Hash128& session, uint64_t worker, int64_t now_ns) {
    const auto [at, fresh] = by_name_.try_emplace(session);
    if (fresh) {
      by_use_.push_front({session, 0, 0});
      at->second = by_use_.begin();
    } else {
      by_use_.splice(by_use_.begin(), by_use_, at->second);
    }
    at->second->worker = worker;
    at->second->until_ns = now_ns + keep_ns_;
    while (n_sessions() > most_ || (!by_use_.empty() && by_use_.back().until_ns <= now_ns)) {
      by_name_.erase(by_use_.back().session);
      by_use_.pop_back();
    }
  }
  int64_t n_sessions() const { return static_cast<int64_t>(by_name_.size()); }

 private:
  struct Entry {
    Hash128 session;
    uint64_t worker = 0;
    int64_t until_ns = 0;
  };
  struct Hasher {
    size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.lo); }
  };
  const int64_t most_, keep_ns_;
  std::list<Entry> by_use_;  // the latest first
  std::unordered_map<Hash128, std::list<Entry>::iterator, Hasher> by_name_;
};

}  // namespace quire
