// Tokens that no text spells, in front of a request's own: their keys and values were learned, or are computed from
// learned embeddings. They are written once, when the engine is made, into blocks that every request shares which asks
// for them. Plain values.
#pragma once
#include <cstdint>
#include <functional>

#include "model/model.h"

namespace quire {

struct VirtualTokens {
  uint64_t content = 0;  // of all that was learned; names them in requests and is part of the cache's key. Not 0
  int n = 0;             // ≥ 1
  // Puts the keys and values of the pass's rows, which stand at position `begin` and behind, where its slots say.
  // REQUIRES keys and values that depend on nothing but position and content, however many rows a pass has. Empty:
  // nobody will read them. Engine thread, or the one that makes the engine.
  std::function<void(const Pass& pass, int begin)> write = {};
};

}  // namespace quire
