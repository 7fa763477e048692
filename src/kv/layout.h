// How layers claim room in the cache. Each layer claims once while the model loads and keeps the offset; the cache
// itself only ever sees bytes per token, or of layers that keep a state bytes per state (after turbomind's cache
// registry). The one header of kv that a model includes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "quant/kv_codec.h"

namespace quire {

// Layers of one group share a block table: same blocks, same lifetime. A block of a group of states is one state: what
// led up to the end of the block's tokens that are computed, whatever lies before.
struct KvGroup {
  enum class Kind : uint8_t { full, window, state } kind = Kind::full;
  int window = 0;  // for Kind::window: a token sees itself and window − 1 tokens before it
  int n_kept = 0;  // for Kind::window: and the first n_kept of its sequence
  // Its blocks are their sequence's alone: the tree takes none. Where a window reaches no further back than a row's own
  // block no prefix needs them.
  bool is_private = false;

  // The first block that a row at `position` or behind it reads, behind those that are kept.
  int first_block(int position, int block_tokens) const {
    if (kind == Kind::full) return 0;
    // Of states the one behind the token before.
    return std::max(position - (kind == Kind::state ? 1 : window - 1), 0) / block_tokens;
  }
  // Leading blocks that every row reads.
  int kept_blocks(int block_tokens) const { return (n_kept + block_tokens - 1) / block_tokens; }
  // Whether a row at `position` or behind it reads `block`, which begins before it.
  bool reads(int block, int position, int block_tokens) const {
    return block >= first_block(position, block_tokens) || block < kept_blocks(block_tokens);
  }
  // Blocks that a sequence ever needs at once when at most n_step tokens are computed at a time: those that are kept,
  // and those that window − 1 + n_step tokens touch, wherever a block begins.
  int64_t most_blocks(int n_step, int block_tokens) const {
    if (kind == Kind::state) return 2;  // the one that is read and the one that is written
    if (kind == Kind::full) return std::numeric_limits<int64_t>::max();
    return (int64_t{window} + n_step + block_tokens - 3) / block_tokens + 1 + kept_blocks(block_tokens);
  }

  bool operator==(const KvGroup&) const = default;
};

// Of rows whose strip is not packed yet (quant/kv_codec.h): a row reads its own block.
inline constexpr KvGroup kTailGroup{.kind = KvGroup::Kind::window, .window = 1, .is_private = true};

struct KvClaim {
  int group = 0;
  int64_t offset = 0;  // bytes per token before this claim; see KvGroupView for the address. Of a state: bytes
};

// The first group is always a full one: its blocks number the past of a sequence. Where every layer has a window it
// holds no bytes.
class KvLayout {
 public:
  // REQUIRES bytes_per_token > 0 and a multiple of 4, so that claims stay aligned for 16-token groups.
  KvClaim claim(const KvGroup& group, int64_t bytes_per_token) {
    QR_CHECK(bytes_per_token > 0 && bytes_per_token % 4 == 0);
    int g = 0;
    while (g < n_groups() && !(groups_[static_cast<size_t>(g)].group == group)) ++g;
    if (g == n_groups()) groups_.push_back({group, 0});
    auto& entry = groups_[static_cast<size_t>(g)];
    const int64_t offset = entry.token_bytes;
    entry.token_bytes += bytes_per_token;
    return {g, offset};
  }
  // Of a layer that keeps a state. REQUIRES bytes > 0 and a multiple of 64, so that claims stay on cache lines.
  KvClaim claim_state(int64_t bytes) {
    QR_CHECK(bytes > 0 && bytes % 64 == 0);
    int g = 0;
    while (g < n_groups() && group(g).kind != KvGroup::Kind::state) ++g;
    if (g == n_groups()) groups_.push_back({KvGroup{KvGroup::Kind::state}, 0});
    auto& entry = groups_[static_cast<size_t>(g)];
    entry.state_bytes += bytes;
    return {g, entry.state_bytes - bytes};
  }

  int n_groups() const { return static_cast<int>(groups_.size()); }
  const KvGroup& group(int g) const { return groups_[static_cast<size_t>(g)].group; }
  // Bytes of a block over all layers of the group.
  int64_t block_bytes(int g, int block_tokens) const {
    return token_bytes(g) * block_tokens + groups_[static_cast<size_t>(g)].state_bytes;
  }
  // Of one state, over all layers that keep one; 0: none does.
  int64_t state_bytes() const {
    int64_t sum = 0;
    for (const Entry& entry : groups_) sum += entry.state_bytes;
    return sum;
  }
  // Bytes of one token over all layers of the group.
  int64_t token_bytes(int g) const { return groups_[static_cast<size_t>(g)].token_bytes; }
  // Of one token that every layer keeps.
  int64_t token_bytes() const {
    int64_t sum = 0;
    for (const Entry& entry : groups_) sum += entry.token_bytes;
    return sum;
  }

 private:
  struct Entry {
    KvGroup group;
    int64_t token_bytes;
    int64_t state_bytes = 0;
  };
  std::vector<Entry> groups_{{KvGroup{}, 0}};
};

}  // namespace quire
