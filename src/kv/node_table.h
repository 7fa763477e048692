// The nodes of the prefix tree: a fixed number with ids of their own, each linked to its parent and its children, found
// by hash through open addressing. A node is what is known of a block, wherever the block is. All memory is taken when
// the table is made, but for extras. Engine thread only.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "kv/block_pool.h"
#include "kv/prefix.h"
#include "kv/retention_range.h"
#include "tensor/kv_view.h"

namespace quire {

// The references of one block of a sequence, one per KV group; those of groups with a window may be empty. In place: a
// table grows without allocating per block.
class GroupBlocks {
 public:
  static constexpr size_t kMaxGroups = KvView::kMaxGroups;

  void push_back(BlockRef block) {
    QR_CHECK(n_ < kMaxGroups);
    blocks_[n_++] = std::move(block);
  }
  size_t size() const { return n_; }
  BlockRef& operator[](size_t g) { return blocks_[g]; }
  const BlockRef& operator[](size_t g) const { return blocks_[g]; }
  const BlockRef* begin() const { return blocks_.data(); }
  const BlockRef* end() const { return blocks_.data() + n_; }
  GroupBlocks share() const {
    GroupBlocks out;
    for (const BlockRef& block : *this) out.push_back(block ? block.share() : BlockRef());
    return out;
  }

 private:
  std::array<BlockRef, kMaxGroups> blocks_;
  size_t n_ = 0;
};

// Where a node's block is.
//
//              insert                    evict, and a tier keeps it
//   (unknown) ───────► resident ──────────────────────────► elsewhere ◄── learn: a tier says that it has it
//                        ▲  ▲  └─ insert: computed again ◄──┘   │
//                        │  └────────── arrived ── loading ◄────┘ load
enum class NodeState : uint8_t {
  unused,     // an id that no node has
  resident,   // in memory: match finds it
  loading,    // has room in memory, which somebody fills
  elsewhere,  // a tier below has it
};

struct Node {
  NodeState state = NodeState::unused;
  uint8_t groups = 0;                                 // elsewhere, loading: bit g: the tier has the block of group g
  Hash128 hash;                                       // of this process
  Hash128 name;                                       // that outlives it
  int32_t parent = -1;                                // −1: a root's child
  int32_t first_child = -1, before = -1, after = -1;  // among the parent's children, or the roots
  CacheKey key;
  uint64_t whose = 0;                 // the tenant that was first to put it here
  std::vector<Extra> extras;          // that reach into it
  GroupBlocks blocks;                 // empty where it has none: that of a window may be evicted on its own
  int32_t depth = 0;                  // blocks before it
  uint8_t priority = kUsualPriority;  // in memory: the lower goes first, whatever its rank
  uint64_t last_used = 0;
  int64_t rank = 0;  // of a leaf in memory, by its policy: the lower goes first, of equal ones the longest unused
  int32_t n_in_memory = 0;  // children that are resident or loading
  int32_t place = -1;       // in the heap that lists it
};

class NodeTable {
 public:
  static constexpr int32_t kNone = -1;

  NodeTable(int n_nodes, int block_tokens);

  Node& operator[](int32_t id) { return nodes_[static_cast<size_t>(id)]; }
  const Node& operator[](int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
  int capacity() const { return static_cast<int>(nodes_.size()); }
  int size() const { return capacity() - static_cast<int>(free_.size()); }
  std::span<Token> tokens(int32_t id);  // what it spells
  std::span<const Token> tokens(int32_t id) const;

  // The newest child; of kNone the newest root. Those before it follow by Node::after.
  int32_t first_child(int32_t parent) const { return parent == kNone ? first_root_ : (*this)[parent].first_child; }

  // The node of that hash, whatever it spells; kNone: there is none.
  int32_t look_up(const Hash128& hash) const { return slots_[slot_of(hash)]; }
  // A new node in no state, with its links. REQUIRES a free id and no node of that hash.
  int32_t add(const Hash128& hash, int32_t parent);
  // REQUIRES no children and no blocks.
  void remove(int32_t id);
  std::string check() const;  // empty when links and index agree

 private:
  size_t slot_of(const Hash128& hash) const;
  void free_slot(int32_t id);
  int32_t& list_below(int32_t parent) { return parent == kNone ? first_root_ : (*this)[parent].first_child; }

  size_t block_tokens_;
  std::vector<Node> nodes_;
  std::vector<Token> tokens_;
  std::vector<int32_t> slots_;  // half full at most; kNone: free
  std::vector<int32_t> free_;   // ids, last freed first used
  int32_t first_root_ = kNone;
};

}  // namespace quire
