// What has been computed, by the tokens that led to it: a tree whose nodes are whole blocks. A path from a root spells
// a prefix; requests that share a prefix share its blocks.
//
//   root(key) ── [the quick brown …] ── [fox jumps …] ── [over …]
//                                    └─ [dog sleeps …]
//
// Nodes are found by a 128-bit hash chained along the path, so matching n tokens costs n / block_tokens lookups; the
// tokens themselves are compared on every hit, so a collision is a miss and never a wrong answer. A node's number is
// that of its block in the first group: whoever holds an indexed block knows its node, and walks go on from there.
// Leaves that nobody else holds are evicted, least recently used first (a parent is used whenever its child is, so
// leaves go first). All memory is taken when the tree is made, but for extras. Engine thread only. Source: radix
// attention (SGLang), hashed whole blocks (vLLM).
//
// A block of a group with a window may go before its node does: a prefix is found where the window before its end is
// still whole, whatever lies before that.
//
//   full     ── [a] ── [b] ── [c] ── [d] ── [e]      window of two blocks: found are the prefixes
//   window       –      –     [c]    [d]     –       … [d], and nothing shorter or longer
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/types.h"
#include "kv/block_pool.h"
#include "kv/layout.h"

namespace quire {

struct Hash128 {
  uint64_t lo = 0, hi = 0;
  bool operator==(const Hash128&) const = default;
};

// Everything but the tokens that cached keys and values depend on. Different keys never share.
struct CacheKey {
  uint64_t model = 0;  // ModelInfo::fingerprint, codecs and numerics version mixed in
  uint64_t adapter = 0;
  uint64_t salt = 0;  // who may share
  bool operator==(const CacheKey&) const = default;
};

// What stands at positions [pos, pos + len) besides token ids (an image, virtual tokens): part of the key from there
// on. Where it begins and ends counts too: under equal placeholder tokens an image may lie in different places.
struct Extra {
  int pos = 0, len = 0;
  Hash128 hash;
  bool operator==(const Extra&) const = default;
};

struct Prefix {
  std::span<const Token> tokens;
  CacheKey key;
  std::span<const Extra> extras;  // ascending by position
  int n_public = 0;               // leading tokens that are no secret: their whole blocks are under salt 0
};

// The references of one block of a sequence, one per KV group; those of groups with a window may be empty. In place: a
// table grows without allocating per block.
class GroupBlocks {
 public:
  static constexpr size_t kMaxGroups = 4;

  void push_back(BlockRef block) {
    QR_CHECK(n_ < kMaxGroups);
    blocks_[n_++] = std::move(block);
  }
  size_t size() const { return n_; }
  BlockRef& operator[](size_t g) { return blocks_[g]; }
  const BlockRef& operator[](size_t g) const { return blocks_[g]; }
  const BlockRef* begin() const { return blocks_.data(); }
  const BlockRef* end() const { return blocks_.data() + n_; }

 private:
  std::array<BlockRef, kMaxGroups> blocks_;
  size_t n_ = 0;
};

class PrefixTree {
 public:
  // A hash function of its own for tests that force collisions; null: XXH3 seeded at random per process.
  using HashFn = Hash128 (*)(const void* data, size_t bytes, uint64_t seed);

  struct Group {
    KvGroup kind;
    BlockPool* pool;  // outlives the tree
  };
  // REQUIRES the first group to be a full one.
  PrefixTree(std::vector<Group> groups, int block_tokens, HashFn hash = nullptr);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  using Blocks = GroupBlocks;

  // The longest known prefix of at most max_blocks whole blocks whose windows are whole: appends shared references,
  // block by block, behind those that `table` has, of groups with a window those that a row behind them reads. REQUIRES
  // what `table` has to come from match or insert with the same prefix.
  void match(const Prefix& prefix, int max_blocks, std::vector<Blocks>& table);

  // How many blocks match would find; takes nothing and counts as no use.
  int peek(const Prefix& prefix, int max_blocks) const;

  // Makes blocks [0, n_blocks) of `table` (table[b] = block b's references) findable. Where a block is known already,
  // the table's own reference is replaced by the known one: equal tokens have equal bits. Returns how many were. A node
  // that has lost its block of a window takes the table's. The first n_known are findable already: REQUIRES that match
  // or insert with the same prefix left them there.
  int insert(const Prefix& prefix, int n_blocks, std::vector<Blocks>& table, int n_known = 0);

  // Frees up to n_blocks blocks (of every group) that only the tree holds; returns how many.
  int evict(int n_blocks);
  // Frees up to n_blocks blocks of a group with a window, first given back first; the nodes stay. Returns how many.
  // Whoever slides past a block gives it back before those that the next of its past need.
  int evict_window(int group, int n_blocks);

  int n_nodes() const { return n_nodes_; }
  std::string check() const;  // empty when consistent

 private:
  static constexpr int32_t kNone = -1;
  struct Node {
    bool used = false;
    Hash128 hash;
    int32_t parent = kNone;  // kNone: a root's child
    CacheKey key;
    std::vector<Extra> extras;  // that reach into it
    Blocks blocks;              // empty where that of a window was evicted
    uint64_t last_used = 0;
    int32_t n_children = 0;
    int32_t place = kNone;  // in leaves_
  };

  Hash128 root_hash(const CacheKey& key) const;
  int n_public_blocks(const Prefix& prefix) const { return prefix.key.salt == 0 ? 0 : prefix.n_public / block_tokens_; }
  CacheKey key_of(const Prefix& prefix, int block) const;
  Hash128 block_hash(const Hash128& above, const Prefix& prefix, int block) const;
  std::span<const Token> tokens_of(const Prefix& prefix, int block) const;
  std::span<Token> tokens_of(int32_t node);
  Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  // The node of that hash, whatever it spells.
  int32_t look_up(const Hash128& hash) const;
  int32_t find(const Hash128& hash, int32_t parent, const Prefix& prefix, int block) const;
  void add(int32_t node, const Hash128& hash, int32_t parent, const Prefix& prefix, int block);
  void remove(int32_t node);
  void put_block(int32_t node, size_t group, const BlockRef& block);
  void drop_block(int32_t node, size_t group);
  void share_window(int32_t node, size_t group, BlockRef& mine);
  void touch(int32_t deepest);
  bool held_elsewhere(const Node& node) const;
  // Where a walk that has `table` goes on: the last node and its hash; false when that block is in no node.
  bool resume(const Prefix& prefix, const std::vector<Blocks>& table, int n_known, int32_t& node, Hash128& hash) const;
  // A walk down a path. Blocks [first_whole[g], depth) of group g are all there.
  struct Walk {
    int depth = 0;
    int32_t node = kNone;
    Hash128 hash;
    std::array<int, Blocks::kMaxGroups> first_whole{};
  };
  bool windows_whole(const Walk& at) const;
  // One block further; false where the path ends.
  bool step(const Prefix& prefix, Walk& at) const;

  size_t slot_of(const Hash128& hash) const;
  void index_slot(int32_t node);
  void free_slot(int32_t node);

  void push_leaf(int32_t node);
  void drop_leaf(int32_t node);
  void sift(size_t place);
  void put_leaf(size_t place, int32_t node);
  bool older(size_t a, size_t b) const { return at(leaves_[a]).last_used < at(leaves_[b]).last_used; }

  std::vector<Group> groups_;
  int block_tokens_;
  HashFn hash_;
  uint64_t seed_;
  uint64_t clock_ = 0;  // counts uses: a monotonic order that no clock change can upset
  int n_nodes_ = 0;
  std::vector<Node> nodes_;                   // by block of the first group
  std::vector<Token> tokens_;                 // what each spells
  std::vector<int32_t> slots_;                // open addressing by hash, half full at most; kNone: free
  std::vector<int32_t> leaves_;               // a heap, least recently used first
  std::vector<int32_t> held_;                 // scratch of evict
  std::vector<int32_t> path_;                 // scratch of match
  std::vector<std::vector<int32_t>> owners_;  // by group with a window and block: the node that has it, else kNone
};

}  // namespace quire
