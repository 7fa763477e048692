// KvCache against a naive model: a map from (key, path of tokens) to when it was used last, and per sequence a list of
// paths. The model predicts every hit, every eviction and every counter. The bytes of each block hold a hash of all
// that led to them, so a block that is found under a wrong path, or written while somebody reads it, shows in its
// content.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/rng.h"
#include "kv/kv_cache.h"

namespace quire {
namespace {

struct Knobs {
  uint64_t seed = 0;
  int block_tokens = 1, n_blocks = 1, n_vocab = 2, n_keys = 1, hash_bits = 0;  // hash_bits 0: the real one
};

template <int kBits>
Hash128 narrow_hash(const void* data, size_t bytes, uint64_t) {
  uint64_t h = 0;
  for (size_t i = 0; i < bytes; ++i) h = mix64(h ^ static_cast<const uint8_t*>(data)[i]);
  return {h & ((1U << kBits) - 1), 0};
}

PrefixTree::HashFn hash_of(int bits) { return bits == 0 ? nullptr : bits == 1 ? narrow_hash<1> : narrow_hash<4>; }

struct Seq {
  std::vector<Token> tokens;
  CacheKey key;
  std::vector<Extra> extras;
  int n_computed = 0;
  SeqKv kv;
  std::vector<std::string> paths;  // the model's table: the known path of each block, empty for a private one

  Prefix prefix() const { return {tokens, key, extras}; }

  // What position p's keys and values are a function of.
  uint64_t content(int p) const {
    uint64_t h = mix64(key.salt);
    for (const Extra& extra : extras) {
      if (extra.pos <= p) h = mix64(h ^ extra.hash.lo ^ static_cast<uint64_t>(extra.pos * 64 + extra.len));
    }
    for (int i = 0; i <= p; ++i) h = mix64(h ^ static_cast<uint64_t>(tokens[static_cast<size_t>(i)]));
    return h;
  }
  // The model's name of blocks [0, n) of this sequence.
  std::string path(int n, int block_tokens) const {
    std::string out(1, static_cast<char>('A' + key.salt));
    for (int p = 0; p < n * block_tokens; ++p) {
      out += static_cast<char>('a' + tokens[static_cast<size_t>(p)]);
      for (const Extra& extra : extras) {
        if (extra.pos == p) out += "(" + std::to_string(extra.hash.lo) + "," + std::to_string(extra.len) + ")";
      }
      if ((p + 1) % block_tokens == 0) out += '|';  // so that only a child's path begins with its parent's
    }
    return out;
  }
};

class Twin {
 public:
  explicit Twin(const Knobs& knobs) : knobs_(knobs), rng_(knobs.seed) {
    KvLayout layout;
    layout.claim(KvGroup{}, sizeof(uint64_t));
    const int64_t bytes = int64_t{8} * knobs.block_tokens * knobs.n_blocks;
    std::vector<Buffer> memory;
    memory.push_back(std::move(*Buffer::allocate(bytes)));
    cache_ = std::make_unique<KvCache>(
        layout, std::move(memory), KvCacheOptions{knobs.block_tokens, knobs.n_blocks, true, hash_of(knobs.hash_bits)});
  }

  void run(int n_ops) {
    for (int op = 0; op < n_ops && !testing::Test::HasFailure(); ++op) {
      const int64_t what = rng_.between(0, 9);
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
      } else {
        cache_->release(seqs_[i]->kv);
        seqs_.erase(seqs_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      check();
    }
  }
  int n_hits = 0, n_evicted = 0, n_refused = 0, n_copied = 0;

 private:
  Token token() { return static_cast<Token>(rng_.between(0, knobs_.n_vocab - 1)); }
  bool exact() const { return knobs_.hash_bits == 0; }  // with collisions the model cannot say what is found
  int blocks(int n_tokens) const { return (n_tokens + knobs_.block_tokens - 1) / knobs_.block_tokens; }
  uint64_t& cell(const Seq& seq, int p) {
    const auto& block = seq.kv.table[static_cast<size_t>(p / knobs_.block_tokens)][0];
    const KvGroupView view = cache_->view().groups[0];
    return reinterpret_cast<uint64_t*>(view.base + block.id() * view.block_bytes)[p % knobs_.block_tokens];
  }
  int n_holders(const std::string& path) const {
    int n = 0;
    for (const auto& seq : seqs_) n += static_cast<int>(std::count(seq->paths.begin(), seq->paths.end(), path));
    return n;
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
    enter(std::move(seq));
  }

  void enter(std::unique_ptr<Seq> seq) {
    const auto n = static_cast<int>(seq->tokens.size());
    const int found = cache_->match(seq->kv, seq->prefix());
    ASSERT_EQ(found % knobs_.block_tokens, 0);
    ASSERT_LT(found, n);
    const int n_found = found / knobs_.block_tokens;
    if (exact()) {
      int expected = 0;
      while (expected < (n - 1) / knobs_.block_tokens &&
             known_.contains(seq->path(expected + 1, knobs_.block_tokens))) {
        ++expected;
      }
      ASSERT_EQ(n_found, expected) << "hit of " << seq->path(blocks(n) - 1, knobs_.block_tokens);
      touch(*seq, n_found);
    }
    for (int b = 1; b <= n_found; ++b) seq->paths.push_back(seq->path(b, knobs_.block_tokens));
    seq->n_computed = found;
    n_hits += n_found;
    seqs_.push_back(std::move(seq));
    check();
  }

  // REQUIRES `to` to begin with all tokens of `from` and to have what it found alone.
  void copy_next_block(Seq& to, const Seq& from) {
    const int n_had = to.n_computed;
    const int n = std::min(from.n_computed, n_had + knobs_.block_tokens);
    if (n <= n_had) return;
    const int n_free = cache_->n_free_blocks();
    const bool possible = n_free + cache_->n_cached_blocks() > 0;
    ASSERT_EQ(cache_->copy_next_block(to.kv, from.kv), possible);
    if (!possible) {
      ++n_refused;
      return;
    }
    if (exact()) evict_in_model(1 - n_free);
    to.paths.resize(to.kv.table.size());
    to.n_computed = n;
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
      known_.erase(std::string(*oldest));
      ++n_evicted;
    }
  }

  void compute(Seq& seq) {
    const int pending = static_cast<int>(seq.tokens.size()) - seq.n_computed;
    if (pending == 0) return;
    const int target = seq.n_computed + static_cast<int>(rng_.between(1, pending));
    const int wanted = blocks(target) - static_cast<int>(seq.kv.table.size());
    const int n_free = cache_->n_free_blocks();
    const bool possible = wanted <= n_free + cache_->n_cached_blocks();
    const bool grown = cache_->grow(seq.kv, target);
    ASSERT_EQ(grown, possible);
    if (!grown) {
      ++n_refused;
      ASSERT_EQ(cache_->n_free_blocks(), n_free);
      return;
    }
    if (exact()) evict_in_model(wanted - n_free);
    seq.paths.resize(seq.kv.table.size());
    ASSERT_TRUE(cache_->exclusive(seq.kv, seq.n_computed, target));
    for (int p = seq.n_computed; p < target; ++p) cell(seq, p) = seq.content(p);
    seq.n_computed = target;
  }

  void index(Seq& seq) {
    const int n_full = seq.n_computed / knobs_.block_tokens;
    const bool fresh = n_full > seq.kv.n_indexed;
    cache_->index(seq.kv, seq.prefix(), seq.n_computed);
    if (!fresh) return;
    for (int b = 1; b <= n_full; ++b) seq.paths[static_cast<size_t>(b) - 1] = seq.path(b, knobs_.block_tokens);
    touch(seq, n_full);
  }

  void truncate(Seq& seq) {
    auto n = static_cast<int>(rng_.between(0, static_cast<int64_t>(seq.tokens.size())));
    if (n < seq.kv.n_indexed * knobs_.block_tokens) n = n / knobs_.block_tokens * knobs_.block_tokens;
    cache_->truncate(seq.kv, n);
    seq.tokens.resize(static_cast<size_t>(n));
    std::erase_if(seq.extras, [n](const Extra& extra) { return extra.pos >= n; });
    seq.n_computed = std::min(seq.n_computed, n);
    seq.paths.resize(seq.kv.table.size());
    for (size_t b = static_cast<size_t>(seq.kv.n_indexed); b < seq.paths.size(); ++b) seq.paths[b].clear();
    seq.tokens.push_back(token());  // never empty
  }

  void check() {
    ASSERT_EQ(cache_->check(), "");
    int64_t n_refs = 0;
    int64_t n_tables = 0;
    for (int32_t b = 0; b < knobs_.n_blocks; ++b) n_refs += cache_->n_refs(b);
    for (const auto& seq : seqs_) {
      n_tables += static_cast<int64_t>(seq->kv.table.size());
      for (int p = 0; p < seq->n_computed; ++p) ASSERT_EQ(cell(*seq, p), seq->content(p)) << "position " << p;
    }
    ASSERT_EQ(n_refs, n_tables + cache_->n_indexed_blocks());
    if (!exact()) return;
    int n_private = 0;
    int n_cached = 0;
    for (const auto& seq : seqs_) n_private += static_cast<int>(std::count(seq->paths.begin(), seq->paths.end(), ""));
    for (const auto& entry : known_) n_cached += n_holders(entry.first) == 0 ? 1 : 0;
    ASSERT_EQ(cache_->n_indexed_blocks(), static_cast<int>(known_.size()));
    ASSERT_EQ(cache_->n_cached_blocks(), n_cached);
    ASSERT_EQ(cache_->n_free_blocks(), knobs_.n_blocks - n_private - static_cast<int>(known_.size()));
  }

  Knobs knobs_;
  Rng rng_;
  std::unique_ptr<KvCache> cache_;
  std::vector<std::unique_ptr<Seq>> seqs_;  // destroyed before the cache, whose blocks they hold
  std::map<std::string, uint64_t> known_;   // path → last use
  uint64_t clock_ = 0;
};

Knobs random_knobs(uint64_t seed, int hash_bits) {
  Rng rng(seed ^ 0x5eed);
  const int sizes[] = {1, 1, 2, 3, 4, 16};
  Knobs knobs;
  knobs.seed = seed;
  knobs.block_tokens = sizes[rng.between(0, 5)];
  knobs.n_blocks = static_cast<int>(rng.between(1, 14));
  knobs.n_vocab = static_cast<int>(rng.between(1, 3));
  knobs.n_keys = static_cast<int>(rng.between(1, 3));
  knobs.hash_bits = hash_bits;
  return knobs;
}

#ifdef QR_DEBUG
constexpr uint64_t kSlower = 10;  // sanitizers
#else
constexpr uint64_t kSlower = 1;
#endif

constexpr int kOps = 60;  // of one seed

// What is run on every commit, or as many operations as QUIRE_TEST_OPS says (./dev sim: a million).
uint64_t n_seeds_for(uint64_t n_wanted) {
  const char* ops = std::getenv("QUIRE_TEST_OPS");
  return ops != nullptr ? std::strtoull(ops, nullptr, 10) / kOps : n_wanted / kSlower;
}

void expect_all(int hash_bits, uint64_t n_wanted) {
  const uint64_t n_seeds = n_seeds_for(n_wanted);
  int n_hits = 0;
  int n_evicted = 0;
  int n_refused = 0;
  int n_copied = 0;
  for (uint64_t seed = 1; seed <= n_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin twin(random_knobs(seed, hash_bits));
    twin.run(kOps);
    if (testing::Test::HasFailure()) return;
    n_hits += twin.n_hits;
    n_evicted += twin.n_evicted;
    n_refused += twin.n_refused;
    n_copied += twin.n_copied;
  }
  const auto wanted = static_cast<int>(n_seeds);
  EXPECT_GT(n_hits, hash_bits == 1 ? 0 : wanted / 4) << "the test would prove nothing without hits";
  EXPECT_GT(n_refused, wanted / 4);
  EXPECT_GT(n_copied, wanted / 4);
  if (hash_bits == 0) {
    EXPECT_GT(n_evicted, wanted / 2);
  }
}

TEST(KvCacheModel, RandomOperationsAgreeWithANaiveMap) { expect_all(0, 3000); }

TEST(KvCacheModel, CollisionsAreMissesAndNeverWrongBlocks) {
  expect_all(1, 1000);
  expect_all(4, 1000);
}

}  // namespace
}  // namespace quire
