// The prefix tree towards a tier below memory: nodes that are known without a block, and how they get one again.
#include <algorithm>

#include "kv/prefix_tree.h"

namespace quire {

PrefixTree::Missing PrefixTree::missing(const Prefix& prefix, int max_blocks, const std::vector<Blocks>& table) const {
  Missing out;
  Walk walk;
  if (n_elsewhere_ == 0 && n_loading_ == 0) return out;
  if (!resume(prefix, table, static_cast<int>(table.size()), walk)) return out;
  size_t n_useful = 0;
  while (walk.depth < max_blocks && step(prefix, walk, true)) {
    const NodeState state = nodes_[walk.node].state;
    if (state == NodeState::resident) {
      out.between.push_back(walk.node);
      continue;
    }
    if (state == NodeState::loading) {
      out.loading = true;
      return out;
    }
    out.nodes.push_back(walk.node);
    if (windows_whole(walk)) n_useful = out.nodes.size();
  }
  out.nodes.resize(n_useful);
  return out;
}

void PrefixTree::load(int32_t node, const Blocks& blocks) {
  QR_CHECK(nodes_[node].state == NodeState::elsewhere);
  enter_memory(node, NodeState::loading);
  ++n_loading_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (blocks[g]) put_block(node, g, blocks[g]);
  }
}

void PrefixTree::arrived(int32_t block) {
  const int32_t id = loading_into(block);
  if (id == kNone) return;
  Node& node = nodes_[id];
  QR_CHECK(node.parent == kNone || nodes_[node.parent].state == NodeState::resident);
  node.state = NodeState::resident;
  --n_loading_;
  make_resident(id);
}

void PrefixTree::give_up(int32_t block) {
  const int32_t id = loading_into(block);
  if (id != kNone) go_elsewhere(id);
}

void PrefixTree::lost(int32_t block) {
  const int32_t id = loading_into(block);
  if (id != kNone) remove_tree(id);
}

int32_t PrefixTree::loading_into(int32_t block) const {
  const int32_t id = owner(block);
  return id != kNone && nodes_[id].state == NodeState::loading ? id : kNone;
}

// A node's blocks leave memory, and those of what loads below it: a chain, for a load goes down one path.
void PrefixTree::go_elsewhere(int32_t top) {
  int32_t id = top;
  for (int32_t child = nodes_[id].first_child; child != kNone;) {
    if (in_memory(nodes_[child])) {
      id = child;
      child = nodes_[id].first_child;
    } else {
      child = nodes_[child].after;
    }
  }
  while (true) {
    Node& node = nodes_[id];
    const int32_t parent = node.parent;
    if (node.state == NodeState::resident) {
      node.groups = 0;
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (node.blocks[g]) node.groups = static_cast<uint8_t>(node.groups | 1U << g);
      }
    } else {
      --n_loading_;
    }
    leave_memory(id);
    drop_blocks(id);
    node.state = NodeState::elsewhere;
    node.rank = 0;
    ++n_elsewhere_;
    if (node.first_child == kNone) far_leaves_.push(id);
    if (n_elsewhere_ > options_.n_elsewhere) forget_oldest();
    if (id == top) return;
    id = parent;
  }
}

void PrefixTree::forget_oldest() {
  const int32_t id = far_leaves_.front();
  far_leaves_.drop(id);
  remove(id);
}

int PrefixTree::learn(const Prefix& prefix, int begin, std::span<const uint8_t> groups) {
  Walk walk;
  walk.hash = hasher_.root(cut(prefix).key(0));
  int n_known = 0;
  const int end = begin + static_cast<int>(groups.size());
  while (walk.depth < end) {
    const int b = walk.depth;
    walk.hash = hasher_.block(walk.hash, cut(prefix), b);
    int32_t id = find(walk.hash, walk.node, prefix, b);
    if (id == kNone) {
      if (b < begin || nodes_.look_up(walk.hash) != kNone || !room_below(walk.node)) break;
      id = add(walk.hash, walk.node, prefix, b);
      nodes_[id].state = NodeState::elsewhere;
      ++n_elsewhere_;
      far_leaves_.push(id);
    }
    walk.node = id;
    ++walk.depth;
    if (b < begin) continue;
    ++n_known;
    Node& node = nodes_[id];
    if (node.state == NodeState::elsewhere) {
      node.groups = static_cast<uint8_t>(node.groups | groups[static_cast<size_t>(b - begin)]);
    }
  }
  touch(walk.node);
  return n_known;
}

// Whether there is, or can be made, room for one more node elsewhere, without forgetting the one that it would be
// under.
bool PrefixTree::room_below(int32_t parent) {
  if (n_elsewhere_ < options_.n_elsewhere) return true;
  if (far_leaves_.empty() || far_leaves_.front() == parent) return false;
  forget_oldest();
  return true;
}

std::vector<Hash128> PrefixTree::names(const Prefix& prefix, int n_blocks) const {
  std::vector<Hash128> out;
  Hash128 above = names_.root(cut(prefix).key(0));
  for (int b = 0; b < n_blocks; ++b) out.push_back(above = names_.block(above, cut(prefix), b));
  return out;
}

// --- consistency ---

std::string PrefixTree::check_node(int32_t id) const {
  const Node& node = nodes_[id];
  const bool resident = node.state == NodeState::resident;
  int32_t n_in_memory = 0;
  for (int32_t child = node.first_child; child != kNone; child = nodes_[child].after) {
    n_in_memory += in_memory(nodes_[child]) ? 1 : 0;
    if (nodes_[child].last_used > node.last_used) return "a parent is older than its child";
    if (in_memory(nodes_[child]) && !in_memory(node)) return "a node is in memory, its parent is not";
    if (nodes_[child].state == NodeState::resident && !resident) return "a resident node's parent is not";
  }
  if (node.n_in_memory != n_in_memory) return "a node's children in memory are miscounted";
  if (node.blocks.size() != groups_.size() || node.blocks[0].operator bool() != in_memory(node))
    return "a node lacks blocks, or has some that it should not have";
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (node.blocks[g] && owners_[g][static_cast<size_t>(node.blocks[g].id())] != id)
      return "a block does not know its node";
    if (node.blocks[g] && !in_memory(node)) return "a node elsewhere has a block";
  }
  const bool leaf = resident && n_in_memory == 0;
  if (leaves_->lists(id) != leaf) return leaf ? "a leaf is not listed" : "a parent is listed as a leaf";
  const bool far = node.state == NodeState::elsewhere && node.first_child == kNone;
  if (far_leaves_.lists(id) != far) return far ? "a far leaf is not listed" : "a stranger is a far leaf";
  return "";
}

std::string PrefixTree::check() const {
  std::string fault = nodes_.check();
  std::array<int64_t, Blocks::kMaxGroups> n_blocks{};
  int n_far = 0, n_loading = 0;
  size_t n_leaves = 0, n_far_leaves = 0;
  for (int32_t id = 0; id < nodes_.capacity() && fault.empty(); ++id) {
    const Node& node = nodes_[id];
    if (node.state == NodeState::unused) continue;
    fault = check_node(id);
    n_far += node.state == NodeState::elsewhere ? 1 : 0;
    n_loading += node.state == NodeState::loading ? 1 : 0;
    n_leaves += node.state == NodeState::resident && node.n_in_memory == 0 ? 1 : 0;
    n_far_leaves += node.state == NodeState::elsewhere && node.first_child == kNone ? 1 : 0;
    for (size_t g = 0; g < groups_.size(); ++g) n_blocks[g] += node.blocks[g] ? 1 : 0;
  }
  if (!fault.empty()) return fault;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto n_owned =
        std::count_if(owners_[g].begin(), owners_[g].end(), [](int32_t node) { return node != kNone; });
    if (n_owned != n_blocks[g]) return "a block has a node that is gone";
  }
  if (n_far != n_elsewhere_ || n_loading != n_loading_) return "the nodes of a state are miscounted";
  if (n_elsewhere_ > options_.n_elsewhere) return "more nodes are elsewhere than are allowed";
  if (n_leaves != leaves_->n_leaves() || n_far_leaves != far_leaves_.size()) return "a list of leaves has strangers";
  return leaves_->check() + far_leaves_.check() + retentions_.check();
}

}  // namespace quire
