// A policy whose leaves lie in one heap, by priority, rank and last use: what is first there goes first. What a node's
// rank is, says the policy. Engine thread only.
#pragma once
#include <cstdint>
#include <string>

#include "kv/kv_policy.h"
#include "kv/use_heap.h"

namespace quire {

// That any policy takes beside the order of the leaves, at most for each block in memory: what it knows of the block
// and of the two that left before it (ghosts.h).
inline constexpr int64_t kPolicyBytes = 256;

class HeapPolicy : public KvPolicy {
 public:
  explicit HeapPolicy(const KvPolicyEnv& env) : leaves_(env.nodes, env.n_blocks) {}

  void push(int32_t node) override { leaves_.push(node); }
  void drop(int32_t node) override { leaves_.drop(node); }
  void was_used(int32_t node) override { leaves_.was_used(node); }
  int32_t first() override { return leaves_.front(); }
  size_t n_leaves() const override { return leaves_.size(); }
  bool lists(int32_t node) const override { return leaves_.lists(node); }
  std::string check() const override { return leaves_.check(); }

 private:
  UseHeap leaves_;
};

}  // namespace quire
