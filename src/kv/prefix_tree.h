// What has been computed, by the tokens that led to it: a tree whose nodes are whole blocks. A path from a root spells
// a prefix; requests that share a prefix share its blocks.
//
//   root(key) ── [the quick brown …] ── [fox jumps …] ── [over …]
//                                    └─ [dog sleeps …]
//
// Nodes are found by a 128-bit hash chained along the path, so matching n tokens costs n / block_tokens lookups; the
// tokens themselves are compared on every hit, so a collision is a miss and never a wrong answer. A node has an id of
// its own and a state (node_table.h): it may be known while its block is in no memory. Whoever holds a block of the
// tree finds its node by the block, and walks go on from there. Leaves that nobody else holds are evicted, in the order
// of a policy (kv_policy.h). All memory is taken when the tree is made, but for extras. Engine thread only. Source:
// radix attention (SGLang), hashed whole blocks (vLLM).
//
// A block of a group with a window may go before its node does: a prefix is found where the window before its end is
// still whole, whatever lies before that but for the first blocks that a group keeps.
//
//   full     ── [a] ── [b] ── [c] ── [d] ── [e]      window of two blocks: found are the prefixes
//   window       –      –     [c]    [d]     –       … [d], and nothing shorter or longer
//
// What is in memory is the top of the tree: a resident node's parent is resident, below a node that is elsewhere all
// are.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "kv/block_pool.h"
#include "kv/ghosts.h"
#include "kv/kv_policy.h"
#include "kv/layout.h"
#include "kv/node_table.h"
#include "kv/path_trace.h"
#include "kv/prefix.h"
#include "kv/retention.h"
#include "kv/use_heap.h"

namespace quire {

// A block in memory that was computed or is on its way out, as a tier that may keep it sees it. Views, for the call
// alone.
struct LeavingBlock {
  const Hash128& name;    // the same in every process
  const CacheKey& key;    // with tokens, extras and
  const Hash128& parent;  // the parent's name (zeros: none) what a tier compares before it believes a name
  std::span<const Token> tokens;
  std::span<const Extra> extras;
  const GroupBlocks& blocks;  // where a group has none it has gone before
};

struct PrefixTreeOptions {
  PathHasher::Fn hash = nullptr;  // of this process, for tests that force collisions
  // Asked of every block that eviction takes: true, where a tier has taken it over; its node stays, elsewhere.
  std::function<bool(const LeavingBlock&)> keep = {};
  int n_elsewhere = 0;  // nodes that are known besides those in memory; the longest unused are forgotten
  // Told of every block that insert makes resident, while its bytes are there.
  std::function<void(const LeavingBlock&)> computed = {};
  std::string policy = "lru";  // a registered KvPolicy
  int n_departures = 0;        // evicted blocks of which is remembered how they left; 0: of none
  RetentionLimits retention{};
};

class PrefixTree {
 public:
  struct Group {
    KvGroup kind;
    BlockPool* pool;  // outlives the tree
  };
  // REQUIRES the first group to be a full one.
  PrefixTree(std::vector<Group> groups, int block_tokens, PrefixTreeOptions options = {});
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  using Blocks = GroupBlocks;

  // The longest resident prefix of at most max_blocks whole blocks whose windows are whole: appends shared references,
  // block by block, behind those that `table` has, of groups with a window those that a row behind them reads. REQUIRES
  // what `table` has to come from match or insert with the same prefix.
  void match(const Prefix& prefix, int max_blocks, std::vector<Blocks>& table);

  // Of the resident blocks that could stand behind those of `table`, one that the same tenant has put there under the
  // same key and whose first tokens are those of `prefix`, as many as possible, of equal ones the last used; and how
  // many these are: at most max_tokens, less than a block and at least a quarter of one. Looks at the 64 newest. Not
  // among them: blocks with extras. Counts as a use. REQUIRES as match. Within a block nobody is told what others have
  // stored: a prompt could be guessed token by token.
  struct Part {
    int n_tokens = 0;
    Blocks blocks;  // of all groups; empty where n_tokens is 0
  };
  Part part(const Prefix& prefix, int max_tokens, const std::vector<Blocks>& table);

  // How many blocks match would find; takes nothing and counts as no use.
  int peek(const Prefix& prefix, int max_blocks) const;

  // Where this path ends and what is stored there, of the same key and tenant; takes nothing and counts as no use.
  PathTrace trace(const Prefix& prefix, int max_blocks, const TraceLimits& limits) const;
  // How the block of that name last left memory, or lost what a window needs of it; null: nothing is remembered of it.
  const Departure* departure(const Hash128& name) const {
    return options_.n_departures > 0 ? departures_.find(name) : nullptr;
  }

  // Makes blocks [0, n_blocks) of `table` (table[b] = block b's references) findable. Where a block is resident
  // already, the table's own reference is replaced by the known one: equal tokens have equal bits. Returns how many
  // were. A node that has lost its block of a window takes the table's, one that is elsewhere or loading all of them.
  // The first n_known are findable already: REQUIRES that match or insert with the same prefix left them there.
  int insert(const Prefix& prefix, int n_blocks, std::vector<Blocks>& table, int n_known = 0);

  // Frees up to n_blocks blocks (of every group) that only the tree holds, as the policy has them; returns how many.
  int evict(int n_blocks, const Occasion& occasion = {});
  // Frees up to n_blocks blocks of a group with a window, first given back first; the nodes stay. Returns how many.
  // Whoever slides past a block gives it back before those that the next of its past need.
  int evict_window(int group, int n_blocks, const Occasion& occasion = {});

  // Of the node that has this block of the first group, its block of another one, where nobody else holds that; the
  // node stays.
  void drop_unheld(int32_t block, size_t group);

  // Wishes for the blocks of a path that are in memory (retention.h), which are prefix.whose's. Returns how many of the
  // blocks that something is wished for a limit kept from it, and all behind them. Throws std::bad_alloc with some of
  // them noted.
  int retain(const Prefix& prefix, std::span<const RetentionRange> ranges, int64_t now_ns);
  // Wishes whose time is over are so within a second of it.
  void tell_time(int64_t now_ns);
  const Retentions& retentions() const { return retentions_; }

  // --- for a tier below memory ---

  // What a path goes on with where match ended.
  struct Missing {
    bool loading = false;        // somebody fills the next block: nothing to do but to wait
    std::vector<int32_t> nodes;  // else those elsewhere whose blocks would make the prefix longer, in order
    std::vector<int32_t>
        between;  // resident, behind what `table` has and before those: a window of theirs is not whole
  };
  Missing missing(const Prefix& prefix, int max_blocks, const std::vector<Blocks>& table) const;
  const Node& node(int32_t id) const { return nodes_[id]; }
  // Gives a node that is elsewhere room: it is loading. REQUIRES a parent in memory, and that who has `blocks` holds
  // them and those of all ancestors until it calls one of the following.
  void load(int32_t node, const Blocks& blocks);
  // Of the node that is loading into this block of the first group; nothing where that is none, for it was inserted or
  // went back meanwhile. Its bytes are there. REQUIRES a resident parent.
  void arrived(int32_t block);
  void give_up(int32_t block);  // it is elsewhere again, and what loads below it too
  void lost(int32_t block);     // nor is it elsewhere: forgotten, with all that is known below it
  // A tier says that it has the blocks of this path from `begin` on, of each those of the groups whose bits are set.
  // Returns how many are known now: not those behind a collision, or more than there is room for.
  int learn(const Prefix& prefix, int begin, std::span<const uint8_t> groups);
  // The names of the path's first n_blocks blocks, whether known or not.
  std::vector<Hash128> names(const Prefix& prefix, int n_blocks) const;

  int n_nodes() const { return nodes_.size(); }
  int n_elsewhere() const { return n_elsewhere_; }
  int n_in_memory() const { return nodes_.size() - n_elsewhere_; }
  std::string check() const;  // empty when consistent

 private:
  static constexpr int32_t kNone = NodeTable::kNone;

  PrefixBlocks cut(const Prefix& prefix) const { return {prefix, block_tokens_}; }
  bool in_memory(const Node& node) const {
    return node.state == NodeState::resident || node.state == NodeState::loading;
  }
  bool has(const Node& node, size_t group) const {
    return node.state == NodeState::elsewhere ? (node.groups >> group & 1U) != 0
                                              : static_cast<bool>(node.blocks[group]);
  }
  int32_t find(const Hash128& hash, int32_t parent, const Prefix& prefix, int block) const;
  int kept_blocks(size_t group) const { return groups_[group].kind.kept_blocks(block_tokens_); }
  int32_t owner(int32_t block) const { return owners_[0][static_cast<size_t>(block)]; }
  int32_t add(const Hash128& hash, int32_t parent, const Prefix& prefix, int block);
  void enter_memory(int32_t node, NodeState state);
  void leave_memory(int32_t node);
  void forget_oldest();
  void remove_tree(int32_t node);
  void remove(int32_t node);
  void put_block(int32_t node, size_t group, const BlockRef& block);
  void drop_block(int32_t node, size_t group);
  void drop_blocks(int32_t node);
  void share_window(int32_t node, size_t group, BlockRef& mine);
  void touch(int32_t deepest);
  void make_resident(int32_t node);
  void unlist(int32_t node);
  void set_priority(int32_t node, int priority);
  LeavingBlock view_of(int32_t node) const;
  bool keep(int32_t node) const;
  void remember(int32_t node, const Occasion& occasion);
  bool held_by_others(const Node& node) const;
  void go_elsewhere(int32_t node);
  int32_t loading_into(int32_t block) const;
  bool room_below(int32_t parent);
  int32_t ready_for_blocks(int32_t node, const Hash128& hash, int32_t parent, const Prefix& prefix, int block);
  // A walk down a path. Blocks [first_whole[g], depth) of group g are all there.
  struct Walk {
    int depth = 0;
    int32_t node = kNone;
    Hash128 hash;
    std::array<int, Blocks::kMaxGroups> first_whole{};
    std::array<bool, Blocks::kMaxGroups> lacks_kept{};  // one of those that every row reads is not there
  };
  // Where a walk that has the first n_known blocks of `table` goes on; false when the last of them is in no node.
  bool resume(const Prefix& prefix, const std::vector<Blocks>& table, int n_known, Walk& walk) const;
  bool windows_whole(const Walk& at) const;
  // One block further; false where the path ends, in memory or `beyond` it.
  bool step(const Prefix& prefix, Walk& at, bool beyond) const;
  // Of part(): the block's node, or kNone, where `end` is where the path ends; and how many tokens.
  int32_t find_part(const Prefix& prefix, int max_tokens, const Walk& end, int& n_tokens) const;
  Walk walk_matched(const Prefix& prefix, int max_blocks) const;
  int32_t nearest_sibling(const Prefix& prefix, const Walk& end, const TraceLimits& limits, int& n_common) const;
  std::string check_node(int32_t id) const;

  std::vector<Group> groups_;
  int block_tokens_;
  PrefixTreeOptions options_;
  PathHasher hasher_, names_;
  uint64_t clock_ = 0;  // counts uses: a monotonic order that no clock change can upset
  int n_elsewhere_ = 0, n_loading_ = 0;
  NodeTable nodes_;
  RememberedNames<Departure> departures_;
  Retentions retentions_;
  std::unique_ptr<KvPolicy> leaves_;          // resident, and no child is in memory
  UseHeap far_leaves_;                        // elsewhere, and without children
  std::vector<int32_t> held_;                 // scratch of evict
  std::vector<int32_t> path_;                 // scratch of match
  std::vector<std::vector<int32_t>> owners_;  // by group and block: the node that has it, else kNone
};

}  // namespace quire
