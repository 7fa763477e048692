// What is remembered of blocks that have left: names, each with something small, about the last n of them. A name has
// its place in one of many sets of eight, where the one that left first makes room; so memory is taken once and every
// call costs eight comparisons. Names are those that outlive the process: what is remembered is a function of what was
// computed, never of this process's hashes. Engine thread only.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash128.h"

namespace quire {

// REQUIRES What to be a plain value.
template <class What>
class RememberedNames {
 public:
  // Room for at least n names in all, at most 2 n and eight.
  explicit RememberedNames(int64_t n) {
    const auto wanted = static_cast<size_t>(std::max<int64_t>(n, 1));
    entries_.resize(kSet * std::bit_ceil((wanted + kSet - 1) / kSet));
  }

  void put(const Hash128& name, const What& what) {
    Entry* place = nullptr;
    for (Entry& entry : set_of(name)) {
      if (entry.left > 0 && entry.name == name) {
        place = &entry;
        break;
      }
      if (place == nullptr || entry.left < place->left) place = &entry;
    }
    *place = {name, ++n_put_, what};
  }
  // What was put last under this name, which stays; null where there is nothing.
  const What* find(const Hash128& name) const {
    for (const Entry& entry : set_of(name)) {
      if (entry.left > 0 && entry.name == name) return &entry.what;
    }
    return nullptr;
  }
  // What was put last under this name, which is forgotten; `otherwise` where there is nothing.
  What take(const Hash128& name, const What& otherwise) {
    for (Entry& entry : set_of(name)) {
      if (entry.left == 0 || entry.name != name) continue;
      const What what = entry.what;
      entry = {};
      return what;
    }
    return otherwise;
  }

 private:
  static constexpr size_t kSet = 8;
  struct Entry {
    Hash128 name;
    uint64_t left = 0;  // a counter of all that was put; 0: free
    What what{};
  };
  size_t begin_of(const Hash128& name) const { return name.lo % (entries_.size() / kSet) * kSet; }
  std::span<Entry> set_of(const Hash128& name) { return std::span(entries_).subspan(begin_of(name), kSet); }
  std::span<const Entry> set_of(const Hash128& name) const { return std::span(entries_).subspan(begin_of(name), kSet); }

  std::vector<Entry> entries_;
  uint64_t n_put_ = 0;
};

// What a policy remembers: a small number for each name.
using Ghosts = RememberedNames<uint8_t>;

}  // namespace quire
