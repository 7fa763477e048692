// What an op sees of the KV cache: bytes at block addresses. Filled by kv (KvCache::view), read by the backends.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace quire {

// Cached keys and values are addressed as
//   base + block · block_bytes + kv_offset · block_tokens          where a layer's claim starts (KvLayout::claim)
// inside it head after head, of each its K, then its V, in the layout of their KvCodec (ops/op_check.h, head_offsets).
struct KvGroupView {
  std::byte* base = nullptr;
  int64_t block_bytes = 0;
  int block_tokens = 0;
};

struct KvView {
  static constexpr int kMaxGroups = 4;  // of any model
  std::array<KvGroupView, kMaxGroups> groups{};
  int n_groups = 0;
};

}  // namespace quire
