#include "kv/block_pool.h"

#include "base/check.h"

namespace quire {

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->drop_ref(id_);
}

BlockRef BlockRef::share() const {
  QR_CHECK(pool_ != nullptr);
  pool_->add_ref(id_);
  return {pool_, id_};
}

BlockPool::BlockPool(Buffer memory, int n_blocks, int64_t block_bytes)
    : memory_(std::move(memory)),
      block_bytes_(block_bytes),
      refs_(static_cast<size_t>(n_blocks)),
      indexed_(static_cast<size_t>(n_blocks)),
      cached_(static_cast<size_t>(n_blocks) + 1, Links{n_blocks, n_blocks}) {
  QR_CHECK(memory_.bytes() >= n_blocks * block_bytes);
  for (int id = n_blocks - 1; id >= 0; --id) free_.push_back(id);
}

BlockPool::~BlockPool() { QR_DCHECK(n_free() == n_blocks(), "a block outlives its pool"); }

BlockRef BlockPool::allocate() {
  if (free_.empty()) return {};
  const int32_t id = free_.back();
  free_.pop_back();
  refs_[static_cast<size_t>(id)] = 1;
  if (copier() != nullptr) copier()->reuse(base() + id * block_bytes_, block_bytes_);
  return {this, id};
}

void BlockPool::set_indexed(int32_t id, bool indexed) {
  const auto i = static_cast<size_t>(id);
  QR_DCHECK(refs_[i] > 0 && (indexed_[i] != 0) != indexed);
  indexed_[i] = indexed ? 1 : 0;
  if (refs_[i] == 1) indexed ? enter_cached(id) : leave_cached(id);
}

int32_t BlockPool::oldest_cached() const {
  const int32_t id = cached_.back().after;
  return id == n_blocks() ? -1 : id;
}

void BlockPool::enter_cached(int32_t id) {
  const int32_t newest = cached_.back().before;
  cached_[static_cast<size_t>(id)] = {newest, n_blocks()};
  cached_[static_cast<size_t>(newest)].after = id;
  cached_.back().before = id;
  ++n_cached_;
}

void BlockPool::leave_cached(int32_t id) {
  const auto [before, after] = cached_[static_cast<size_t>(id)];
  cached_[static_cast<size_t>(before)].after = after;
  cached_[static_cast<size_t>(after)].before = before;
  --n_cached_;
}

void BlockPool::add_ref(int32_t id) {
  const auto i = static_cast<size_t>(id);
  QR_DCHECK(refs_[i] > 0);
  if (refs_[i] == 1 && indexed_[i] != 0) leave_cached(id);
  ++refs_[i];
}

void BlockPool::drop_ref(int32_t id) {
  const auto i = static_cast<size_t>(id);
  QR_DCHECK(refs_[i] > 0);
  if (--refs_[i] == 0) {
    QR_DCHECK(indexed_[i] == 0, "the tree forgets a block before it drops it");
    free_.push_back(id);
  } else if (refs_[i] == 1 && indexed_[i] != 0) {
    enter_cached(id);
  }
}

}  // namespace quire
