// Blocks on their way from a tier into memory: a run of one path, in order. It holds their room, and all blocks before
// them, so that what it brings has somewhere to hang; what has not arrived when it ends is elsewhere again. Whoever
// waits for a run matches again as its blocks arrive (KvCache::extend). Engine thread only; ends before its cache.
#pragma once
#include <utility>
#include <vector>

#include "kv/prefix_tree.h"

namespace quire {

class Fetch {
 public:
  Fetch() = default;
  Fetch(Fetch&& other) noexcept { swap(other); }
  Fetch& operator=(Fetch&& other) noexcept {
    Fetch(std::move(other)).swap(*this);
    return *this;
  }
  ~Fetch() {
    if (!arrived_all()) tree_->give_up(blocks_[n_arrived_][0].id());
  }

  size_t n_blocks() const { return blocks_.size(); }
  size_t n_arrived() const { return n_arrived_; }
  bool arrived_all() const { return n_arrived_ == blocks_.size(); }
  const Hash128& name(size_t i) const { return names_[i]; }
  // Where the bytes of block i go; empty for a group whose block no row behind the run reads.
  const GroupBlocks& blocks(size_t i) const { return blocks_[i]; }
  // What it holds besides: the blocks before the run.
  std::span<const GroupBlocks> before() const { return before_; }
  std::span<const GroupBlocks> blocks() const { return blocks_; }

  // The bytes of the next block are in their place, copied: others may read them.
  void arrived() { tree_->arrived(blocks_[n_arrived_++][0].id()); }
  // There is no such block: it and all behind it are forgotten. The run is over.
  void lost() {
    tree_->lost(blocks_[n_arrived_][0].id());
    n_arrived_ = blocks_.size();
  }

 private:
  friend class KvCache;
  Fetch(PrefixTree& tree, const std::vector<GroupBlocks>& before) : tree_(&tree) {
    for (const GroupBlocks& blocks : before) before_.push_back(blocks.share());
  }
  void hold(int32_t node) { before_.push_back(tree_->node(node).blocks.share()); }
  int n_before() const { return static_cast<int>(before_.size()); }
  void add(int32_t node, GroupBlocks blocks) {
    tree_->load(node, blocks);
    names_.push_back(tree_->node(node).name);
    blocks_.push_back(std::move(blocks));
  }
  void swap(Fetch& other) noexcept {
    std::swap(tree_, other.tree_);
    std::swap(before_, other.before_);
    std::swap(blocks_, other.blocks_);
    std::swap(names_, other.names_);
    std::swap(n_arrived_, other.n_arrived_);
  }

  PrefixTree* tree_ = nullptr;
  std::vector<GroupBlocks> before_, blocks_;
  std::vector<Hash128> names_;
  size_t n_arrived_ = 0;
};

}  // namespace quire
