#include "kv/node_table.h"

#include <bit>

namespace quire {

NodeTable::NodeTable(int n_nodes, int block_tokens) : block_tokens_(static_cast<size_t>(block_tokens)) {
  const auto n = static_cast<size_t>(n_nodes);
  nodes_.resize(n);
  tokens_.resize(n * block_tokens_);
  slots_.assign(std::bit_ceil(2 * n + 2), kNone);
  free_.reserve(n);
  for (int id = n_nodes - 1; id >= 0; --id) free_.push_back(id);
}

std::span<Token> NodeTable::tokens(int32_t id) {
  return std::span(tokens_).subspan(static_cast<size_t>(id) * block_tokens_, block_tokens_);
}

std::span<const Token> NodeTable::tokens(int32_t id) const {
  return std::span(tokens_).subspan(static_cast<size_t>(id) * block_tokens_, block_tokens_);
}

int32_t NodeTable::add(const Hash128& hash, int32_t parent) {
  QR_CHECK(!free_.empty());
  const int32_t id = free_.back();
  free_.pop_back();
  Node& node = (*this)[id];
  node.hash = hash;
  node.parent = parent;
  if (parent != kNone) node.depth = (*this)[parent].depth + 1;
  node.after = std::exchange(list_below(parent), id);
  if (node.after != kNone) (*this)[node.after].before = id;
  slots_[slot_of(hash)] = id;
  return id;
}

void NodeTable::remove(int32_t id) {
  Node& node = (*this)[id];
  QR_DCHECK(node.first_child == kNone);
  free_slot(id);
  if (node.after != kNone) (*this)[node.after].before = node.before;
  if (node.before != kNone) {
    (*this)[node.before].after = node.after;
  } else {
    list_below(node.parent) = node.after;
  }
  node = Node{};
  free_.push_back(id);
}

// --- by hash: linear probing; whoever is removed leaves no gap behind, those after it move up ---

size_t NodeTable::slot_of(const Hash128& hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash.lo & mask;
  while (slots_[slot] != kNone && (*this)[slots_[slot]].hash != hash) slot = (slot + 1) & mask;
  return slot;
}

void NodeTable::free_slot(int32_t id) {
  const size_t mask = slots_.size() - 1;
  size_t gap = slot_of((*this)[id].hash);
  for (size_t next = (gap + 1) & mask; slots_[next] != kNone; next = (next + 1) & mask) {
    const size_t home = (*this)[slots_[next]].hash.lo & mask;
    if (((next - home) & mask) < ((next - gap) & mask)) continue;  // the gap lies before its home
    slots_[gap] = slots_[next];
    gap = next;
  }
  slots_[gap] = kNone;
}

std::string NodeTable::check() const {
  std::vector<int32_t> n_children(nodes_.size());
  int n_used = 0, n_roots = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.state == NodeState::unused) continue;
    ++n_used;
    if (look_up(node.hash) != static_cast<int32_t>(i)) return "a node is not found by its hash";
    n_roots += node.parent == kNone ? 1 : 0;
    if (node.parent == kNone) continue;
    if ((*this)[node.parent].state == NodeState::unused) return "a node's parent is gone";
    ++n_children[static_cast<size_t>(node.parent)];
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    int32_t n_linked = 0;
    int32_t before = kNone;
    for (int32_t child = nodes_[i].first_child; child != kNone; child = (*this)[child].after) {
      if ((*this)[child].parent != static_cast<int32_t>(i) || (*this)[child].before != before)
        return "a child is linked wrongly";
      before = child;
      ++n_linked;
    }
    if (n_linked != n_children[i]) return "a node's children are miscounted";
  }
  int32_t before = kNone;
  for (int32_t root = first_root_; root != kNone; root = (*this)[root].after) {
    if ((*this)[root].parent != kNone || (*this)[root].before != before || n_roots-- == 0)
      return "a root is linked wrongly";
    before = root;
  }
  if (n_roots != 0) return "the roots are miscounted";
  return n_used == size() ? "" : "the nodes are miscounted";
}

}  // namespace quire
