// Names that a store of others is known to have, as of not long ago. Bounded in number and age: the older half goes
// when the newer one is full or old. Not for several threads.
#pragma once
#include <unordered_map>
#include <utility>

#include "base/hash128.h"
#include "base/rng.h"

namespace quire {

class KnownNames {
 public:
  // A name is forgotten between half of most_age_ns and all of it after it was last put.
  KnownNames(size_t most, int64_t most_age_ns, uint64_t seed)
      : most_(most), most_age_ns_(most_age_ns), newer_(0, HashOfName{seed}), older_(0, HashOfName{seed}) {}

  void put(const Hash128& name, uint8_t groups, int64_t now_ns) {
    turn(now_ns);
    newer_[name] = groups;
  }
  uint8_t find(const Hash128& name, int64_t now_ns) {
    turn(now_ns);
    for (const Map* map : {&newer_, &older_}) {
      const auto at = map->find(name);
      if (at != map->end()) return at->second;
    }
    return 0;
  }
  void forget_all() {
    newer_.clear();
    older_.clear();
  }
  size_t size() const { return newer_.size() + older_.size(); }

 private:
  struct HashOfName {
    uint64_t seed;
    size_t operator()(const Hash128& name) const { return mix64(name.lo ^ seed); }
  };
  using Map = std::unordered_map<Hash128, uint8_t, HashOfName>;

  void turn(int64_t now_ns) {
    if (newer_.size() < most_ / 2 && now_ns - since_ns_ < most_age_ns_ / 2) return;
    if (now_ns - since_ns_ >= most_age_ns_) newer_.clear();
    older_ = std::exchange(newer_, Map(0, newer_.hash_function()));
    since_ns_ = now_ns;
  }

  const size_t most_;
  const int64_t most_age_ns_;
  Map newer_, older_;
  int64_t since_ns_ = 0;  // when the newer ones began
};

}  // namespace quire
