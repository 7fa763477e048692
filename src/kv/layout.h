// How layers claim room in the cache. Each layer claims once while the model loads and keeps the offset; the cache
// itself only ever sees bytes per token (after turbomind's cache registry). The one header of kv that a model includes.
#pragma once
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "quant/kv_codec.h"

namespace quire {

// Layers of one group share a block table: same blocks, same lifetime.
struct KvGroup {
  enum class Kind : uint8_t { full, window } kind = Kind::full;
  int window = 0;  // tokens, for Kind::window

  bool operator==(const KvGroup&) const = default;
};

struct KvClaim {
  int group = 0;
  int64_t offset = 0;  // bytes per token before this claim; see KvGroupView for the address
};

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
  // Bytes of one token over all layers of the group.
  int64_t token_bytes(int g) const { return groups_[static_cast<size_t>(g)].token_bytes; }

 private:
  struct Entry {
    KvGroup group;
    int64_t token_bytes;
  };
  std::vector<Entry> groups_;
};

}  // namespace quire
