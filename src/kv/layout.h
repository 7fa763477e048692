// How layers claim room in the cache. Each layer claims once while the model loads and keeps the offset; the cache
// itself only ever sees bytes per token (after turbomind's cache registry). The one header of kv that a model includes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "quant/kv_codec.h"

namespace quire {

// Layers of one group share a block table: same blocks, same lifetime.
struct KvGroup {
  enum class Kind : uint8_t { full, window } kind = Kind::full;
  int window = 0;  // for Kind::window: a token sees itself and window − 1 tokens before it
  int n_kept = 0;  // for Kind::window: and the first n_kept of its sequence

  // The first block that a row at `position` or behind it reads, behind those that are kept.
  int first_block(int position, int block_tokens) const {
    return kind == Kind::window ? std::max(position - window + 1, 0) / block_tokens : 0;
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
    if (kind != Kind::window) return std::numeric_limits<int64_t>::max();
    return (int64_t{window} + n_step + block_tokens - 3) / block_tokens + 1 + kept_blocks(block_tokens);
  }

  bool operator==(const KvGroup&) const = default;
};

struct KvClaim {
  int group = 0;
  int64_t offset = 0;  // bytes per token before this claim; see KvGroupView for the address
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

  int n_groups() const { return static_cast<int>(groups_.size()); }
  const KvGroup& group(int g) const { return groups_[static_cast<size_t>(g)].group; }
  // Bytes of a block over all layers of the group.
  int64_t block_bytes(int g, int block_tokens) const { return token_bytes(g) * block_tokens; }
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
  };
  std::vector<Entry> groups_{{KvGroup{}, 0}};
};

}  // namespace quire
