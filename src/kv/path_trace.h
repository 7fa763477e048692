// Why a prefix is found as far as it is, as the prefix tree and what it remembers of evictions tell it. Plain values.
#pragma once
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace quire {

// How a block left memory.
struct Departure {
  int64_t time_ns = 0;
  uint64_t whose = 0;     // the tenant that had put it there
  uint64_t made_way = 0;  // the tenant whose sequence needed its room
};

// Whoever needs room: what is remembered of the blocks that make way.
struct Occasion {
  int64_t now_ns = 0;
  uint64_t whose = 0;
};

// What a trace may look at.
struct TraceLimits {
  int n_siblings = 1024;  // stored continuations at the place where a path ends, newest first
  int n_stored = 32;      // tokens of the one that goes along longest
};

// Where a path ends among what is known. But for what a match would find, which a request would report as well, nothing
// of it depends on what other tenants have stored: it holds only what the same tenant has put there under the same key.
struct PathTrace {
  int n_matched = 0;  // tokens that match would find
  int n_part = 0;     // and of a block behind them, which a copy could begin with (PrefixTree::part)
  // These, and tokens of blocks behind them that the tenant has put there, wherever they are and whatever they lack.
  int n_known = 0;
  // Of the tenant's stored path that goes along longest behind n_known tokens: how many more it has in common with the
  // prefix, and its tokens behind these. Empty: nothing goes on there.
  int n_common = 0;
  std::vector<Token> stored;
};

}  // namespace quire
