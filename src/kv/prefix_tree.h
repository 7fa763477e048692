// What has been computed, by the tokens that led to it: a tree whose nodes are whole blocks. A path from a root spells
// a prefix; requests that share a prefix share its blocks.
//
//   root(key) ── [the quick brown …] ── [fox jumps …] ── [over …]
//                                    └─ [dog sleeps …]
//
// Nodes are found by a 128-bit hash chained along the path, so matching n tokens costs n / block_tokens lookups; the
// tokens themselves are compared on every hit, so a collision is a miss and never a wrong answer. Leaves that nobody
// else holds are evicted, least recently used first (a parent is used whenever its child is, so leaves go first).
// Engine thread only. Source: radix attention (SGLang), hashed whole blocks (vLLM).
#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "kv/block_pool.h"

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
};

class PrefixTree {
 public:
  // A hash function of its own for tests that force collisions; null: XXH3 seeded at random per process.
  using HashFn = Hash128 (*)(const void* data, size_t bytes, uint64_t seed);

  // `pools`: one per KV group, outlive the tree.
  PrefixTree(std::vector<BlockPool*> pools, int block_tokens, HashFn hash = nullptr);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  using Blocks = std::vector<BlockRef>;  // one per group

  // The longest known prefix of at most max_blocks whole blocks: appends shared references, block by block.
  void match(const Prefix& prefix, int max_blocks, std::vector<Blocks>& out);

  // How many blocks match would find; takes nothing and counts as no use.
  int peek(const Prefix& prefix, int max_blocks) const;

  // Makes blocks [0, n_blocks) of `table` (table[b] = block b's references) findable. Where a block is known already,
  // the table's own reference is replaced by the known one: equal tokens have equal bits. Returns how many were.
  int insert(const Prefix& prefix, int n_blocks, std::vector<Blocks>& table);

  // Frees up to n_blocks blocks (of every group) that only the tree holds; returns how many.
  int evict(int n_blocks);

  int n_nodes() const { return static_cast<int>(nodes_.size()); }
  std::string check() const;  // empty when consistent

 private:
  struct Node;
  struct HashOf {
    size_t operator()(const Hash128& h) const { return h.lo; }
  };

  Hash128 root_hash(const CacheKey& key) const;
  Hash128 block_hash(const Hash128& parent, const Prefix& prefix, int block) const;
  Node* find(const Hash128& hash, const Node* parent, const Prefix& prefix, int block) const;
  Node* add(const Hash128& hash, Node* parent, const Prefix& prefix, int block);
  void touch(Node& node);
  bool held_elsewhere(const Node& node) const;
  void remove(Node& node);

  std::vector<BlockPool*> pools_;
  int block_tokens_;
  HashFn hash_;
  uint64_t seed_;
  uint64_t clock_ = 0;  // counts uses: a monotonic order that no clock change can upset
  std::unordered_map<Hash128, std::unique_ptr<Node>, HashOf> nodes_;
  std::set<std::pair<uint64_t, Node*>> leaves_;  // by last use
  std::vector<Node*> path_;                      // scratch: the nodes that a walk from the root met
};

}  // namespace quire
