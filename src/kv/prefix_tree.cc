#include "kv/prefix_tree.h"

#define XXH_INLINE_ALL  // the header only, no library to link
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>

namespace quire {
namespace {

Hash128 xxh3(const void* data, size_t bytes, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, seed);
  return {h.low64, h.high64};
}

// Extras that reach into positions [begin, end).
std::vector<Extra> extras_of(const Prefix& prefix, int begin, int end) {
  std::vector<Extra> out;
  for (const Extra& extra : prefix.extras) {
    if (extra.pos < end && extra.pos + extra.len > begin) out.push_back(extra);
  }
  return out;
}

}  // namespace

PrefixTree::PrefixTree(std::vector<Group> groups, int block_tokens, HashFn hash)
    : groups_(std::move(groups)), block_tokens_(block_tokens), hash_(hash != nullptr ? hash : xxh3) {
  QR_CHECK(!groups_.empty() && groups_.size() <= Blocks::kMaxGroups && groups_[0].kind == KvGroup{});
  std::random_device random;
  seed_ = (static_cast<uint64_t>(random()) << 32) | random();
  const auto n = static_cast<size_t>(groups_[0].pool->n_blocks());
  nodes_.resize(n);
  tokens_.resize(n * static_cast<size_t>(block_tokens));
  slots_.assign(std::bit_ceil(2 * n + 2), kNone);
  leaves_.reserve(n);
  held_.reserve(n);
  path_.reserve(n);
  owners_.resize(groups_.size());
  for (size_t g = 1; g < groups_.size(); ++g)
    owners_[g].assign(static_cast<size_t>(groups_[g].pool->n_blocks()), kNone);
}

PrefixTree::~PrefixTree() {
  for (const Node& node : nodes_) {
    for (size_t g = 0; node.used && g < groups_.size(); ++g) {
      if (node.blocks[g]) groups_[g].pool->set_indexed(node.blocks[g].id(), false);
    }
  }
}

Hash128 PrefixTree::root_hash(const CacheKey& key) const {
  const uint64_t words[] = {key.model, key.adapter, key.salt};
  return hash_(words, sizeof words, seed_);
}

std::span<const Token> PrefixTree::tokens_of(const Prefix& prefix, int block) const {
  const auto n = static_cast<size_t>(block_tokens_);
  return prefix.tokens.subspan(static_cast<size_t>(block) * n, n);
}

std::span<Token> PrefixTree::tokens_of(int32_t node) {
  const auto n = static_cast<size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<size_t>(node) * n, n);
}

CacheKey PrefixTree::key_of(const Prefix& prefix, int block) const {
  CacheKey key = prefix.key;
  if (block < n_public_blocks(prefix)) key.salt = 0;
  return key;
}

// Behind public blocks the salt enters, so that equal tokens of two tenants are two nodes there.
Hash128 PrefixTree::block_hash(const Hash128& above, const Prefix& prefix, int block) const {
  Hash128 parent = above;
  if (block > 0 && block == n_public_blocks(prefix)) {
    const uint64_t words[] = {above.lo, above.hi, prefix.key.salt};
    parent = hash_(words, sizeof words, seed_);
  }
  const std::span<const Token> tokens = tokens_of(prefix, block);
  Hash128 hash = hash_(tokens.data(), tokens.size_bytes(), parent.lo ^ seed_);
  hash.hi ^= parent.hi;
  const int begin = block * block_tokens_;
  for (const Extra& extra : extras_of(prefix, begin, begin + block_tokens_)) {
    const uint64_t words[] = {
        hash.lo,       hash.hi,      static_cast<uint64_t>(extra.pos), static_cast<uint64_t>(extra.len),
        extra.hash.lo, extra.hash.hi};
    hash = hash_(words, sizeof words, seed_);
  }
  return hash;
}

// --- by hash: linear probing; whoever is removed leaves no gap behind, those after it move up ---

size_t PrefixTree::slot_of(const Hash128& hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash.lo & mask;
  while (slots_[slot] != kNone && at(slots_[slot]).hash != hash) slot = (slot + 1) & mask;
  return slot;
}

int32_t PrefixTree::look_up(const Hash128& hash) const { return slots_[slot_of(hash)]; }

void PrefixTree::index_slot(int32_t node) { slots_[slot_of(at(node).hash)] = node; }

void PrefixTree::free_slot(int32_t node) {
  const size_t mask = slots_.size() - 1;
  size_t gap = slot_of(at(node).hash);
  for (size_t next = (gap + 1) & mask; slots_[next] != kNone; next = (next + 1) & mask) {
    const size_t home = at(slots_[next]).hash.lo & mask;
    if (((next - home) & mask) < ((next - gap) & mask)) continue;  // the gap lies before its home
    slots_[gap] = slots_[next];
    gap = next;
  }
  slots_[gap] = kNone;
}

int32_t PrefixTree::find(const Hash128& hash, int32_t parent, const Prefix& prefix, int block) const {
  const int32_t node = look_up(hash);
  if (node == kNone) return kNone;
  const int begin = block * block_tokens_;
  const auto tokens = tokens_of(prefix, block);
  const bool same = at(node).parent == parent && at(node).key == key_of(prefix, block) &&
                    std::equal(tokens.begin(), tokens.end(), tokens_.begin() + std::ptrdiff_t{node} * block_tokens_) &&
                    at(node).extras == extras_of(prefix, begin, begin + block_tokens_);
  return same ? node : kNone;
}

// --- leaves: a binary heap in which every node knows its place ---

void PrefixTree::put_leaf(size_t place, int32_t node) {
  leaves_[place] = node;
  at(node).place = static_cast<int32_t>(place);
}

// Restores the order around `place`.
void PrefixTree::sift(size_t place) {
  const auto exchange = [this](size_t a, size_t b) {
    const int32_t node = leaves_[a];
    put_leaf(a, leaves_[b]);
    put_leaf(b, node);
  };
  while (place > 0 && older(place, (place - 1) / 2)) {
    exchange(place, (place - 1) / 2);
    place = (place - 1) / 2;
  }
  while (true) {
    size_t least = place;
    for (const size_t child : {2 * place + 1, 2 * place + 2}) {
      if (child < leaves_.size() && older(child, least)) least = child;
    }
    if (least == place) return;
    exchange(place, least);
    place = least;
  }
}

void PrefixTree::push_leaf(int32_t node) {
  leaves_.push_back(node);
  at(node).place = static_cast<int32_t>(leaves_.size()) - 1;
  sift(leaves_.size() - 1);
}

void PrefixTree::drop_leaf(int32_t node) {
  const auto place = static_cast<size_t>(at(node).place);
  at(node).place = kNone;
  const int32_t last = leaves_.back();
  leaves_.pop_back();
  if (last == node) return;
  put_leaf(place, last);
  sift(place);
}

// A use of a path, from its deepest node up, so that a parent is always used later than its children.
void PrefixTree::touch(int32_t deepest) {
  for (int32_t node = deepest; node != kNone; node = at(node).parent) {
    at(node).last_used = ++clock_;
    if (at(node).place != kNone) sift(static_cast<size_t>(at(node).place));
  }
}

// --- walks ---

bool PrefixTree::resume(
    const Prefix& prefix, const std::vector<Blocks>& table, int n_known, int32_t& node, Hash128& hash) const {
  node = kNone;
  hash = root_hash(key_of(prefix, 0));
  if (n_known == 0) return true;
  node = table[static_cast<size_t>(n_known) - 1][0].id();
  hash = at(node).hash;
  return at(node).used;
}

bool PrefixTree::windows_whole(const Walk& at) const {
  for (size_t g = 1; g < groups_.size(); ++g) {
    if (at.first_whole[g] > groups_[g].kind.first_block(at.depth * block_tokens_, block_tokens_)) return false;
  }
  return true;
}

bool PrefixTree::step(const Prefix& prefix, Walk& walk) const {
  walk.hash = block_hash(walk.hash, prefix, walk.depth);
  walk.node = find(walk.hash, walk.node, prefix, walk.depth);
  if (walk.node == kNone) return false;
  ++walk.depth;
  for (size_t g = 1; g < groups_.size(); ++g) {
    if (!at(walk.node).blocks[g]) walk.first_whole[g] = walk.depth;
  }
  return true;
}

void PrefixTree::match(const Prefix& prefix, int max_blocks, std::vector<Blocks>& table) {
  const size_t n_have = table.size();
  Walk walk;
  walk.depth = static_cast<int>(n_have);
  if (!resume(prefix, table, walk.depth, walk.node, walk.hash)) return;
  for (size_t g = 1; g < groups_.size(); ++g) {
    size_t first = n_have;
    while (first > 0 && table[first - 1][g]) --first;
    walk.first_whole[g] = static_cast<int>(first);
  }
  int32_t deepest = walk.node;
  size_t n_best = n_have;
  path_.clear();
  while (walk.depth < max_blocks && step(prefix, walk)) {
    path_.push_back(walk.node);
    if (!windows_whole(walk)) continue;
    n_best = static_cast<size_t>(walk.depth);
    deepest = walk.node;
  }
  for (size_t b = n_have; b < n_best; ++b) {
    const Node& node = at(path_[b - n_have]);
    Blocks& blocks = table.emplace_back();
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int first = groups_[g].kind.first_block(static_cast<int>(n_best) * block_tokens_, block_tokens_);
      blocks.push_back(static_cast<int>(b) >= first ? node.blocks[g].share() : BlockRef());
    }
  }
  touch(deepest);
}

int PrefixTree::peek(const Prefix& prefix, int max_blocks) const {
  Walk walk;
  walk.hash = root_hash(key_of(prefix, 0));
  int n_best = 0;
  while (walk.depth < max_blocks && step(prefix, walk)) {
    if (windows_whole(walk)) n_best = walk.depth;
  }
  return n_best;
}

int PrefixTree::insert(const Prefix& prefix, int n_blocks, std::vector<Blocks>& table, int n_known) {
  int32_t parent = kNone;
  Hash128 hash;
  if (!resume(prefix, table, n_known, parent, hash)) return 0;  // private since a collision
  int n_replaced = 0;
  for (int b = n_known; b < n_blocks; ++b) {
    hash = block_hash(hash, prefix, b);
    int32_t node = find(hash, parent, prefix, b);
    Blocks& mine = table[static_cast<size_t>(b)];
    if (node == kNone && look_up(hash) != kNone) break;  // a collision: the rest of this path stays private
    if (node == kNone) {
      node = mine[0].id();
      add(node, hash, parent, prefix, b);
      put_block(node, 0, mine[0]);
    } else if (node != mine[0].id()) {
      mine[0] = at(node).blocks[0].share();
      ++n_replaced;
    }
    for (size_t g = 1; g < groups_.size(); ++g) share_window(node, g, mine[g]);
    parent = node;
  }
  touch(parent);
  return n_replaced;
}

void PrefixTree::put_block(int32_t node, size_t group, const BlockRef& block) {
  at(node).blocks[group] = block.share();
  groups_[group].pool->set_indexed(block.id(), true);
  if (group > 0) owners_[group][static_cast<size_t>(block.id())] = node;
}

void PrefixTree::drop_block(int32_t node, size_t group) {
  BlockRef& block = at(node).blocks[group];
  groups_[group].pool->set_indexed(block.id(), false);
  if (group > 0) owners_[group][static_cast<size_t>(block.id())] = kNone;
  block = BlockRef();
}

// The node and a sequence on its path have one block between them, where either has any.
void PrefixTree::share_window(int32_t node, size_t group, BlockRef& mine) {
  if (!mine) return;
  const BlockRef& known = at(node).blocks[group];
  if (!known) {
    put_block(node, group, mine);
  } else if (known.id() != mine.id()) {
    mine = known.share();
  }
}

void PrefixTree::add(int32_t id, const Hash128& hash, int32_t parent, const Prefix& prefix, int block) {
  Node& node = at(id);
  QR_DCHECK(!node.used);
  node.used = true;
  node.hash = hash;
  node.parent = parent;
  node.key = key_of(prefix, block);
  for (size_t g = 0; g < groups_.size(); ++g) node.blocks.push_back(BlockRef());
  node.last_used = ++clock_;
  const int begin = block * block_tokens_;
  node.extras = extras_of(prefix, begin, begin + block_tokens_);
  const auto tokens = tokens_of(prefix, block);
  std::copy(tokens.begin(), tokens.end(), tokens_of(id).begin());
  if (parent != kNone && at(parent).n_children++ == 0) drop_leaf(parent);
  push_leaf(id);
  index_slot(id);
  ++n_nodes_;
}

bool PrefixTree::held_elsewhere(const Node& node) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (node.blocks[g] && groups_[g].pool->n_refs(node.blocks[g].id()) > 1) return true;
  }
  return false;
}

// REQUIRES a leaf that is not in the heap any more.
void PrefixTree::remove(int32_t id) {
  free_slot(id);
  const int32_t parent = at(id).parent;
  if (parent != kNone && --at(parent).n_children == 0) push_leaf(parent);
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (at(id).blocks[g]) drop_block(id, g);
  }
  at(id) = Node{};
  --n_nodes_;
}

int PrefixTree::evict(int n_blocks) {
  int n_freed = 0;
  held_.clear();  // at most one leaf per running sequence
  while (n_freed < n_blocks && !leaves_.empty()) {
    const int32_t node = leaves_.front();
    drop_leaf(node);
    if (held_elsewhere(at(node))) {
      held_.push_back(node);
      continue;
    }
    remove(node);
    ++n_freed;
  }
  for (const int32_t node : held_) push_leaf(node);
  return n_freed;
}

int PrefixTree::evict_window(int group, int n_blocks) {
  const auto g = static_cast<size_t>(group);
  int n_freed = 0;
  for (; n_freed < n_blocks; ++n_freed) {
    const int32_t block = groups_[g].pool->oldest_cached();
    if (block < 0) break;
    drop_block(owners_[g][static_cast<size_t>(block)], g);
  }
  return n_freed;
}

std::string PrefixTree::check() const {
  std::vector<int32_t> n_children(nodes_.size());
  int n_used = 0;
  size_t n_leaves = 0;
  std::array<int64_t, Blocks::kMaxGroups> n_window{};
  for (const Node& node : nodes_) {
    if (node.used && node.parent != kNone) ++n_children[static_cast<size_t>(node.parent)];
  }
  for (size_t id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    if (!node.used) continue;
    ++n_used;
    if (node.n_children != n_children[id]) return "a node's children are miscounted";
    if (node.blocks.size() != groups_.size() || node.blocks[0].id() != static_cast<int32_t>(id))
      return "a node lacks blocks";
    for (size_t g = 1; g < groups_.size(); ++g) {
      if (!node.blocks[g]) continue;
      if (owners_[g][static_cast<size_t>(node.blocks[g].id())] != static_cast<int32_t>(id))
        return "a window's block does not know its node";
      ++n_window[g];
    }
    if (look_up(node.hash) != static_cast<int32_t>(id)) return "a node is not found by its hash";
    if (node.parent != kNone && !at(node.parent).used) return "a node's parent is gone";
    if (node.parent != kNone && at(node.parent).last_used < node.last_used) return "a parent is older than its child";
    const bool listed = node.place != kNone && leaves_[static_cast<size_t>(node.place)] == static_cast<int32_t>(id);
    if (listed != (node.n_children == 0)) return listed ? "a parent is listed as a leaf" : "a leaf is not listed";
    n_leaves += node.n_children == 0 ? 1 : 0;
  }
  for (size_t place = 1; place < leaves_.size(); ++place) {
    if (older(place, (place - 1) / 2)) return "the leaves are out of order";
  }
  for (size_t g = 1; g < groups_.size(); ++g) {
    const auto n_owned =
        std::count_if(owners_[g].begin(), owners_[g].end(), [](int32_t node) { return node != kNone; });
    if (n_owned != n_window[g]) return "a window's block has a node that is gone";
  }
  if (n_used != n_nodes_) return "the nodes are miscounted";
  return n_leaves == leaves_.size() ? "" : "the list of leaves has strangers";
}

}  // namespace quire
