// Which leaf of the prefix tree goes first when room is needed. A policy is told what happens to nodes in memory and
// keeps the order of the leaves; the tree alone says what is a leaf, who is held by a sequence and what is freed, so no
// policy can change an answer. One file each in kv/policies/, registered by name. All memory is taken when it is made;
// every call costs O(log n) or less, first() on average over all calls. Decisions depend on the calls and on names,
// never on this process's hashes or a clock. Engine thread only.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/registry.h"
#include "kv/node_table.h"

namespace quire {

class KvPolicy {
 public:
  virtual ~KvPolicy() = default;

  // Of any node, leaf or not.
  virtual void entered(int32_t) {}  // its block is in memory: computed, or brought by a tier
  virtual void found(int32_t) {}    // a match took its block
  virtual void left(int32_t) {}     // its block has been evicted; the node is no leaf any more, and still has its name

  // Of leaves.
  virtual void push(int32_t node) = 0;
  virtual void drop(int32_t node) = 0;      // REQUIRES it to be listed
  virtual void was_used(int32_t node) = 0;  // its last_used has changed. REQUIRES it to be listed
  // The one that goes next, of those of the lowest Node::priority. REQUIRES leaves.
  virtual int32_t first() = 0;
  virtual size_t n_leaves() const = 0;
  virtual bool lists(int32_t node) const = 0;
  virtual std::string check() const = 0;  // empty when in order
};

struct KvPolicyEnv {
  NodeTable& nodes;  // outlives the policy
  int n_blocks = 0;  // in memory at most
  int block_tokens = 1;
};

struct KvPolicyEntry {
  std::unique_ptr<KvPolicy> (*make)(const KvPolicyEnv& env);
};

}  // namespace quire
