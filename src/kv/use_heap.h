// Nodes by priority, of one priority by rank, and of one rank by last use, the longest unused in front: a binary heap
// in which every node knows its place. A node is in one heap at most. Engine thread only.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kv/node_table.h"

namespace quire {

class UseHeap {
 public:
  // REQUIRES the nodes to outlive it; at most `capacity` of them are listed at once.
  UseHeap(NodeTable& nodes, int capacity) : nodes_(nodes) { heap_.reserve(static_cast<size_t>(capacity)); }

  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  int32_t front() const { return heap_.front(); }
  void push(int32_t node);
  void drop(int32_t node);      // REQUIRES it to be listed
  void was_used(int32_t node);  // its last_used or its rank has changed. REQUIRES it to be listed
  bool lists(int32_t node) const;
  std::string check() const;  // empty when in order

 private:
  void put(size_t place, int32_t node);
  void sift(size_t place);
  bool older(size_t a, size_t b) const {
    const Node &first = nodes_[heap_[a]], &second = nodes_[heap_[b]];
    if (first.priority != second.priority) return first.priority < second.priority;
    return first.rank != second.rank ? first.rank < second.rank : first.last_used < second.last_used;
  }

  NodeTable& nodes_;
  std::vector<int32_t> heap_;
};

}  // namespace quire
