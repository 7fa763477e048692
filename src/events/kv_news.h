// What has become of cached blocks, in order, as the engine's thread writes it down: two flat lists, so that a block
// costs it a copy of its tokens and little more. Plain values.
#pragma once
#include <cstdint>
#include <vector>

#include "base/hash128.h"
#include "base/types.h"

namespace quire {

struct KvNews {
  struct Block {
    Hash128 name;    // the same in every process: not for others' eyes, since keys and salts are in it
    Hash128 parent;  // zeros: there is none. Of stored ones, as what follows
    uint64_t adapter = 0, salt = 0;
    bool stored = false;  // else removed
  };
  bool all_cleared = false;  // before all of these
  std::vector<Block> blocks;
  std::vector<Token> tokens;  // of those that are stored, one behind the other

  bool empty() const { return !all_cleared && blocks.empty(); }
  int64_t bytes() const { return static_cast<int64_t>(blocks.size() * sizeof(Block) + tokens.size() * sizeof(Token)); }
};

}  // namespace quire
