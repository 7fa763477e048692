// For tests: KvCache against a naive model: a map from (key, path of tokens) to when it was used last, and per sequence
// a list of paths. The model predicts every hit, every eviction and every counter. The bytes of each block hold a hash
// of all that led to them, so a block that is found under a wrong path, or written while somebody reads it, shows in
// its content. With a window the second group's blocks have books of their own: which paths the tree still has one for,
// and in which order it would lose those that nobody holds. With a tier there are two more maps: paths that are
// elsewhere, and runs that are on their way; of windows and a tier together only content and books are compared.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/rng.h"
#include "kv/kv_cache.h"
#include "kv/pins.h"
#include "kv/test_tier.h"

namespace quire {

struct Knobs {
  uint64_t seed = 0;
  int block_tokens = 1, n_blocks = 1, n_vocab = 2, n_keys = 1, hash_bits = 0;  // hash_bits 0: the real one
  int window = 0, n_window_blocks = 0, n_kept = 0;                             // window 0: one group
  int n_elsewhere = 0;                                                         // 0: no tier
  bool segments = false;                                                       // the tier's blocks lie in segments
  PinLimits pins;                                                              // n_pins 0: nobody pins
  std::string policy = "lru";  // of another one content and books are compared, not what it evicts
};

template <int kBits>
inline Hash128 narrow_hash(const void* data, size_t bytes, uint64_t) {
  uint64_t h = 0;
  for (size_t i = 0; i < bytes; ++i) h = mix64(h ^ static_cast<const uint8_t*>(data)[i]);
  return {h & ((1U << kBits) - 1), 0};
}

inline PathHasher::Fn hash_of(int bits) { return bits == 0 ? nullptr : bits == 1 ? narrow_hash<1> : narrow_hash<4>; }

struct Seq {
  std::vector<Token> tokens;
  CacheKey key;
  std::vector<Extra> extras;
  int n_base = 0;  // tokens before its adapter's first, where its key has one
  int n_computed = 0;
  SeqKv kv;
  std::vector<std::string> paths;  // the model's table: the known path of each block, empty for a private one
  bool fresh = true;               // has but what was found
  size_t first_held = 0;           // of the window's blocks those before it are given back

  Prefix prefix() const { return {.tokens = tokens, .key = key, .extras = extras, .n_base = n_base}; }
  bool begins(int p) const { return key.adapter != 0 && p == n_base; }
  // What position p's keys and values are a function of.
  uint64_t content(int p) const {
    uint64_t h = mix64(key.salt);
    for (const Extra& extra : extras) {
      if (extra.pos <= p) h = mix64(h ^ extra.hash.lo ^ static_cast<uint64_t>(extra.pos * 64 + extra.len));
    }
    for (int i = 0; i <= p; ++i) {
      h = mix64(h ^ static_cast<uint64_t>(tokens[static_cast<size_t>(i)]));
      if (begins(i)) h = mix64(h ^ key.adapter << 32);
    }
    return h;
  }
  // The model's name of blocks [0, n) of this sequence.
  std::string path(int n, int block_tokens) const {
    std::string out(1, static_cast<char>('A' + key.salt));
    if (begins(0)) out = std::to_string(key.adapter) + out;  // no extra of the first block
    for (int p = 0; p < n * block_tokens; ++p) {
      out += static_cast<char>('a' + tokens[static_cast<size_t>(p)]);
      if (begins(p) && p > 0) out += "(adapter " + std::to_string(key.adapter) + ")";
      for (const Extra& extra : extras) {
        if (extra.pos == p) out += "(" + std::to_string(extra.hash.lo) + "," + std::to_string(extra.len) + ")";
      }
      if ((p + 1) % block_tokens == 0) out += '|';  // so that only a child's path begins with its parent's
    }
    return out;
  }
};

// What is on its way for a path. A block that is nobody's any more, as somebody computed it, has no path.
struct Run {
  Fetch fetch;
  std::vector<std::string> before, paths;
};

class Twin {
 public:
  explicit Twin(const Knobs& knobs) : knobs_(knobs), rng_(knobs.seed), tier_(knobs.seed, knobs.n_elsewhere > 0) {
    KvLayout layout;
    layout.claim(KvGroup{}, sizeof(uint64_t));
    const int64_t bytes = int64_t{8} * knobs.block_tokens * knobs.n_blocks;
    std::vector<Buffer> memory;
    memory.push_back(std::move(*Buffer::allocate(bytes)));
    if (knobs.window > 0) {
      layout.claim(window(), sizeof(uint64_t));
      memory.push_back(std::move(*Buffer::allocate(int64_t{8} * knobs.block_tokens * knobs.n_window_blocks)));
    }
    if (knobs.segments) {
      StoreShape shape{1, knobs.block_tokens, {8 * knobs.block_tokens}};
      if (knobs.window > 0) shape.group_bytes.push_back(8 * knobs.block_tokens);
      tier_.use_segments(shape);
    }
    cache_ = std::make_unique<KvCache>(
        layout, std::move(memory),
        KvCacheOptions{knobs.block_tokens, knobs.n_blocks, true, hash_of(knobs.hash_bits), knobs.n_window_blocks, 0, 0,
                       [this](const LeavingBlock& block) {
                         return tier_.told.erase(block.name) == 1 && tier_.keep(block, cache_->view());
                       },
                       knobs.n_elsewhere,
                       [this](const LeavingBlock& block) { ASSERT_TRUE(tier_.told.insert(block.name).second); },
                       knobs.policy});
    if (knobs.pins.n_pins > 0) pins_ = std::make_unique<Pins>(*cache_, knobs.pins);
  }

  void run(int n_ops) {
    for (int op = 0; op < n_ops && !testing::Test::HasFailure(); ++op) {
      if (knobs_.n_elsewhere > 0 && rng_.between(0, 2) == 0) {
        use_tier();
        check();
        continue;
      }
      if (pins_ != nullptr && rng_.between(0, 5) == 0) {
        use_pins();
        check();
        continue;
      }
      const int64_t what = rng_.between(0, knobs_.window > 0 ? 11 : 9);
      if (seqs_.empty() || (what == 0 && seqs_.size() < 4)) {
        start(seqs_.empty() || rng_.between(0, 2) > 0 ? nullptr : any());
        continue;
      }
      const auto i = static_cast<size_t>(rng_.between(0, static_cast<int64_t>(seqs_.size()) - 1));
      if (what <= 5) {
        compute(*seqs_[i]);
      } else if (what == 6) {
        seqs_[i]->tokens.push_back(token());
      } else if (what == 7) {
        index(*seqs_[i]);
      } else if (what == 8) {
        truncate(*seqs_[i]);
      } else if (what == 9) {
        give_back_from(*seqs_[i], 0);
        cache_->release(seqs_[i]->kv);
        seqs_.erase(seqs_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        slide(*seqs_[i]);
      }
      check();
    }
  }
  int n_hits = 0, n_evicted = 0, n_refused = 0, n_copied = 0, n_window_evicted = 0, n_hits_behind_a_gap = 0;
  int n_parts = 0, n_kept = 0, n_arrived = 0, n_overtaken = 0, n_given_up = 0, n_lost = 0, n_learned = 0,
      n_forgotten = 0, n_waits = 0, n_pinned = 0, n_pins_refused = 0;

 private:
  Token token() { return static_cast<Token>(rng_.between(0, knobs_.n_vocab - 1)); }
  bool exact() const {
    return knobs_.hash_bits == 0 && (knobs_.window == 0 || knobs_.n_elsewhere == 0) && knobs_.policy == "lru";
  }  // with collisions the model cannot say what is found
  int blocks(int n_tokens) const { return (n_tokens + knobs_.block_tokens - 1) / knobs_.block_tokens; }
  KvGroup window() const { return {KvGroup::Kind::window, knobs_.window, knobs_.n_kept}; }
  size_t first_block(int n_tokens) const {
    return static_cast<size_t>(window().first_block(n_tokens, knobs_.block_tokens));
  }
  size_t n_kept_blocks() const { return static_cast<size_t>(window().kept_blocks(knobs_.block_tokens)); }
  // Whether the sequence has the window's block b.
  bool holds(const Seq& seq, size_t b) const { return b >= seq.first_held || b < n_kept_blocks(); }
  uint64_t& cell(const Seq& seq, int p, size_t group = 0) {
    const auto& block = seq.kv.table[static_cast<size_t>(p / knobs_.block_tokens)][group];
    const KvGroupView view = cache_->view().groups[group];
    return reinterpret_cast<uint64_t*>(view.base + block.id() * view.block_bytes)[p % knobs_.block_tokens];
  }
  int n_holders(const std::string& path) const {
    int n = 0;
    for (const auto& seq : seqs_) n += static_cast<int>(std::count(seq->paths.begin(), seq->paths.end(), path));
    for (const auto& pin : pinned_) n += static_cast<int>(std::count(pin->paths.begin(), pin->paths.end(), path));
    for (const Run& run : runs_) {
      n += static_cast<int>(std::count(run.before.begin(), run.before.end(), path));
      const auto end = run.paths.begin() + static_cast<std::ptrdiff_t>(run.fetch.n_arrived());
      n += static_cast<int>(std::count(run.paths.begin(), end, path));
    }
    return n;
  }
  int n_window_holders(const std::string& path) const {
    int n = 0;
    for (const auto* seqs : {&seqs_, &pinned_}) {
      for (const auto& seq : *seqs) {
        for (size_t b = 0; b < seq->paths.size(); ++b) n += holds(*seq, b) && seq->paths[b] == path ? 1 : 0;
      }
    }
    return n;
  }
  int n_window_free() const {
    auto n = static_cast<int64_t>(knobs_.n_window_blocks) - static_cast<int64_t>(kept_.size());
    for (const auto& seq : seqs_) {
      for (size_t b = 0; b < seq->paths.size(); ++b) n -= holds(*seq, b) && seq->paths[b].empty() ? 1 : 0;
    }
    return static_cast<int>(n);
  }
  // The sequence holds the window's block b no more.
  void give_back(Seq& seq, size_t b) {
    const std::string path = std::exchange(seq.paths[b], "given back");
    if (!path.empty() && n_window_holders(path) == 0) idle_.push_back(path);
    seq.paths[b] = path;
  }
  void give_back_from(Seq& seq, size_t n_keep) {
    for (size_t b = seq.paths.size(); b > n_keep; --b) {
      if (holds(seq, b - 1)) give_back(seq, b - 1);
    }
  }
  void slide(Seq& seq) {
    cache_->slide(seq.kv, seq.n_computed);
    const size_t end = std::min(first_block(seq.n_computed), seq.paths.size());
    while (seq.first_held < end) {
      if (seq.first_held >= n_kept_blocks()) give_back(seq, seq.first_held);
      ++seq.first_held;
    }
  }
  void touch(const Seq& seq, int n_blocks) {  // deepest first
    for (int b = n_blocks; b >= 1; --b) known_[seq.path(b, knobs_.block_tokens)] = ++clock_;
  }

  Seq* any() { return seqs_[static_cast<size_t>(rng_.between(0, static_cast<int64_t>(seqs_.size()) - 1))].get(); }

  // A new sequence; of `parent` a second one with the same tokens and one of its own behind them, which shares its full
  // blocks (n > 1) and takes a copy of what follows them.
  void start(Seq* parent) {
    auto seq = std::make_unique<Seq>();
    if (parent != nullptr) {
      index(*parent);
      seq->key = parent->key;
      seq->tokens = parent->tokens;
      seq->extras = parent->extras;
      seq->n_base = parent->n_base;
      seq->tokens.push_back(token());
      enter(std::move(seq));
      if (!testing::Test::HasFailure()) copy_next_block(*seqs_.back(), *parent);
      return;
    }
    seq->key.salt = static_cast<uint64_t>(rng_.between(0, knobs_.n_keys - 1));
    const auto n = static_cast<int>(rng_.between(1, 3 * knobs_.block_tokens + 2));
    for (int i = 0; i < n; ++i) seq->tokens.push_back(token());
    if (rng_.between(0, 3) == 0) {
      const auto pos = static_cast<int>(rng_.between(0, n - 1));
      seq->extras.push_back(
          {pos, static_cast<int>(rng_.between(1, 2)), {static_cast<uint64_t>(rng_.between(1, 2)), 0}});
    }
    if (rng_.between(0, 3) == 0) {
      seq->key.adapter = static_cast<uint64_t>(rng_.between(1, 2));
      seq->n_base = static_cast<int>(rng_.between(0, n));
    }
    enter(std::move(seq));
    if (!testing::Test::HasFailure() && seqs_.back()->fresh && rng_.between(0, 1) == 0) copy_part(*seqs_.back());
  }

  void enter(std::unique_ptr<Seq> seq) {
    const auto n = static_cast<int>(seq->tokens.size());
    const int found = cache_->match(seq->kv, seq->prefix());
    ASSERT_EQ(found % knobs_.block_tokens, 0);
    ASSERT_LT(found, n);
    const int n_found = found / knobs_.block_tokens;
    if (exact()) {
      ASSERT_EQ(n_found, expected_hit(*seq)) << "hit of " << seq->path(blocks(n) - 1, knobs_.block_tokens);
      touch(*seq, n_found);
    }
    seq->first_held = std::min(first_block(found), static_cast<size_t>(n_found));
    for (int b = 1; b <= n_found; ++b) {
      const std::string path = seq->path(b, knobs_.block_tokens);
      seq->paths.push_back(path);
      if (holds(*seq, static_cast<size_t>(b) - 1)) std::erase(idle_, path);
      if (exact() && knobs_.window > 0 && !kept_.contains(path)) ++n_hits_behind_a_gap;
    }
    seq->n_computed = found;
    n_hits += n_found;
    seqs_.push_back(std::move(seq));
    check();
    if (knobs_.n_elsewhere > 0 && !testing::Test::HasFailure()) fetch(*seqs_.back());
  }

  // REQUIRES `to` to begin with all tokens of `from` and to have what it found alone.
  void copy_next_block(Seq& to, const Seq& from) {
    const int n_had = to.n_computed;
    const int n = std::min(from.n_computed, n_had + knobs_.block_tokens);
    if (n <= n_had) return;
    const int n_free = cache_->n_free_blocks();
    bool possible = n_free + cache_->n_cached_blocks() > 0;
    if (knobs_.window > 0) {
      possible &= cache_->pool(1).n_free() + cache_->pool(1).n_cached() > 0 && holds(from, to.paths.size());
    }
    ASSERT_EQ(cache_->copy_next_block(to.kv, from.kv), possible);
    if (!possible) {
      ++n_refused;
      return;
    }
    if (exact()) evict_in_model(1 - n_free);
    if (exact()) evict_window_in_model(1);
    to.paths.resize(to.kv.table.size());
    to.n_computed = n;
    to.fresh = false;
    ++n_copied;
    ASSERT_TRUE(cache_->exclusive(to.kv, n_had, n)) << "a copy is its owner's alone";
  }

  // Leaves that nobody holds, least recently used first.
  void evict_in_model(int n) {
    for (; n > 0; --n) {
      const std::string* oldest = nullptr;
      for (const auto& [path, used] : known_) {
        const auto next = known_.upper_bound(path);
        const bool leaf = next == known_.end() || !next->first.starts_with(path);
        if (leaf && n_holders(path) == 0 && (oldest == nullptr || used < known_[*oldest])) oldest = &path;
      }
      ASSERT_NE(oldest, nullptr);
      const std::string path = *oldest;
      const uint64_t used = known_[path];
      std::erase(idle_, path);
      kept_.erase(path);
      known_.erase(path);
      ++n_evicted;
      leaves_for_tier(path, used);
    }
  }

  // As many as `wanted` blocks lack: first given back, first lost.
  void evict_window_in_model(int wanted) {
    if (knobs_.window == 0) return;
    for (int missing = wanted - n_window_free(); missing > 0; --missing) {
      ASSERT_FALSE(idle_.empty());
      kept_.erase(idle_.front());
      idle_.erase(idle_.begin());
      ++n_window_evicted;
    }
  }

  void compute(Seq& seq) {
    const int pending = static_cast<int>(seq.tokens.size()) - seq.n_computed;
    if (pending == 0) return;
    const int target = seq.n_computed + static_cast<int>(rng_.between(1, pending));
    const int wanted = blocks(target) - static_cast<int>(seq.kv.table.size());
    const int n_free = cache_->n_free_blocks();
    bool possible = wanted <= n_free + cache_->n_cached_blocks();
    if (knobs_.window > 0) possible &= wanted <= cache_->pool(1).n_free() + cache_->pool(1).n_cached();
    const bool grown = cache_->grow(seq.kv, target);
    ASSERT_EQ(grown, possible);
    if (!grown) {
      ++n_refused;
      ASSERT_EQ(cache_->n_free_blocks(), n_free);
      return;
    }
    if (exact()) evict_in_model(wanted - n_free);
    if (exact()) evict_window_in_model(wanted);
    seq.fresh = false;
    seq.paths.resize(seq.kv.table.size());
    ASSERT_TRUE(cache_->exclusive(seq.kv, seq.n_computed, target));
    for (int p = seq.n_computed; p < target; ++p) {
      cell(seq, p) = seq.content(p);
      if (knobs_.window > 0) cell(seq, p, 1) = seq.content(p);
    }
    seq.n_computed = target;
  }

  void index(Seq& seq) {
    const int n_full = seq.n_computed / knobs_.block_tokens;
    const bool fresh = n_full > seq.kv.n_indexed;
    cache_->index(seq.kv, seq.prefix(), seq.n_computed);
    if (!fresh) return;
    for (int b = 1; b <= n_full; ++b) {
      const std::string path = seq.path(b, knobs_.block_tokens);
      overtake(path);
      known_.try_emplace(path, 0);
      elsewhere_.erase(path);
      seq.paths[static_cast<size_t>(b) - 1] = path;
      if (!holds(seq, static_cast<size_t>(b) - 1)) continue;
      kept_.insert(path);
      std::erase(idle_, path);
    }
    touch(seq, n_full);
  }

  void truncate(Seq& seq) {
    auto n = static_cast<int>(rng_.between(0, static_cast<int64_t>(seq.tokens.size())));
    if (n < seq.kv.n_indexed * knobs_.block_tokens) n = n / knobs_.block_tokens * knobs_.block_tokens;
    const size_t first = std::max(first_block(n), n_kept_blocks());
    if (knobs_.window > 0 && first < seq.first_held && first < static_cast<size_t>(blocks(n))) return;
    give_back_from(seq, static_cast<size_t>(blocks(n)));
    cache_->truncate(seq.kv, n);
    seq.tokens.resize(static_cast<size_t>(n));
    std::erase_if(seq.extras, [n](const Extra& extra) { return extra.pos >= n; });
    seq.n_computed = std::min(seq.n_computed, n);
    seq.fresh = false;
    seq.paths.resize(seq.kv.table.size());
    seq.first_held = std::min(seq.first_held, seq.paths.size());
    for (size_t b = static_cast<size_t>(seq.kv.n_indexed); b < seq.paths.size(); ++b) seq.paths[b].clear();
    seq.tokens.push_back(token());  // never empty
  }

  void check() {
    ASSERT_EQ(cache_->check(), "");
    int64_t n_refs = 0, n_tables = 0, n_told = std::ssize(tier_.told);
    for (int32_t b = 0; b < knobs_.n_blocks; ++b) n_refs += cache_->n_refs(b);
    for (const auto& seq : seqs_) {
      n_tables += static_cast<int64_t>(seq->kv.table.size());
      for (int p = 0; p < seq->n_computed; ++p) ASSERT_EQ(cell(*seq, p), seq->content(p)) << "position " << p;
    }
    if (knobs_.window > 0) check_window();
    for (const Run& run : runs_) n_tables += static_cast<int64_t>(run.before.size() + run.paths.size());
    for (const Run& run : runs_) n_told += n_loading(*cache_, run.fetch);
    check_pins(n_tables);
    ASSERT_EQ(n_refs, n_tables + cache_->n_indexed_blocks());
    ASSERT_EQ(n_told, cache_->n_indexed_blocks());
    if (!exact()) return;
    int n_private = 0;
    int n_cached = 0;
    for (const auto& seq : seqs_) n_private += static_cast<int>(std::count(seq->paths.begin(), seq->paths.end(), ""));
    for (const auto& entry : known_) n_cached += n_holders(entry.first) == 0 ? 1 : 0;
    for (const Run& run : runs_) {
      for (size_t i = 0; i < run.paths.size(); ++i) n_private += run.paths[i].empty() || i >= run.fetch.n_arrived();
    }
    ASSERT_EQ(cache_->n_indexed_blocks(), static_cast<int>(known_.size() + loading_.size()));
    ASSERT_EQ(cache_->n_blocks_elsewhere(), static_cast<int>(elsewhere_.size()));
    ASSERT_EQ(cache_->n_cached_blocks(), n_cached);
    ASSERT_EQ(cache_->n_free_blocks(), knobs_.n_blocks - n_private - static_cast<int>(known_.size()));
    ASSERT_TRUE(tier_.decisions.empty());
  }

  void check_window() {
    for (const auto& seq : seqs_) {
      for (size_t b = 0; b < seq->kv.table.size(); ++b) {
        ASSERT_EQ(static_cast<bool>(seq->kv.table[b][1]), holds(*seq, b)) << "block " << b;
      }
      for (int p = 0; p < seq->n_computed; ++p) {
        if (!holds(*seq, static_cast<size_t>(p / knobs_.block_tokens))) continue;
        ASSERT_EQ(cell(*seq, p, 1), seq->content(p)) << "position " << p << " of the window";
      }
    }
    if (!exact()) return;
    ASSERT_EQ(cache_->pool(1).n_cached(), static_cast<int>(idle_.size()));
    ASSERT_EQ(cache_->pool(1).n_free(), n_window_free());
  }

  // What is found: test_twin_found.h.
  // The deepest known block before whose end the window is whole.
  int expected_hit(const Seq& seq) const;
  // Of the paths that go on behind what `seq` has found, the one with most of its next tokens, and how many.
  std::pair<std::string, int> expected_part(const Seq& seq) const;
  // REQUIRES `seq` to have what it found alone.
  void copy_part(Seq& seq);

  // With pins: test_twin_pins.h.
  void use_pins();
  int n_pinned_blocks(size_t group) const;
  bool pins_fit() const;
  void pin(Seq& of);
  void unpin(size_t i);
  void check_pins(int64_t& n_held);

  // With a tier: test_twin_tier.h.
  void use_tier();
  // What eviction has just asked the tier about.
  void leaves_for_tier(const std::string& path, uint64_t used);
  void goes_elsewhere(const std::string& path, uint64_t used);
  std::string oldest_elsewhere();
  // What is elsewhere behind what `seq` has, as far as it goes; `loading`: the first is on its way.
  std::vector<std::string> expected_missing(const Seq& seq, bool& loading) const;
  // Of a sequence that has what match found.
  void fetch(const Seq& seq);
  void arrive(Run& run);
  void lose(Run& run);
  // The rest of what loads, from block i of a run on, is elsewhere again.
  void back(Run& run, size_t i);
  void give_up(Run& run);
  // Somebody has computed what was on its way.
  void overtake(const std::string& path);
  void extend(Seq& seq);
  void learn(const Seq& seq);

  Knobs knobs_;
  Rng rng_;
  TestTier tier_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Pins> pins_;
  uint64_t n_pin_ids_ = 0;
  std::vector<std::unique_ptr<Seq>> pinned_;             // of each pin what it is of; the blocks are pins_'
  std::vector<std::unique_ptr<Seq>> seqs_;               // destroyed before the cache, whose blocks they hold
  std::map<std::string, uint64_t> known_;                // path → last use
  std::map<std::string, uint64_t> loading_, elsewhere_;  // likewise
  std::vector<Run> runs_;
  std::set<std::string> kept_;     // paths whose node has its block of the window
  std::vector<std::string> idle_;  // those of them that no sequence holds, given back first first
  uint64_t clock_ = 0;
};

}  // namespace quire

#include "kv/test_twin_found.h"
#include "kv/test_twin_pins.h"
#include "kv/test_twin_tier.h"
