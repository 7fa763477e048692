// Beginnings that are to stay for longer than others, for a while: a block has a priority from 0 to 100, and of the
// leaves of the tree those of the lowest go first, among equals as the policy says. Nothing is held: what needs room
// finds all of it, so however much is wished for, nobody waits for it. What is raised above the usual is bounded, in
// all and for each tenant, so that no tenant's wishes take others' cache; what would pass a bound stays as it was. A
// raised node's ancestors are raised as well, for at least as long, for without them nothing finds it: so what is
// counted is what stays. Engine thread only.
// Source: the fields are those of TensorRT-LLM's KvCacheRetentionConfig.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/node_table.h"
#include "kv/retention_range.h"

namespace quire {

struct RetentionLimits {
  int n_blocks = 0;       // that may be raised, in all; 0: none
  int n_blocks_each = 0;  // of one tenant
};

// What is wished of one block; the usual priority: nothing.
struct BlockWish {
  uint8_t priority = kUsualPriority;
  int64_t until_ns = 0;
  uint64_t whose = 0;
};
// The same of a block of that name, wherever it is.
struct NamedWish {
  Hash128 name;
  BlockWish wish;
};
// Of the block at tokens [begin, end): raised as what it holds or what lies behind it, else lowered as it says itself.
BlockWish wish_of(std::span<const RetentionRange> ranges, int begin, int end, int64_t now_ns);

// Which nodes have another priority than the usual, for whom and until when. The priorities are the caller's to set,
// for they order its lists.
class Retentions {
 public:
  // `nodes` outlives it.
  Retentions(const NodeTable& nodes, const RetentionLimits& limits);

  // The priority that the node is to have from now on, as noted; what it has already where the wish changes nothing. A
  // limit that forbids it: -1, and nothing is noted. Throws std::bad_alloc with nothing noted.
  int note(int32_t node, const BlockWish& wish);
  // It has the usual priority from now on.
  void forget(int32_t node);
  bool knows(int32_t node) const { return of(node).at >= 0; }
  // One whose time is over, as of the last look, of which there is one a second at most; NodeTable::kNone: there is
  // none. It stays known until it is forgotten.
  int32_t next_over(int64_t now_ns);

  int n_raised() const { return n_raised_; }
  int n_raised_of(uint64_t whose) const;
  const RetentionLimits& limits() const { return limits_; }
  std::string check() const;  // empty when in order

 private:
  struct State {
    int64_t until_ns = 0;
    uint64_t whose = 0;
    int32_t at = -1;  // in known_
  };
  State& of(int32_t node) { return states_[static_cast<size_t>(node)]; }
  const State& of(int32_t node) const { return states_[static_cast<size_t>(node)]; }
  bool raised(int32_t node) const { return nodes_[node].priority > kUsualPriority; }
  bool charge(uint64_t whose, bool is_new);
  void uncharge(uint64_t whose);

  const NodeTable& nodes_;
  const RetentionLimits limits_;
  std::vector<State> states_;               // by node
  std::vector<int32_t> known_;              // nodes
  std::unordered_map<uint64_t, int> n_of_;  // raised, by tenant
  int n_raised_ = 0;
  int64_t look_ns_ = 0;  // when there will be a look
  size_t looked_ = 0;    // of known_, in this look
};

}  // namespace quire
