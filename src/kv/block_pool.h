// The blocks of one KV group: a fixed number, carved from one buffer, each with a count of its holders. The pool knows
// neither tokens nor sequences. Engine thread only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/buffer.h"

namespace quire {

class BlockPool;

// Holds one block; the last holder's end frees it. Move-only: another holder is made by share(), so that every
// reference is visible in the code.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(BlockRef&& other) noexcept { swap(other); }
  BlockRef& operator=(BlockRef&& other) noexcept {
    BlockRef(std::move(other)).swap(*this);
    return *this;
  }
  ~BlockRef();

  explicit operator bool() const { return pool_ != nullptr; }
  int32_t id() const { return id_; }
  BlockRef share() const;

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, int32_t id) : pool_(pool), id_(id) {}
  void swap(BlockRef& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(id_, other.id_);
  }
  BlockPool* pool_ = nullptr;
  int32_t id_ = -1;
};

class BlockPool {
 public:
  // `memory` holds at least n_blocks · block_bytes. REQUIRES the pool to stay where it is while a BlockRef lives.
  BlockPool(Buffer memory, int n_blocks, int64_t block_bytes);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();  // REQUIRES every block to be free

  BlockRef allocate();  // empty when no block is free

  // The prefix tree marks the blocks that it holds, so that the pool can tell what eviction could free.
  void set_indexed(int32_t id, bool indexed);
  // Of the blocks that the tree alone holds the one whose last other holder left first; -1: none.
  int32_t oldest_cached() const;
  // As if its last other holder had left just now. REQUIRES one of those.
  void renew_cached(int32_t id) {
    leave_cached(id);
    enter_cached(id);
  }

  std::byte* base() const { return memory_.data(); }
  Copier* copier() const { return memory_.copier(); }
  int64_t block_bytes() const { return block_bytes_; }
  int n_blocks() const { return static_cast<int>(refs_.size()); }
  int n_free() const { return static_cast<int>(free_.size()); }
  int n_cached() const { return n_cached_; }  // held by the tree and by nobody else
  int n_refs(int32_t id) const { return refs_[static_cast<size_t>(id)]; }
  bool indexed(int32_t id) const { return indexed_[static_cast<size_t>(id)] != 0; }

 private:
  friend class BlockRef;
  void add_ref(int32_t id);
  void drop_ref(int32_t id);
  void enter_cached(int32_t id);
  void leave_cached(int32_t id);

  Buffer memory_;
  int64_t block_bytes_;
  std::vector<int32_t> refs_;     // holders of each block
  std::vector<uint8_t> indexed_;  // the tree is one of them
  std::vector<int32_t> free_;     // last freed, first used: still warm
  struct Links {
    int32_t before, after;
  };
  std::vector<Links> cached_;  // a ring of the cached blocks, oldest first, closed by entry n_blocks
  int n_cached_ = 0;
};

}  // namespace quire
