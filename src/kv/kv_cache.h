// The only door through which the scheduler reaches cached keys and values: block tables of sequences, backed by the
// pools and the prefix tree. Knows tokens and bytes, neither layers nor ops. Engine thread only.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/block_pool.h"
#include "kv/fetch.h"
#include "kv/kv_image.h"
#include "kv/layout.h"
#include "kv/prefix_tree.h"
#include "tensor/kv_view.h"

namespace quire {

// What one sequence holds. Empty when the sequence holds nothing.
struct SeqKv {
  std::vector<PrefixTree::Blocks> table;  // [block][group]; empty where a window has slid past
  int n_indexed = 0;                      // leading blocks that were put into the tree
  // Of layers that keep a state: a block of theirs lies where a state was left, at the end of the tokens that are
  // computed and at few places before.
  // The state behind the last whole block of the first n_lead tokens (all of a prompt but its last) stays findable, so
  // that the same prompt finds it again.
  int n_lead = 0;
  int n_passed = 0;    // leading blocks that have no state any more
  uint64_t whose = 0;  // the tenant, as Prefix has it: for whom room is made
  int passing = -1;    // block of the state that it put into the tree for as long as it has left no later one there
  // Of a sequence that has dropped blocks: tokens of these. Block b of the table holds what comes behind the dropped
  // ones, its last blocks from token b · block_tokens + n_dropped on; nothing of it is findable.
  int n_dropped = 0;
  int n_copies = 0;  // blocks that dropping will take: until then there is to be room for them
  // In a step that guesses: where the state behind each guess goes, until it is known which came true.
  std::vector<BlockRef> guess_states;
};

// Blocks in which a branch of a sequence goes on by itself, behind the sequence's first n_shared blocks.
struct KvBranch {
  size_t n_shared = 0;
  std::vector<PrefixTree::Blocks> blocks;  // as SeqKv::table
};

struct KvCacheOptions {
  int block_tokens = 16;          // a multiple of kStripTokens
  int n_blocks = 0;               // of every full group
  bool prefix_cache = true;       // false: match finds nothing, index keeps nothing
  PathHasher::Fn hash = nullptr;  // for tests that force collisions
  int n_window_blocks = 0;        // of every group with a window; 0: n_blocks
  int n_tail_blocks = 0;          // of a private group; 0: as of one with a window
  int n_states = 0;               // of a group of states; 0: n_blocks
  // What a tier below memory needs (PrefixTreeOptions).
  std::function<bool(const LeavingBlock&)> keep = {};
  int n_elsewhere = 0;
  std::function<void(const LeavingBlock&)> computed = {};
  std::string policy = "lru";  // what is evicted first: a registered KvPolicy
  int n_departures = 0;        // as PrefixTreeOptions has it
  RetentionLimits retention{};
};

class KvCache {
 public:
  // memory[g] holds the blocks of group g; it may be empty where these have no bytes.
  KvCache(const KvLayout& layout, std::vector<Buffer> memory, const KvCacheOptions& options);

  // Takes the longest known prefix into an empty `seq`, always leaving the last token to compute; returns its tokens.
  int match(SeqKv& seq, const Prefix& prefix);
  // The first n_blocks blocks of `from`, of windows those that a row behind them reads, into an empty `to`, as if match
  // had found them.
  void share(SeqKv& to, const SeqKv& from, int n_blocks) const;
  // Takes what has become known since behind the whole blocks that `seq` has; returns its tokens in all. REQUIRES
  // nothing in `seq` but what match, share and extend took.
  int extend(SeqKv& seq, const Prefix& prefix);
  // How many tokens match would find; changes nothing.
  int peek(const Prefix& prefix) const;
  // Where `prefix` ends and what is stored there (PrefixTree); changes nothing.
  PathTrace trace(const Prefix& prefix, const TraceLimits& limits) const;
  // How the block of that name last left memory; null: nothing is remembered of it.
  const Departure* departure(const Hash128& name) const { return tree_ ? tree_->departure(name) : nullptr; }
  // What departures from now on are remembered with, and ends wishes to retain something.
  void tell_time(int64_t now_ns) {
    now_ns_ = now_ns;
    if (tree_) tree_->tell_time(now_ns);
  }
  // As PrefixTree::retain, from the time that was told last on.
  int retain(const Prefix& prefix, std::span<const RetentionRange> ranges) {
    return tree_ ? tree_->retain(prefix, ranges, now_ns_) : 0;
  }
  int n_retained_blocks() const { return tree_ ? tree_->retentions().n_raised() : 0; }
  int n_most_retained_blocks() const { return tree_ ? options_.retention.n_blocks : 0; }
  // Takes room for what a tier has of the first max_blocks blocks of `prefix` behind those of `seq`, all of it, into
  // `out`. REQUIRES at most max_fetch, nothing in `seq` but what match and extend found; the cache outlives `out`.
  enum class Below : uint8_t { nothing, loading, no_room, begun };  // loading: somebody fetches the next block already
  Below fetch(const SeqKv& seq, const Prefix& prefix, int max_blocks, Fetch& out);
  // A tier says what it has of the blocks of `prefix` from `begin` on, of which groups, and asks for their names
  // (PrefixTree).
  int learn(const Prefix& prefix, int begin, std::span<const uint8_t> groups);
  std::vector<Hash128> names(const Prefix& prefix) const;

  // Room for n_tokens in all, and for a state behind them; states on the way as far as there is room that leaves
  // n_spare to others. Evicts what is needed; false, with nothing changed, when even that is not enough.
  bool grow(SeqKv& seq, int n_tokens, int n_spare = 0);
  // Of layers that keep a state, room for one behind each of the n guesses of a step, as far as that leaves n_spare to
  // others and what is cached half of the room; for how many there is. n, where no layer does.
  int add_guess_states(SeqKv& seq, int n, int n_spare);
  // That n_right of these guesses came true, behind n_computed tokens: the states behind them are the sequence's, the
  // others are given back. REQUIRES blocks up to there.
  void settle_guess_states(SeqKv& seq, int n_computed, int n_right);
  bool keeps_states() const { return states_ != 0; }
  // Copies what `from` has of the block behind the whole blocks of `to` into a block of its own for `to`: the past of a
  // sequence may part within a block. False, with nothing changed, when there is no room or a window of `from` has slid
  // past that block, where layers keep a state, which is that of another place, and where `from` has dropped blocks.
  // REQUIRES `from` to have that block.
  // A copy that a device failed to make, here and below, is as no room.
  bool copy_next_block(SeqKv& to, const SeqKv& from);
  // Blocks of its own for tokens [begin, end) of a branch, with a copy of what `seq` has computed of the first of them.
  // False, with nothing changed, where there is no room that leaves n_spare blocks to others, where layers keep a
  // state, and where `seq` has dropped blocks. REQUIRES n_computed ≤ begin < end, blocks of `seq` up to `begin`, an
  // empty `out`. Throws std::bad_alloc with nothing changed.
  struct BranchRoom {
    int n_computed, begin, end, n_spare;
  };
  bool branch(KvBranch& out, const SeqKv& seq, const BranchRoom& wanted);
  // The branch's blocks take the place of those that `seq` has behind the shared ones.
  static void adopt(SeqKv& seq, KvBranch&& branch);
  // Copies the first tokens of a block that the tree has (PrefixTree::part) into a block of its own for `seq`, behind
  // its whole blocks: those that `prefix` goes on with, all but its last at most. Returns how many; 0, with nothing
  // changed: there is no such block or no room, or layers keep a state.
  int copy_part(SeqKv& seq, const Prefix& prefix);
  // Gives up all blocks of `seq` but those numbered `kept`, ascending. What was findable stays so, but not through
  // `seq`: of its kept blocks behind the first dropped one those that others hold are copied, since whoever holds a
  // block of the tree holds those before it. False, with every block still there: there is no room for the copies, or a
  // device failed to make one. REQUIRES no other group but the first, block 0 among those kept and its last block where
  // that is not full, nothing dropped before, `kept` shorter than the table. Takes no memory (kv_drop.cc).
  bool drop_blocks(SeqKv& seq, std::span<const int32_t> kept);
  // Whether the past of a sequence with n_computed tokens is lost as a whole with any block of a window or a state that
  // goes, what lies before the window has been given back already, or there is nothing but the state; and where blocks
  // were dropped, so that nothing is findable.
  bool parts_with_past(const SeqKv& seq, int n_computed) const;
  // A copy of what rows behind the first n_tokens read, and how many bytes it has. Nothing where a device failed to
  // make it. REQUIRES blocks for these, computed. Throws std::bad_alloc.
  std::optional<KvImage> copy_out(const SeqKv& seq, int n_tokens) const;
  int64_t image_bytes(const SeqKv& seq, int n_tokens) const;
  // Into an empty `seq`, in blocks of its own. False, with nothing changed, when there is no room.
  bool put_back(SeqKv& seq, const KvImage& image);
  // What is missing for n_tokens in all, computed at most n_step at a time, to have room beside what others hold, and
  // n_spare blocks of every group to be left then; of the first group that lacks some.
  struct Room {
    int n_tokens, n_step, n_spare;
  };
  struct Shortage {
    int64_t wanted = 0, have = 0;  // blocks to be taken, and those that are free or can be freed
    bool of_states = false;
    explicit operator bool() const { return wanted > have; }
  };
  Shortage shortage(const SeqKv& seq, const Room& wanted) const;
  // Blocks of group g that it may come to take on the way to n_tokens, computed at most n_step at a time: of a window
  // no more at a time than it reads, less those that are its own and come free as the window slides.
  int64_t to_take(const SeqKv& seq, int g, int n_tokens, int n_step) const {
    return missing(seq, static_cast<size_t>(g), n_tokens, n_step, true);
  }
  // Blocks of the first group that come free with `seq`.
  int n_own_blocks(const SeqKv& seq) const;
  // Gives back what no row at position n_computed or behind it reads: blocks that lie before every window and are not
  // kept.
  void slide(SeqKv& seq, int n_computed);
  // Gives back the blocks beyond n_tokens. REQUIRES n_tokens not to cut an indexed block (others may read all of it),
  // and no window to have slid past what a row at n_tokens reads.
  void truncate(SeqKv& seq, int n_tokens);
  // Makes the full blocks of the first n_computed tokens findable. REQUIRES their keys and values to be computed.
  // Returns how many of the tokens were known already: of these the known blocks are kept, its own are given up.
  int index(SeqKv& seq, const Prefix& prefix, int n_computed);
  void release(SeqKv& seq);
  // Whether `seq` has blocks for tokens [begin, end) that nobody else holds: only those may be written.
  bool exclusive(const SeqKv& seq, int begin, int end) const;

  KvView view() const;
  int block_tokens() const { return options_.block_tokens; }
  int n_blocks() const { return options_.n_blocks; }
  int n_free_blocks() const { return pools_[0]->n_free(); }
  int n_cached_blocks() const { return pools_[0]->n_cached(); }  // could be freed by eviction
  int n_indexed_blocks() const { return tree_ ? tree_->n_in_memory() : 0; }
  int n_blocks_elsewhere() const { return tree_ ? tree_->n_elsewhere() : 0; }
  int n_refs(int32_t block) const { return pools_[0]->n_refs(block); }
  bool indexed(int32_t block) const { return pools_[0]->indexed(block); }
  int n_groups() const { return static_cast<int>(pools_.size()); }
  const KvGroup& group(int g) const { return groups_[static_cast<size_t>(g)]; }
  const BlockPool& pool(int g) const { return *pools_[static_cast<size_t>(g)]; }
  std::string check() const { return tree_ ? tree_->check() : ""; }
  // Blocks that a match may take at most. The last token is always left to compute, or there would be no logits.
  int max_match(const Prefix& prefix) const {
    return (static_cast<int>(prefix.tokens.size()) - 1) / options_.block_tokens;
  }
  // Blocks that are worth bringing at most: up to where a match may end, and one that copy_part copies from behind it,
  // where that is not in memory. Of windows not that: what a row behind it reads is not all that one before it does.
  int max_fetch(const Prefix& prefix) const;

 private:
  // Free blocks of every group, as many as `wanted` says; false, with nothing changed, when there is not that much
  // room.
  using Counts = std::array<int, GroupBlocks::kMaxGroups>;
  bool make_room(const Counts& wanted, uint64_t whose);
  int64_t missing(const SeqKv& seq, size_t g, int n_tokens, int n_step, bool own) const;
  bool is_own(size_t g, const PrefixTree::Blocks& blocks) const {
    const int32_t id = blocks[g].id();
    return pools_[g]->n_refs(id) == (pools_[g]->indexed(id) ? 2 : 1);
  }
  // Blocks of each group that a run of n behind n_before blocks takes: of windows those that a row behind it reads.
  Counts wanted_of_run(int n_before, int n) const;
  // Of window g, what `seq` holds of the blocks that end with `end`, but for those that are kept.
  void give_back(SeqKv& seq, size_t g, int end) const;
  int first_block(size_t g, int position) const { return groups_[g].first_block(position, options_.block_tokens); }
  int kept_blocks(size_t g) const { return groups_[g].kept_blocks(options_.block_tokens); }
  bool reads(size_t g, int block, int position) const {
    return groups_[g].reads(block, position, options_.block_tokens);
  }
  bool is_state(size_t g) const { return g != 0 && g == states_; }
  int pool_blocks(const KvGroup& group) const;
  uint8_t image_groups(const SeqKv& seq, int block, int n_tokens) const;
  // Whether the state at the end of `block` is one that others may look for, and so stays findable.
  bool keeps_state(const SeqKv& seq, int block) const;
  void add_states(SeqKv& seq, int n_before, int n_spare);
  KvGroupView group_view(size_t g) const {
    return {pools_[g]->base(), pools_[g]->block_bytes(), options_.block_tokens, pools_[g]->copier()};
  }
  bool copy_block(const PrefixTree::Blocks& to, const PrefixTree::Blocks& from) const;
  // Of states in blocks [begin, end), which become findable, those that stay so and the last; the block of that, or −1.
  int choose_states(SeqKv& seq, int begin, int end) const;
  void forget_state(SeqKv& seq);
  int blocks_for(int n_tokens) const { return (n_tokens + options_.block_tokens - 1) / options_.block_tokens; }
  // Of the table of a sequence, for its first n_tokens.
  int blocks_for(const SeqKv& seq, int n_tokens) const { return blocks_for(n_tokens - seq.n_dropped); }

  KvCacheOptions options_;
  std::vector<KvGroup> groups_;
  int64_t now_ns_ = 0;
  size_t states_ = 0;  // the group of states, of which there is one at most; 0: none, for the first is a full one
  std::vector<std::unique_ptr<BlockPool>> pools_;  // by group; address-stable, BlockRefs point to them
  std::unique_ptr<PrefixTree> tree_;               // null without a prefix cache; destroyed before the pools
};

}  // namespace quire
