// The cache_salts that each client has named last, for telling it that a prompt is cached under another one of its own.
// Only of clients whose key was checked: whoever has a key sends everything that is cached under its salts. Bounded:
// few salts of each, and of clients as many as there are places; beyond these nothing is kept. Any thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace quire {

class RecentSalts {
 public:
  static constexpr size_t kSalts = 8, kOwners = 1024;

  // As its request named it; 0: it named none.
  void note(uint64_t owner, uint64_t salt) {
    const std::lock_guard lock(mutex_);
    if (!salts_.contains(owner) && salts_.size() >= kOwners) return;
    std::vector<uint64_t>& own = salts_[owner];
    const auto at = std::ranges::find(own, salt);
    if (at != own.end()) {
      std::rotate(at, at + 1, own.end());
      return;
    }
    if (own.size() == kSalts) own.erase(own.begin());
    own.push_back(salt);
  }
  // The last first.
  std::vector<uint64_t> of(uint64_t owner) const {
    const std::lock_guard lock(mutex_);
    const auto at = salts_.find(owner);
    if (at == salts_.end()) return {};
    return {at->second.rbegin(), at->second.rend()};
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> salts_;  // by owner; the last at the end
};

}  // namespace quire
