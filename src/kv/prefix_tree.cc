#include "kv/prefix_tree.h"

#include <algorithm>

namespace quire {

namespace {

std::vector<PrefixTree::Group> checked(std::vector<PrefixTree::Group> groups) {
  QR_CHECK(!groups.empty() && groups.size() <= GroupBlocks::kMaxGroups && groups[0].kind == KvGroup{});
  return groups;
}

std::unique_ptr<KvPolicy> make_policy(const std::string& name, const KvPolicyEnv& env) {
  const KvPolicyEntry* entry = Registry<KvPolicyEntry>::get().find(name);
  QR_CHECK(entry != nullptr, "no policy of this name: " + name);
  return entry->make(env);
}

}  // namespace

PrefixTree::PrefixTree(std::vector<Group> groups, int block_tokens, PrefixTreeOptions options)
    : groups_(checked(std::move(groups))),
      block_tokens_(block_tokens),
      options_(std::move(options)),
      hasher_(PathHasher::of_process(options_.hash)),
      names_(PathHasher::of_names()),
      nodes_(groups_[0].pool->n_blocks() + options_.n_elsewhere, block_tokens),
      departures_(options_.n_departures),
      retentions_(nodes_, options_.retention),
      leaves_(make_policy(options_.policy, {nodes_, groups_[0].pool->n_blocks(), block_tokens})),
      far_leaves_(nodes_, options_.n_elsewhere + 1) {
  const auto n = static_cast<size_t>(groups_[0].pool->n_blocks());
  held_.reserve(n);
  path_.reserve(n);
  owners_.resize(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g)
    owners_[g].assign(static_cast<size_t>(groups_[g].pool->n_blocks()), kNone);
}

PrefixTree::~PrefixTree() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t block = 0; block < owners_[g].size(); ++block) {
      if (owners_[g][block] != kNone) groups_[g].pool->set_indexed(static_cast<int32_t>(block), false);
    }
  }
}

int32_t PrefixTree::find(const Hash128& hash, int32_t parent, const Prefix& prefix, int block) const {
  const int32_t id = nodes_.look_up(hash);
  if (id == kNone) return kNone;
  const Node& node = nodes_[id];
  const PrefixBlocks blocks = cut(prefix);
  const bool same = node.parent == parent && node.key == blocks.key(block) &&
                    std::ranges::equal(blocks.tokens(block), nodes_.tokens(id)) && node.extras == blocks.extras(block);
  return same ? id : kNone;
}

// A use of a path, from its deepest node up, so that a parent is always used later than its children.
void PrefixTree::touch(int32_t deepest) {
  for (int32_t id = deepest; id != kNone; id = nodes_[id].parent) {
    Node& node = nodes_[id];
    node.last_used = ++clock_;
    if (node.place == kNone) continue;
    node.state == NodeState::elsewhere ? far_leaves_.was_used(id) : leaves_->was_used(id);
  }
}

// --- walks ---

bool PrefixTree::resume(const Prefix& prefix, const std::vector<Blocks>& table, int n_known, Walk& walk) const {
  walk.depth = n_known;
  walk.hash = hasher_.root(cut(prefix).key(0));
  if (n_known == 0) return true;
  walk.node = owner(table[static_cast<size_t>(n_known) - 1][0].id());
  if (walk.node == kNone) return false;
  walk.hash = nodes_[walk.node].hash;
  for (size_t g = 1; g < groups_.size(); ++g) {
    walk.lacks_kept[g] = false;
    for (int b = 0; b < std::min(kept_blocks(g), n_known); ++b) {
      walk.lacks_kept[g] |= !table[static_cast<size_t>(b)][g];
    }
    int first = n_known;
    while (first > 0 && table[static_cast<size_t>(first) - 1][g]) --first;
    walk.first_whole[g] = first;
  }
  return true;
}

bool PrefixTree::windows_whole(const Walk& at) const {
  for (size_t g = 1; g < groups_.size(); ++g) {
    if (at.lacks_kept[g]) return false;
    if (at.first_whole[g] > groups_[g].kind.first_block(at.depth * block_tokens_, block_tokens_)) return false;
  }
  return true;
}

bool PrefixTree::step(const Prefix& prefix, Walk& walk, bool beyond) const {
  walk.hash = hasher_.block(walk.hash, cut(prefix), walk.depth);
  walk.node = find(walk.hash, walk.node, prefix, walk.depth);
  if (walk.node == kNone) return false;
  const Node& node = nodes_[walk.node];
  if (!beyond && node.state != NodeState::resident) return false;
  ++walk.depth;
  for (size_t g = 1; g < groups_.size(); ++g) {
    if (has(node, g)) continue;
    walk.first_whole[g] = walk.depth;
    walk.lacks_kept[g] = walk.lacks_kept[g] || walk.depth <= kept_blocks(g);
  }
  return true;
}

void PrefixTree::match(const Prefix& prefix, int max_blocks, std::vector<Blocks>& table) {
  const size_t n_have = table.size();
  Walk walk;
  if (!resume(prefix, table, static_cast<int>(n_have), walk)) return;
  int32_t deepest = walk.node;
  size_t n_best = n_have;
  path_.clear();
  while (walk.depth < max_blocks && step(prefix, walk, false)) {
    path_.push_back(walk.node);
    if (!windows_whole(walk)) continue;
    n_best = static_cast<size_t>(walk.depth);
    deepest = walk.node;
  }
  for (size_t b = n_have; b < n_best; ++b) {
    const int32_t id = path_[b - n_have];
    const Node& node = nodes_[id];
    leaves_->found(id);
    Blocks& blocks = table.emplace_back();
    for (size_t g = 0; g < groups_.size(); ++g) {
      const bool is_read =
          groups_[g].kind.reads(static_cast<int>(b), static_cast<int>(n_best) * block_tokens_, block_tokens_);
      blocks.push_back(is_read ? node.blocks[g].share() : BlockRef());
    }
  }
  touch(deepest);
}

// To where match would end.
PrefixTree::Walk PrefixTree::walk_matched(const Prefix& prefix, int max_blocks) const {
  Walk walk;
  walk.hash = hasher_.root(cut(prefix).key(0));
  Walk best = walk;
  while (walk.depth < max_blocks && step(prefix, walk, false)) {
    if (windows_whole(walk)) best = walk;
  }
  return best;
}

int PrefixTree::peek(const Prefix& prefix, int max_blocks) const { return walk_matched(prefix, max_blocks).depth; }

int PrefixTree::insert(const Prefix& prefix, int n_blocks, std::vector<Blocks>& table, int n_known) {
  Walk walk;
  if (!resume(prefix, table, n_known, walk)) return 0;  // private since a collision
  int n_replaced = 0;
  for (int b = n_known; b < n_blocks; ++b) {
    walk.hash = hasher_.block(walk.hash, cut(prefix), b);
    int32_t node = find(walk.hash, walk.node, prefix, b);
    Blocks& mine = table[static_cast<size_t>(b)];
    if (node == kNone && nodes_.look_up(walk.hash) != kNone) break;  // a collision: the rest of this path stays private
    const bool fresh = node == kNone || nodes_[node].state != NodeState::resident;
    if (fresh) {
      node = ready_for_blocks(node, walk.hash, walk.node, prefix, b);
      enter_memory(node, NodeState::resident);
      make_resident(node);
      put_block(node, 0, mine[0]);
    } else if (owner(mine[0].id()) != node) {
      mine[0] = nodes_[node].blocks[0].share();
      ++n_replaced;
    }
    for (size_t g = 1; g < groups_.size(); ++g) {
      if (!groups_[g].kind.is_private) share_window(node, g, mine[g]);
    }
    if (fresh && options_.computed) options_.computed(view_of(node));
    walk.node = node;
  }
  touch(walk.node);
  return n_replaced;
}

// A node without blocks for what was computed: a new one, or one whose own were elsewhere or on their way.
int32_t PrefixTree::ready_for_blocks(
    int32_t node, const Hash128& hash, int32_t parent, const Prefix& prefix, int block) {
  if (node != kNone && nodes_[node].state == NodeState::loading) {
    go_elsewhere(node);
    node = find(hash, parent, prefix, block);  // it may have been forgotten at once
  }
  if (node == kNone) node = add(hash, parent, prefix, block);
  return node;
}

// --- nodes ---

// A node in no state yet.
int32_t PrefixTree::add(const Hash128& hash, int32_t parent, const Prefix& prefix, int block) {
  const PrefixBlocks blocks = cut(prefix);
  if (parent != kNone && far_leaves_.lists(parent)) far_leaves_.drop(parent);
  const int32_t id = nodes_.add(hash, parent);
  Node& node = nodes_[id];
  node.key = blocks.key(block);
  node.whose = prefix.whose;
  node.name = names_.block(parent == kNone ? names_.root(node.key) : nodes_[parent].name, blocks, block);
  node.extras = blocks.extras(block);
  for (size_t g = 0; g < groups_.size(); ++g) node.blocks.push_back(BlockRef());
  node.last_used = ++clock_;
  std::ranges::copy(blocks.tokens(block), nodes_.tokens(id).begin());
  return id;
}

void PrefixTree::enter_memory(int32_t id, NodeState state) {
  Node& node = nodes_[id];
  if (node.state == NodeState::elsewhere) {
    --n_elsewhere_;
    if (node.place != kNone) far_leaves_.drop(id);
  }
  node.state = state;
  if (node.parent != kNone && nodes_[node.parent].n_in_memory++ == 0 && leaves_->lists(node.parent))
    leaves_->drop(node.parent);
}

// Its bytes are there. It may be a leaf now.
void PrefixTree::make_resident(int32_t id) {
  leaves_->entered(id);
  if (nodes_[id].n_in_memory == 0) leaves_->push(id);
}

// What in_memory() said of the node holds no more; the parent may be a leaf now.
void PrefixTree::leave_memory(int32_t id) {
  retentions_.forget(id);
  nodes_[id].priority = kUsualPriority;
  const int32_t parent = nodes_[id].parent;
  if (parent == kNone || --nodes_[parent].n_in_memory > 0) return;
  if (nodes_[parent].state == NodeState::resident) leaves_->push(parent);
}

void PrefixTree::put_block(int32_t node, size_t group, const BlockRef& block) {
  nodes_[node].blocks[group] = block.share();
  groups_[group].pool->set_indexed(block.id(), true);
  owners_[group][static_cast<size_t>(block.id())] = node;
}

void PrefixTree::drop_block(int32_t node, size_t group) {
  BlockRef& block = nodes_[node].blocks[group];
  groups_[group].pool->set_indexed(block.id(), false);
  owners_[group][static_cast<size_t>(block.id())] = kNone;
  block = BlockRef();
}

void PrefixTree::drop_blocks(int32_t node) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (nodes_[node].blocks[g]) drop_block(node, g);
  }
}

// The node and a sequence on its path have one block between them, where either has any.
void PrefixTree::share_window(int32_t node, size_t group, BlockRef& mine) {
  if (!mine) return;
  const BlockRef& known = nodes_[node].blocks[group];
  if (!known) {
    put_block(node, group, mine);
  } else if (known.id() != mine.id()) {
    mine = known.share();
  }
}

// REQUIRES no children, and a node that is in no heap.
void PrefixTree::remove(int32_t id) {
  const int32_t parent = nodes_[id].parent;
  if (in_memory(nodes_[id])) leave_memory(id);
  n_elsewhere_ -= nodes_[id].state == NodeState::elsewhere ? 1 : 0;
  n_loading_ -= nodes_[id].state == NodeState::loading ? 1 : 0;
  drop_blocks(id);
  nodes_.remove(id);
  if (parent == kNone || nodes_[parent].first_child != kNone) return;
  if (nodes_[parent].state == NodeState::elsewhere) far_leaves_.push(parent);
}

void PrefixTree::unlist(int32_t id) {
  if (nodes_[id].place == kNone) return;
  nodes_[id].state == NodeState::elsewhere ? far_leaves_.drop(id) : leaves_->drop(id);
}

// With all below it, leaf by leaf. REQUIRES none of it to be held by a sequence.
void PrefixTree::remove_tree(int32_t top) {
  while (true) {
    int32_t id = top;
    while (nodes_[id].first_child != kNone) id = nodes_[id].first_child;
    unlist(id);
    remove(id);
    if (id == top) return;
  }
}

// --- what leaves ---

bool PrefixTree::held_by_others(const Node& node) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (node.blocks[g] && groups_[g].pool->n_refs(node.blocks[g].id()) > 1) return true;
  }
  return false;
}

// REQUIRES blocks.
LeavingBlock PrefixTree::view_of(int32_t id) const {
  static constexpr Hash128 kNoParent;
  const Node& node = nodes_[id];
  const Hash128& parent = node.parent == kNone ? kNoParent : nodes_[node.parent].name;
  return {node.name, node.key, parent, nodes_.tokens(id), node.extras, node.blocks};
}

bool PrefixTree::keep(int32_t id) const {
  return options_.keep && options_.keep(view_of(id)) && options_.n_elsewhere > 0;
}

// `id` or a window's part of it leaves memory for that.
void PrefixTree::remember(int32_t id, const Occasion& occasion) {
  if (options_.n_departures == 0) return;
  departures_.put(nodes_[id].name, {occasion.now_ns, nodes_[id].whose, occasion.whose});
}

int PrefixTree::evict(int n_blocks, const Occasion& occasion) {
  int n_freed = 0;
  held_.clear();  // at most one leaf per running sequence
  while (n_freed < n_blocks && leaves_->n_leaves() > 0) {
    const int32_t node = leaves_->first();
    leaves_->drop(node);
    if (held_by_others(nodes_[node])) {
      held_.push_back(node);
      continue;
    }
    leaves_->left(node);
    remember(node, occasion);
    keep(node) ? go_elsewhere(node) : remove_tree(node);
    ++n_freed;
  }
  for (const int32_t node : held_) leaves_->push(node);
  return n_freed;
}

void PrefixTree::drop_unheld(int32_t block, size_t group) {
  const int32_t node = owner(block);
  if (node == kNone || !nodes_[node].blocks[group]) return;
  if (groups_[group].pool->n_refs(nodes_[node].blocks[group].id()) == 1) drop_block(node, group);
}

int PrefixTree::evict_window(int group, int n_blocks, const Occasion& occasion) {
  const auto g = static_cast<size_t>(group);
  BlockPool& pool = *groups_[g].pool;
  int n_freed = 0;
  for (; n_freed < n_blocks; ++n_freed) {
    int32_t block = pool.oldest_cached();
    if (block < 0) break;
    int32_t node = owners_[g][static_cast<size_t>(block)];
    // Those that are to stay go to the end of the row, once around at most.
    for (int n = pool.n_cached(); n > 0 && nodes_[node].priority > kUsualPriority; --n) {
      pool.renew_cached(block);
      block = pool.oldest_cached();
      node = owners_[g][static_cast<size_t>(block)];
    }
    remember(node, occasion);
    drop_block(node, g);
  }
  return n_freed;
}

}  // namespace quire
