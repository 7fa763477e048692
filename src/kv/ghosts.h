// What a policy remembers of blocks that it has let go: names, each with a small number, about the last n of them. A
// name has its place in one of many sets of eight, where the one that left first makes room; so memory is taken once
// and every call costs eight comparisons. Names are those that outlive the process: what is remembered is a function
// of what was computed, never of this process's hashes. Engine thread only.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash128.h"

namespace quire {

class Ghosts {
 public:
  // Room for at least n names in all, at most 2 n and eight.
  explicit Ghosts(int64_t n);

  void put(const Hash128& name, uint8_t what);
  // What was put last under this name, which is forgotten; `otherwise` where there is nothing.
  uint8_t take(const Hash128& name, uint8_t otherwise);

 private:
  static constexpr size_t kSet = 8;
  struct Ghost {
    Hash128 name;
    uint64_t left = 0;  // a counter of all that was put; 0: free
    uint8_t what = 0;
  };
  std::span<Ghost> set_of(const Hash128& name);

  std::vector<Ghost> ghosts_;
  uint64_t n_put_ = 0;
};

}  // namespace quire
