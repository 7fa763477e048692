// Beginnings that stay: their whole blocks are held until somebody gives them up, whatever room others need. A pin is a
// holder like a sequence, so no eviction takes what it has. What all pins hold together is bounded; a block that
// several of them share counts once. Engine thread only.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_cache.h"

namespace quire {

struct PinLimits {
  int n_pins = 0;                                       // at once; 0: nothing can be pinned
  std::array<int, GroupBlocks::kMaxGroups> n_blocks{};  // of each group
  int64_t bytes = 0;                                    // of all groups together
  int64_t n_named = 1 << 20;                            // blocks over all pins, a shared one each time: their tables
};

class Pins {
 public:
  struct Pin {
    uint64_t id = 0;
    int n_tokens = 0;   // in whole blocks
    int64_t bytes = 0;  // of its blocks, those that others hold too
    SeqKv kv;
  };

  // `cache` outlives it.
  Pins(KvCache& cache, const PinLimits& limits);
  ~Pins();
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

  // Holds everything that match finds of `prefix` when nothing is missing: all whole blocks before its last token.
  // Code::exhausted, with nothing held, where a block is not in the cache any more or a limit would be passed; names
  // limit and value. The pin is valid until the next call. REQUIRES an id that no pin has.
  Result<const Pin*> add(uint64_t id, const Prefix& prefix);
  // False: no pin has this id.
  bool remove(uint64_t id);

  // The tokens that a pin of a prompt of n_prompt tokens has.
  int whole_tokens(int n_prompt) const { return (n_prompt - 1) / cache_.block_tokens() * cache_.block_tokens(); }
  // Why n_tokens in whole blocks could not be pinned if there were no other pin; empty: they could.
  std::string never_fits(int n_tokens) const;

  std::span<const Pin> pins() const { return pins_; }
  const PinLimits& limits() const { return limits_; }
  int64_t bytes() const { return bytes_; }
  int n_blocks(int group) const { return n_held_[static_cast<size_t>(group)]; }  // each counted once

 private:
  Status check_room(const SeqKv& kv) const;
  int64_t count(const SeqKv& kv, int sign);

  KvCache& cache_;
  const PinLimits limits_;
  std::vector<Pin> pins_;                              // room for n_pins
  std::vector<std::vector<int32_t>> holders_;          // by group and block: pins that have it
  int64_t n_named_ = 0;                                // blocks of all pins' tables
  std::array<int, GroupBlocks::kMaxGroups> n_held_{};  // blocks that have any
  int64_t bytes_ = 0;                                  // of these
};

}  // namespace quire
