#include "kv/kv_cache.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr int kStateBlocks = 32;  // a state stays findable at every multiple of so many blocks

}  // namespace

int KvCache::pool_blocks(const KvGroup& group) const {
  const bool is_window = group.kind == KvGroup::Kind::window, is_state = group.kind == KvGroup::Kind::state;
  if (group.is_private && options_.n_tail_blocks > 0) return options_.n_tail_blocks;
  if (is_window && options_.n_window_blocks > 0) return options_.n_window_blocks;
  if (is_state && options_.n_states > 0) return options_.n_states;
  return options_.n_blocks;
}

KvCache::KvCache(const KvLayout& layout, std::vector<Buffer> memory, const KvCacheOptions& options)
    : options_(options) {
  QR_CHECK(static_cast<int>(memory.size()) == layout.n_groups() && layout.n_groups() <= KvView::kMaxGroups);
  std::vector<PrefixTree::Group> pooled;
  pooled.reserve(static_cast<size_t>(layout.n_groups()));
  for (int g = 0; g < layout.n_groups(); ++g) {
    const int n_blocks = pool_blocks(layout.group(g));
    const int64_t block_bytes = layout.block_bytes(g, options.block_tokens);
    groups_.push_back(layout.group(g));
    if (layout.group(g).kind == KvGroup::Kind::state) states_ = static_cast<size_t>(g);
    pools_.push_back(std::make_unique<BlockPool>(std::move(memory[static_cast<size_t>(g)]), n_blocks, block_bytes));
    pooled.push_back({layout.group(g), pools_.back().get()});
  }
  if (options.prefix_cache) {
    tree_ = std::make_unique<PrefixTree>(
        pooled, options.block_tokens,
        PrefixTreeOptions{options.hash, options.keep, options.n_elsewhere, options.computed, options.policy,
                          options.n_departures, options.retention});
  }
}

int KvCache::match(SeqKv& seq, const Prefix& prefix) {
  QR_CHECK(seq.table.empty());
  if (!tree_ || prefix.tokens.empty()) return 0;
  return extend(seq, prefix);
}

void KvCache::share(SeqKv& to, const SeqKv& from, int n_blocks) const {
  QR_CHECK(to.table.empty());
  for (int b = 0; b < n_blocks; ++b) {
    PrefixTree::Blocks& blocks = to.table.emplace_back();
    for (size_t g = 0; g < pools_.size(); ++g) {
      const BlockRef& block = from.table[static_cast<size_t>(b)][g];
      blocks.push_back(reads(g, b, n_blocks * options_.block_tokens) ? block.share() : BlockRef());
    }
  }
  to.n_indexed = n_blocks;
}

int KvCache::extend(SeqKv& seq, const Prefix& prefix) {
  const auto n_had = static_cast<int>(seq.table.size());
  QR_DCHECK(n_had == seq.n_indexed);
  if (!tree_) return n_had * options_.block_tokens;
  tree_->match(prefix, max_match(prefix), seq.table);
  seq.n_indexed = static_cast<int>(seq.table.size());
  const int n_tokens = seq.n_indexed * options_.block_tokens;
  for (size_t g = 1; g < pools_.size(); ++g) give_back(seq, g, std::min(first_block(g, n_tokens), n_had));
  return n_tokens;
}

int KvCache::peek(const Prefix& prefix) const {
  if (!tree_ || prefix.tokens.empty()) return 0;
  return tree_->peek(prefix, max_match(prefix)) * options_.block_tokens;
}

PathTrace KvCache::trace(const Prefix& prefix, const TraceLimits& limits) const {
  if (!tree_ || prefix.tokens.empty()) return {};
  PathTrace out = tree_->trace(prefix, max_match(prefix), limits);
  if (states_ != 0) out.n_part = 0;  // as copy_part
  return out;
}

bool KvCache::make_room(const Counts& wanted, uint64_t whose) {
  for (int g = 0; g < n_groups(); ++g) {
    if (wanted[static_cast<size_t>(g)] > pool(g).n_free() + pool(g).n_cached()) return false;
  }
  if (wanted[0] > n_free_blocks()) tree_->evict(wanted[0] - n_free_blocks(), {now_ns_, whose});
  for (int g = 1; g < n_groups(); ++g) {
    const int n = wanted[static_cast<size_t>(g)];
    if (n > pool(g).n_free()) tree_->evict_window(g, n - pool(g).n_free(), {now_ns_, whose});
  }
  QR_CHECK(wanted[0] <= n_free_blocks(), "whoever holds a block holds those before it, so what is cached can be freed");
  return true;
}

bool KvCache::grow(SeqKv& seq, int n_tokens, int n_spare) {
  const int wanted = blocks_for(seq, n_tokens) - static_cast<int>(seq.table.size());
  if (wanted <= 0) return true;
  Counts counts;
  for (size_t g = 0; g < pools_.size(); ++g) counts[g] = is_state(g) ? 1 : wanted;
  if (!make_room(counts, seq.whose)) return false;
  const auto n_before = static_cast<int>(seq.table.size());
  for (int i = 0; i < wanted; ++i) {
    PrefixTree::Blocks& blocks = seq.table.emplace_back();
    for (size_t g = 0; g < pools_.size(); ++g) {
      const bool has_one = !is_state(g) || i == wanted - 1;
      blocks.push_back(has_one ? pools_[g]->allocate() : BlockRef());
    }
  }
  if (tree_ && states_ != 0) add_states(seq, n_before, n_spare);
  return true;
}

bool KvCache::keeps_state(const SeqKv& seq, int block) const {
  return (block + 1) % kStateBlocks == 0 || block + 1 == seq.n_lead / options_.block_tokens;
}

// Behind the first n_before blocks and before the last, where a state stays findable. They are for later: none is
// taken that another sequence may need in this step.
void KvCache::add_states(SeqKv& seq, int n_before, int n_spare) {
  BlockPool& pool = *pools_[states_];
  for (size_t b = static_cast<size_t>(n_before); b + 1 < seq.table.size(); ++b) {
    if (!keeps_state(seq, static_cast<int>(b))) continue;
    if (pool.n_free() + pool.n_cached() <= n_spare) return;
    if (pool.n_free() == 0) tree_->evict_window(static_cast<int>(states_), 1, {now_ns_, seq.whose});
    seq.table[b][states_] = pool.allocate();
  }
}

int KvCache::add_guess_states(SeqKv& seq, int n, int n_spare) {
  if (states_ == 0) return n;
  std::vector<BlockRef>& states = seq.guess_states;
  try {
    states.reserve(static_cast<size_t>(n));
  } catch (const std::bad_alloc&) {
    n = static_cast<int>(states.size());
  }
  BlockPool& pool = *pools_[states_];
  while (static_cast<int>(states.size()) < n && pool.n_free() + pool.n_cached() > n_spare) {
    if (pool.n_free() == 0) {
      if (2 * pool.n_cached() <= pool.n_blocks()) break;
      tree_->evict_window(static_cast<int>(states_), 1, {now_ns_, seq.whose});
    }
    states.push_back(pool.allocate());
  }
  const int out = std::min(n, static_cast<int>(states.size()));
  while (static_cast<int>(states.size()) > out) states.pop_back();
  return out;
}

// As if the guesses that came true had been computed one by one: each whole block has the state at its end, the last
// one that of now.
void KvCache::settle_guess_states(SeqKv& seq, int n_computed, int n_right) {
  for (int i = 0; i < n_right && states_ != 0; ++i) {
    const int n_tokens = n_computed + 1 + i;
    if (n_tokens % options_.block_tokens != 0 && i + 1 < n_right) continue;
    seq.table[static_cast<size_t>(n_tokens - 1) / static_cast<size_t>(options_.block_tokens)][states_] =
        std::move(seq.guess_states[static_cast<size_t>(i)]);
  }
  seq.guess_states.clear();
}

int KvCache::choose_states(SeqKv& seq, int begin, int end) const {
  int last = end - 1;
  while (last >= begin && !seq.table[static_cast<size_t>(last)][states_]) --last;
  for (int b = begin; b < last; ++b) {
    if (!keeps_state(seq, b)) seq.table[static_cast<size_t>(b)][states_] = BlockRef();
  }
  return last >= begin ? last : -1;
}

// What it put into the tree until it would leave a later one there.
void KvCache::forget_state(SeqKv& seq) {
  if (seq.passing < 0) return;
  PrefixTree::Blocks& blocks = seq.table[static_cast<size_t>(seq.passing)];
  blocks[states_] = BlockRef();
  tree_->drop_unheld(blocks[0].id(), states_);
  seq.passing = -1;
}

KvCache::Counts KvCache::wanted_of_run(int n_before, int n) const {
  Counts out{};
  for (size_t g = 0; g < pools_.size(); ++g) {
    for (int b = n_before; b < n_before + n; ++b) {
      out[g] += reads(g, b, (n_before + n) * options_.block_tokens) ? 1 : 0;
    }
  }
  return out;
}

// Making room may cost nodes that are elsewhere, so what is missing is asked again behind it.
KvCache::Below KvCache::fetch(const SeqKv& seq, const Prefix& prefix, int max_blocks, Fetch& out) {
  out = Fetch();
  if (!tree_ || prefix.tokens.empty()) return Below::nothing;
  PrefixTree::Missing missing = tree_->missing(prefix, max_blocks, seq.table);
  if (missing.loading) return Below::loading;
  if (missing.nodes.empty()) return Below::nothing;
  Fetch run(*tree_, seq.table);
  for (const int32_t node : missing.between) run.hold(node);
  const int n_before = run.n_before();
  if (!make_room(wanted_of_run(n_before, static_cast<int>(missing.nodes.size())), seq.whose)) return Below::no_room;
  missing = tree_->missing(prefix, max_blocks, seq.table);
  const auto n = static_cast<int>(missing.nodes.size());
  if (n == 0) return Below::nothing;
  for (int i = 0; i < n; ++i) {
    GroupBlocks blocks;
    for (size_t g = 0; g < pools_.size(); ++g) {
      const bool wanted = reads(g, n_before + i, (n_before + n) * options_.block_tokens);
      blocks.push_back(wanted ? pools_[g]->allocate() : BlockRef());
    }
    run.add(missing.nodes[static_cast<size_t>(i)], std::move(blocks));
  }
  view().begin_writes();
  out = std::move(run);
  return Below::begun;
}

int KvCache::max_fetch(const Prefix& prefix) const {
  const int n_match = max_match(prefix), n_whole = static_cast<int>(prefix.tokens.size()) / options_.block_tokens;
  const bool copies = tree_ != nullptr && n_groups() == 1 && options_.block_tokens > 1;
  return copies && n_whole > n_match && tree_->peek(prefix, n_whole) < n_whole ? n_whole : n_match;
}

int KvCache::learn(const Prefix& prefix, int begin, std::span<const uint8_t> groups) {
  return tree_ ? tree_->learn(prefix, begin, groups) : 0;
}

std::vector<Hash128> KvCache::names(const Prefix& prefix) const {
  return tree_ ? tree_->names(prefix, static_cast<int>(prefix.tokens.size()) / options_.block_tokens)
               : std::vector<Hash128>();
}

// The blocks of a window that a sequence will still ask for are no more than fit into the window and a step, less those
// that it has; with `own`, less its own of them: the others need not come free when it slides past them.
int64_t KvCache::missing(const SeqKv& seq, size_t g, int n_tokens, int n_step, bool own) const {
  const auto n_have = static_cast<int>(seq.table.size());
  const int n_missing = std::max(blocks_for(seq, n_tokens) + seq.n_copies - n_have, 0);
  if (g == 0) return n_missing;
  int n_last = 0, n_others = 0;
  for (; n_last < n_have && seq.table[static_cast<size_t>(n_have - n_last) - 1][g]; ++n_last) {
    n_others += own && !is_own(g, seq.table[static_cast<size_t>(n_have - n_last) - 1]) ? 1 : 0;
  }
  const int n_held = n_last - n_others + std::min(kept_blocks(g), n_have - n_last);
  const int64_t most = groups_[g].most_blocks(n_step, options_.block_tokens) - n_held;
  return std::min<int64_t>(n_missing, std::max<int64_t>(most, 0));
}

int KvCache::n_own_blocks(const SeqKv& seq) const {
  return static_cast<int>(std::ranges::count_if(seq.table, [this](const auto& blocks) { return is_own(0, blocks); }));
}

KvCache::Shortage KvCache::shortage(const SeqKv& seq, const Room& wanted) const {
  for (size_t g = 0; g < pools_.size(); ++g) {
    const int64_t n = missing(seq, g, wanted.n_tokens, wanted.n_step, false);
    const Shortage lack{n + wanted.n_spare, int64_t{pools_[g]->n_free()} + pools_[g]->n_cached(), is_state(g)};
    if (lack) return lack;
  }
  return {};
}

void KvCache::slide(SeqKv& seq, int n_computed) {
  const auto n_have = static_cast<int>(seq.table.size());
  for (size_t g = 1; g < pools_.size(); ++g) {
    if (is_state(g)) {
      for (; seq.n_passed < first_block(g, n_computed); ++seq.n_passed) {
        seq.table[static_cast<size_t>(seq.n_passed)][g] = BlockRef();
      }
    } else {
      give_back(seq, g, std::min(first_block(g, n_computed), n_have));
    }
  }
}

void KvCache::give_back(SeqKv& seq, size_t g, int end) const {
  int b = end;
  while (b > kept_blocks(g) && seq.table[static_cast<size_t>(b) - 1][g]) --b;
  for (; b < end; ++b) seq.table[static_cast<size_t>(b)][g] = BlockRef();
}

// The deepest first: what comes before it serves other prefixes too, so it shall be cached for longer.
void KvCache::release(SeqKv& seq) {
  while (!seq.table.empty()) seq.table.pop_back();
  seq = SeqKv{};
}

bool KvCache::copy_next_block(SeqKv& to, const SeqKv& from) {
  const size_t b = to.table.size();
  if (from.n_dropped > 0) return false;
  QR_CHECK(b < from.table.size());
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (!from.table[b][g] || is_state(g)) return false;
  }
  if (!grow(to, (static_cast<int>(b) + 1) * options_.block_tokens)) return false;
  if (copy_block(to.table[b], from.table[b])) return true;
  to.table.pop_back();
  return false;
}

// A block that begins behind what is computed holds nothing to copy: it is written in the step, as the sequence's is.
bool KvCache::branch(KvBranch& out, const SeqKv& seq, const BranchRoom& wanted) {
  QR_DCHECK(out.blocks.empty() && wanted.n_computed <= wanted.begin && wanted.begin < wanted.end);
  const int first = wanted.begin / options_.block_tokens, n = blocks_for(wanted.end) - first;
  if (states_ != 0 || seq.n_dropped > 0) return false;
  for (const auto& pool : pools_) {
    if (n + wanted.n_spare > pool->n_free() + pool->n_cached()) return false;
  }
  out.blocks.reserve(static_cast<size_t>(n));
  Counts counts{};
  std::fill_n(counts.begin(), pools_.size(), n);
  if (!make_room(counts, seq.whose)) return false;
  out.n_shared = static_cast<size_t>(first);
  for (int i = 0; i < n; ++i) {
    PrefixTree::Blocks& blocks = out.blocks.emplace_back();
    for (const auto& pool : pools_) blocks.push_back(pool->allocate());
  }
  const bool has_some = first * options_.block_tokens < wanted.n_computed;
  if (!has_some || copy_block(out.blocks.front(), seq.table[out.n_shared])) return true;
  out = KvBranch();
  return false;
}

// The deepest first, as in release().
void KvCache::adopt(SeqKv& seq, KvBranch&& branch) {
  QR_CHECK(seq.table.size() >= branch.n_shared && static_cast<size_t>(seq.n_indexed) <= branch.n_shared);
  while (seq.table.size() > branch.n_shared) seq.table.pop_back();
  for (PrefixTree::Blocks& blocks : branch.blocks) seq.table.push_back(std::move(blocks));
  branch.blocks.clear();
}

int KvCache::copy_part(SeqKv& seq, const Prefix& prefix) {
  const auto n_had = static_cast<int>(seq.table.size()) * options_.block_tokens;
  const int most = static_cast<int>(prefix.tokens.size()) - 1 - n_had;
  if (!tree_ || states_ != 0 || most <= 0) return 0;
  const PrefixTree::Part part = tree_->part(prefix, most, seq.table);
  if (part.n_tokens == 0 || !grow(seq, n_had + part.n_tokens)) return 0;
  if (copy_block(seq.table.back(), part.blocks)) return part.n_tokens;
  seq.table.pop_back();
  return 0;
}

// Of all groups. REQUIRES a block of each on both sides.
bool KvCache::copy_block(const PrefixTree::Blocks& to, const PrefixTree::Blocks& from) const {
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (!group_view(g).copy(to[g].id(), from[g].id())) return false;
  }
  return true;
}

void KvCache::truncate(SeqKv& seq, int n_tokens) {
  QR_CHECK(n_tokens % options_.block_tokens == 0 || n_tokens / options_.block_tokens >= seq.n_indexed);
  const int n_left = std::min(blocks_for(seq, n_tokens), static_cast<int>(seq.table.size()));
  // Of blocks that were taken for guesses the last has the only state; nothing is in it yet.
  if (!seq.guess_states.empty() && n_left > 0) {
    BlockRef& state = seq.table[static_cast<size_t>(n_left) - 1][states_];
    if (!state) state = std::move(seq.table.back()[states_]);
  }
  for (size_t g = 1; g < pools_.size(); ++g) {
    const int first = std::max(first_block(g, n_tokens), kept_blocks(g));
    QR_CHECK(first >= n_left || seq.table[static_cast<size_t>(first)][g], "a window has slid past what is left");
  }
  const auto keep = static_cast<size_t>(blocks_for(seq, n_tokens));
  while (seq.table.size() > keep) seq.table.pop_back();
  seq.n_indexed = std::min(seq.n_indexed, n_tokens / options_.block_tokens);
}

int KvCache::index(SeqKv& seq, const Prefix& prefix, int n_computed) {
  const int n_full = n_computed / options_.block_tokens;
  if (!tree_ || n_full <= seq.n_indexed || seq.n_dropped > 0) return 0;
  const int n_known = std::exchange(seq.n_indexed, n_full);
  const int last = states_ == 0 ? -1 : choose_states(seq, n_known, n_full);
  const auto state = [&] { return seq.table[static_cast<size_t>(last)][states_].id(); };
  const int32_t own = last < 0 ? -1 : state();
  const int n_replaced = tree_->insert(prefix, n_full, seq.table, n_known);
  if (last >= 0) {
    forget_state(seq);
    // Where another was known there it is not this sequence's to forget.
    if (state() == own && !keeps_state(seq, last)) seq.passing = last;
  }
  return n_replaced * options_.block_tokens;
}

bool KvCache::exclusive(const SeqKv& seq, int begin, int end) const {
  const int n_blocks = blocks_for(seq, end);
  if (n_blocks > static_cast<int>(seq.table.size())) return false;
  for (int b = (begin - seq.n_dropped) / options_.block_tokens; b < n_blocks; ++b) {
    const PrefixTree::Blocks& blocks = seq.table[static_cast<size_t>(b)];
    for (size_t g = 0; g < blocks.size(); ++g) {
      if (!blocks[g] && is_state(g) && b + 1 < n_blocks) continue;
      if (!blocks[g] || pools_[g]->n_refs(blocks[g].id()) != 1) return false;
    }
  }
  return true;
}

KvView KvCache::view() const {
  KvView view;
  for (size_t g = 0; g < pools_.size(); ++g) view.groups[static_cast<size_t>(view.n_groups++)] = group_view(g);
  return view;
}

}  // namespace quire
