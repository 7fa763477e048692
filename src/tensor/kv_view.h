// What an op sees of the KV cache: bytes at block addresses. Filled by kv (KvCache::view), read by the backends.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/buffer.h"

namespace quire {

// Cached keys and values are addressed as
//   base + block · block_bytes + kv_offset · block_tokens          where a layer's claim starts (KvLayout::claim)
// inside it head after head, of each its K, then its V, in the layout of their KvCodec (ops/op_check.h, head_offsets).
struct KvGroupView {
  std::byte* base = nullptr;
  int64_t block_bytes = 0;
  int block_tokens = 0;
  Copier* copier = nullptr;  // null: the host reaches the blocks

  std::byte* block(int32_t id) const { return base + id * block_bytes; }
  // Bytes of whole blocks, as Copier says; where the host reaches them all is done when a call returns.
  bool copy(int32_t to, int32_t from) const {
    if (block_bytes == 0) return true;
    if (copier != nullptr) return copier->copy(block(to), block(from), block_bytes);
    std::memcpy(block(to), block(from), static_cast<size_t>(block_bytes));
    return true;
  }
  int64_t read(std::byte* to, int32_t from) const {
    if (block_bytes == 0) return Copier::kDone;
    if (copier != nullptr) return copier->read(to, block(from), block_bytes);
    std::memcpy(to, block(from), static_cast<size_t>(block_bytes));
    return Copier::kDone;
  }
  int64_t write(int32_t to, const std::byte* from) const {
    if (block_bytes == 0) return Copier::kDone;
    if (copier != nullptr) return copier->write(block(to), from, block_bytes);
    std::memcpy(block(to), from, static_cast<size_t>(block_bytes));
    return Copier::kDone;
  }
};

struct KvView {
  static constexpr int kMaxGroups = 4;  // of any model
  std::array<KvGroupView, kMaxGroups> groups{};
  int n_groups = 0;

  // Of all groups whose blocks have bytes; null: the host reaches them.
  Copier* copier() const {
    for (const KvGroupView& group : groups) {
      if (group.copier != nullptr) return group.copier;
    }
    return nullptr;
  }
  void begin_writes() const {
    if (copier() != nullptr) copier()->begin_writes();
  }
  CopyState state(int64_t copy, bool waits) const {
    if (copy == Copier::kDone) return CopyState::done;
    return copy == Copier::kFailed ? CopyState::failed : copier()->state(copy, waits);
  }
};

}  // namespace quire
