#include "kv/prefix_tree.h"

#define XXH_INLINE_ALL  // the header only, no library to link
#include <xxhash.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/check.h"

namespace quire {
namespace {

Hash128 xxh3(const void* data, size_t bytes, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, seed);
  return {h.low64, h.high64};
}

}  // namespace

struct PrefixTree::Node {
  Hash128 hash;
  Node* parent = nullptr;  // null: a root's child
  CacheKey key;
  std::vector<Token> tokens;  // this block's
  std::vector<Extra> extras;  // that reach into it
  Blocks blocks;
  uint64_t last_used = 0;
  int n_children = 0;
};

PrefixTree::PrefixTree(std::vector<BlockPool*> pools, int block_tokens, HashFn hash)
    : pools_(std::move(pools)), block_tokens_(block_tokens), hash_(hash != nullptr ? hash : xxh3) {
  std::random_device random;
  seed_ = (static_cast<uint64_t>(random()) << 32) | random();
  if (!pools_.empty()) nodes_.reserve(static_cast<size_t>(pools_[0]->n_blocks()));  // never rehashed in a step
}

PrefixTree::~PrefixTree() {
  for (auto& entry : nodes_) {
    for (size_t g = 0; g < pools_.size(); ++g) pools_[g]->set_indexed(entry.second->blocks[g].id(), false);
  }
}

Hash128 PrefixTree::root_hash(const CacheKey& key) const {
  const uint64_t words[] = {key.model, key.adapter, key.salt};
  return hash_(words, sizeof words, seed_);
}

// Extras that reach into positions [begin, end).
static std::vector<Extra> extras_of(const Prefix& prefix, int begin, int end) {
  std::vector<Extra> out;
  for (const Extra& extra : prefix.extras) {
    if (extra.pos < end && extra.pos + extra.len > begin) out.push_back(extra);
  }
  return out;
}

Hash128 PrefixTree::block_hash(const Hash128& parent, const Prefix& prefix, int block) const {
  const int begin = block * block_tokens_;
  const std::span<const Token> tokens =
      prefix.tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(block_tokens_));
  Hash128 hash = hash_(tokens.data(), tokens.size_bytes(), parent.lo ^ seed_);
  hash.hi ^= parent.hi;
  for (const Extra& extra : extras_of(prefix, begin, begin + block_tokens_)) {
    const uint64_t words[] = {
        hash.lo,       hash.hi,      static_cast<uint64_t>(extra.pos), static_cast<uint64_t>(extra.len),
        extra.hash.lo, extra.hash.hi};
    hash = hash_(words, sizeof words, seed_);
  }
  return hash;
}

PrefixTree::Node* PrefixTree::find(const Hash128& hash, const Node* parent, const Prefix& prefix, int block) const {
  const auto at = nodes_.find(hash);
  if (at == nodes_.end()) return nullptr;
  Node& node = *at->second;
  const auto begin = static_cast<size_t>(block * block_tokens_);
  const auto tokens = prefix.tokens.subspan(begin, static_cast<size_t>(block_tokens_));
  const bool same = node.parent == parent && node.key == prefix.key &&
                    std::equal(tokens.begin(), tokens.end(), node.tokens.begin()) &&
                    node.extras == extras_of(prefix, static_cast<int>(begin), static_cast<int>(begin) + block_tokens_);
  return same ? &node : nullptr;
}

void PrefixTree::touch(Node& node) {
  if (node.n_children == 0) leaves_.erase({node.last_used, &node});
  node.last_used = ++clock_;
  if (node.n_children == 0) leaves_.insert({node.last_used, &node});
}

void PrefixTree::match(const Prefix& prefix, int max_blocks, std::vector<Blocks>& out) {
  Hash128 hash = root_hash(prefix.key);
  path_.clear();
  for (int b = 0; b < max_blocks; ++b) {
    hash = block_hash(hash, prefix, b);
    Node* node = find(hash, path_.empty() ? nullptr : path_.back(), prefix, b);
    if (node == nullptr) break;
    path_.push_back(node);
    Blocks& blocks = out.emplace_back();
    for (const BlockRef& block : node->blocks) blocks.push_back(block.share());
  }
  // Deepest first, so that a parent is always used later than its children.
  for (auto node = path_.rbegin(); node != path_.rend(); ++node) touch(**node);
}

int PrefixTree::peek(const Prefix& prefix, int max_blocks) const {
  Hash128 hash = root_hash(prefix.key);
  const Node* parent = nullptr;
  for (int b = 0; b < max_blocks; ++b) {
    hash = block_hash(hash, prefix, b);
    const Node* node = find(hash, parent, prefix, b);
    if (node == nullptr) return b;
    parent = node;
  }
  return max_blocks;
}

PrefixTree::Node* PrefixTree::add(const Hash128& hash, Node* parent, const Prefix& prefix, int block) {
  auto node = std::make_unique<Node>();
  const int begin = block * block_tokens_;
  const auto tokens = prefix.tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(block_tokens_));
  node->hash = hash;
  node->parent = parent;
  node->key = prefix.key;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->extras = extras_of(prefix, begin, begin + block_tokens_);
  if (parent != nullptr && parent->n_children++ == 0) leaves_.erase({parent->last_used, parent});
  leaves_.insert({0, node.get()});
  return nodes_.emplace(hash, std::move(node)).first->second.get();
}

int PrefixTree::insert(const Prefix& prefix, int n_blocks, std::vector<Blocks>& table) {
  Hash128 hash = root_hash(prefix.key);
  path_.clear();
  int n_replaced = 0;
  for (int b = 0; b < n_blocks; ++b) {
    hash = block_hash(hash, prefix, b);
    Node* parent = path_.empty() ? nullptr : path_.back();
    Node* node = find(hash, parent, prefix, b);
    Blocks& mine = table[static_cast<size_t>(b)];
    if (node == nullptr && nodes_.contains(hash)) break;  // a collision: the rest of this path stays private
    if (node == nullptr) {
      node = add(hash, parent, prefix, b);
      for (size_t g = 0; g < mine.size(); ++g) {
        node->blocks.push_back(mine[g].share());
        pools_[g]->set_indexed(mine[g].id(), true);
      }
    } else if (node->blocks[0].id() != mine[0].id()) {
      for (size_t g = 0; g < mine.size(); ++g) mine[g] = node->blocks[g].share();
      ++n_replaced;
    }
    path_.push_back(node);
  }
  for (auto node = path_.rbegin(); node != path_.rend(); ++node) touch(**node);
  return n_replaced;
}

bool PrefixTree::held_elsewhere(const Node& node) const {
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (pools_[g]->n_refs(node.blocks[g].id()) > 1) return true;
  }
  return false;
}

void PrefixTree::remove(Node& node) {
  leaves_.erase({node.last_used, &node});
  if (node.parent != nullptr && --node.parent->n_children == 0) leaves_.insert({node.parent->last_used, node.parent});
  for (size_t g = 0; g < pools_.size(); ++g) pools_[g]->set_indexed(node.blocks[g].id(), false);
  nodes_.erase(Hash128(node.hash));
}

int PrefixTree::evict(int n_blocks) {
  int n_freed = 0;
  for (auto at = leaves_.begin(); at != leaves_.end() && n_freed < n_blocks;) {
    Node& node = *at->second;
    ++at;
    if (held_elsewhere(node)) continue;  // at most one such leaf per running sequence
    // Where this was an only child its parent becomes a leaf, later in the order but perhaps before the next one.
    Node* parent = node.parent != nullptr && node.parent->n_children == 1 ? node.parent : nullptr;
    remove(node);
    ++n_freed;
    if (parent == nullptr) continue;
    const auto listed = leaves_.find({parent->last_used, parent});
    if (at == leaves_.end() || *listed < *at) at = listed;
  }
  return n_freed;
}

std::string PrefixTree::check() const {
  size_t n_leaves = 0;
  std::unordered_map<const Node*, int> children;
  for (const auto& entry : nodes_) {
    if (entry.second->parent != nullptr) ++children[entry.second->parent];
  }
  for (const auto& entry : nodes_) {
    const Node& node = *entry.second;
    const auto counted = children.find(&node);
    if (node.n_children != (counted == children.end() ? 0 : counted->second)) return "a node's children are miscounted";
    if (node.n_children == 0 && !leaves_.contains({node.last_used, entry.second.get()})) return "a leaf is not listed";
    n_leaves += node.n_children == 0 ? 1 : 0;
    if (node.parent != nullptr && node.parent->last_used < node.last_used) return "a parent is older than its child";
    if (node.blocks.size() != pools_.size()) return "a node lacks blocks";
  }
  return n_leaves == leaves_.size() ? "" : "the list of leaves has strangers";
}

}  // namespace quire
