// Which of a store's blocks are to stay for longer than others, for whom and until when (retention.h), by name: a name
// may be told before its block is stored. Bounded in bytes, in all and for each tenant; a block counts as the largest
// that there may be. Wishes for less than the usual priority say nothing here: whoever can name a block may not take it
// from others. One thread at a time.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/rng.h"
#include "kv/prefix.h"
#include "kv/retention.h"

namespace quire {

class StoredWishes {
 public:
  struct Limits {
    int64_t bytes = 0, bytes_each = 0;  // in all; of one tenant
    int64_t block_bytes = 1;            // of one block, > 0
  };
  // `seed`: so that nobody can choose names that crowd one place of the table.
  StoredWishes(const Limits& limits, uint64_t seed) : limits_(limits), wishes_(0, HashOfName{seed}) {}

  // As Retentions::note has it: the higher priority and the later end of all wishes, charged to who asked for more.
  // False: a limit forbids it, and nothing is noted. Throws std::bad_alloc with nothing noted.
  bool note(const NamedWish& wish, int64_t now_ns);
  void forget(const Hash128& name);
  // What it is to have now; kUsualPriority where nothing is known or its time is over.
  int priority_of(const Hash128& name, int64_t now_ns) const;

  int64_t bytes() const { return std::ssize(wishes_) * limits_.block_bytes; }
  int64_t bytes_of(uint64_t whose) const;
  const Limits& limits() const { return limits_; }

 private:
  bool charge(uint64_t whose, bool is_new);
  void uncharge(uint64_t whose);
  void forget_over(int64_t now_ns);

  struct HashOfName {
    uint64_t seed;
    size_t operator()(const Hash128& name) const { return static_cast<size_t>(mix64(name.lo ^ seed)); }
  };
  const Limits limits_;
  std::unordered_map<Hash128, BlockWish, HashOfName> wishes_;
  std::unordered_map<uint64_t, int64_t> n_of_;  // by tenant
  int64_t look_ns_ = 0;                         // not before that is there another look for what is over
};

}  // namespace quire
