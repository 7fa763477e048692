#include "kv/tiers/stored_wishes.h"

#include <algorithm>

namespace quire {
namespace {

constexpr int64_t kLookNs = 1'000'000'000;

}  // namespace

bool StoredWishes::charge(uint64_t whose, bool is_new) {
  if (is_new && bytes() + limits_.block_bytes > limits_.bytes) return false;
  if (bytes_of(whose) + limits_.block_bytes > limits_.bytes_each) return false;
  ++n_of_[whose];
  return true;
}

void StoredWishes::uncharge(uint64_t whose) {
  const auto n = n_of_.find(whose);
  if (--n->second == 0) n_of_.erase(n);
}

bool StoredWishes::note(const NamedWish& named, int64_t now_ns) {
  const BlockWish& wish = named.wish;
  if (wish.priority <= kUsualPriority) return true;
  forget_over(now_ns);
  const auto at = wishes_.find(named.name);
  if (at == wishes_.end()) {
    if (!charge(wish.whose, true)) return false;
    try {
      wishes_.emplace(named.name, wish);
    } catch (...) {
      uncharge(wish.whose);
      throw;
    }
    return true;
  }
  BlockWish& now = at->second;
  if (wish.priority <= now.priority && wish.until_ns <= now.until_ns) return true;
  if (now.whose != wish.whose) {
    if (!charge(wish.whose, false)) return false;
    uncharge(now.whose);
  }
  now = {std::max(now.priority, wish.priority), std::max(now.until_ns, wish.until_ns), wish.whose};
  return true;
}

void StoredWishes::forget(const Hash128& name) {
  const auto at = wishes_.find(name);
  if (at == wishes_.end()) return;
  uncharge(at->second.whose);
  wishes_.erase(at);
}

int StoredWishes::priority_of(const Hash128& name, int64_t now_ns) const {
  const auto at = wishes_.find(name);
  return at == wishes_.end() || at->second.until_ns <= now_ns ? kUsualPriority : at->second.priority;
}

// Where the limits would be passed, and once a second at most.
void StoredWishes::forget_over(int64_t now_ns) {
  if (now_ns < look_ns_ || bytes() + limits_.block_bytes <= limits_.bytes_each) return;
  look_ns_ = now_ns + kLookNs;
  std::erase_if(wishes_, [&](const auto& entry) {
    const bool over = entry.second.until_ns <= now_ns;
    if (over) uncharge(entry.second.whose);
    return over;
  });
}

int64_t StoredWishes::bytes_of(uint64_t whose) const {
  const auto n = n_of_.find(whose);
  return n == n_of_.end() ? 0 : n->second * limits_.block_bytes;
}

}  // namespace quire
