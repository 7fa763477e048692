// What a request would find of its past in the cache, and why no more: asked for with Request::explain, told without
// computing anything. Of what is stored only the asking tenant's own is in it, under the request's own adapter and
// salt. Plain values.
#pragma once
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace quire {

inline constexpr int kMostOtherRoots = 16;

// Adapters and salts, none of them the request's own, under which its tokens may be stored too. Only those that the
// asker may know of: whether something is stored there is told.
struct ExplainWish {
  struct Root {
    uint64_t adapter = 0, salt = 0;
    std::vector<Token> invocation = {};  // the adapter's
  };
  std::vector<Root> others;  // kMostOtherRoots at most; the first that has more than the request's own is told
  int n_before = 0;          // tokens of the prompt to be told before the place where the paths part
  int n_behind = 0;          // of each path from there on
};

enum class MissCause : uint8_t {
  whole,         // nothing is missing
  below_block,   // the prompt has no whole block before its last token
  evicted,       // it was there, and made way
  partly_kept,   // its tokens are known, but not all that layers with a window or a state need there is kept
  other_root,    // it is there under another adapter or salt
  differs,       // what is stored goes on with other tokens
  never_stored,  // nothing stored goes on there
};

// Counts are in tokens of the prompt, without virtual ones.
struct Explanation {
  int n_prompt = 0;
  int n_memory = 0, n_disk = 0,
      n_remote = 0;  // what would be found in memory, behind that on disk, in the remote store
  int block_tokens = 0;
  MissCause cause = MissCause::never_stored;

  // evicted:
  int64_t evicted_ago_ns = 0;
  bool made_way_for_own = false;  // for a request of the same tenant
  // other_root: which of ExplainWish::others, and how much is there.
  int other = -1, n_other = 0;

  // Where the tenant's own stored path that goes along longest parts from the prompt: the position of the first token
  // that differs, the prompt's tokens before it and from it on, and the stored ones from it on. -1: there is no such
  // path. Told whatever the cause is, but for whole and below_block.
  int parts_at = -1;
  std::vector<Token> before, asked, stored;
};

}  // namespace quire
