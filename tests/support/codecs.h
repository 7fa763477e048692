// The codecs of the cache, as the parameters of tests, and room for what they keep.
#pragma once
#include <vector>

#include "base/sanitized.h"
#include "kv/layout.h"
#include "quant/kv_codec.h"

namespace quire {

// With sanitizers those whose kernels differ most: memory errors of all are found in the op corpus.
inline std::vector<const KvCodec*> tried_codecs() {
  if (kSanitized) return {find_kv_codec("f16"), find_kv_codec("q4"), find_kv_codec("kivi2")};
  return {kv_codecs().begin(), kv_codecs().end()};
}

// Bytes of n_blocks of 16 tokens, and of what one sequence keeps unpacked in a step of n_step tokens.
inline int64_t room_for(const KvLayout& layout, int n_blocks, int n_step) {
  int64_t out = 0;
  for (int g = 0; g < layout.n_groups(); ++g) {
    const KvGroup& group = layout.group(g);
    out += (group.is_private ? group.most_blocks(n_step, 16) : n_blocks) * layout.block_bytes(g, 16);
  }
  return out;
}

}  // namespace quire
