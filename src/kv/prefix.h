// What a block of cached keys and values is called: everything that led to it, and the hashes of that, chained along a
// path, so that a block's hash stands for all before it. Two kinds of hash are made in the same way: those of this
// process, seeded at random, so that nobody outside can choose tokens that crowd its table or collide; and names, which
// outlive the process, under a seed that never changes. Whoever finds a block by either compares what it spells.
// Plain values; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash128.h"
#include "base/types.h"

namespace quire {

// Everything but the tokens that cached keys and values depend on. Different keys never share.
struct CacheKey {
  uint64_t model = 0;  // ModelInfo::fingerprint, codecs and numerics version mixed in
  uint64_t adapter = 0;
  uint64_t salt = 0;  // who may share
  bool operator==(const CacheKey&) const = default;
};

// What stands at positions [pos, pos + len) besides token ids (an image, virtual tokens): part of the key from there
// on. Where it begins and ends counts too: under equal placeholder tokens an image may lie in different places.
struct Extra {
  int pos = 0, len = 0;
  Hash128 hash;
  bool operator==(const Extra&) const = default;
};

struct Prefix {
  std::span<const Token> tokens;
  CacheKey key;
  std::span<const Extra> extras;  // ascending by position
  int n_public = 0;               // leading tokens that are no secret: their whole blocks are under salt 0
  uint64_t whose = 0;             // the tenant that asks, as an opaque number; no part of a block's name
  // Leading tokens that the key's adapter adds nothing to: their whole blocks are under adapter 0, as the model's own.
  // Where it begins behind them is part of the key from there on, as an extra is.
  int n_base = 0;
};

// A prefix cut into blocks.
struct PrefixBlocks {
  const Prefix& prefix;
  int block_tokens;

  std::span<const Token> tokens(int block) const;
  CacheKey key(int block) const;
  std::vector<Extra> extras(int block) const;  // that reach into it, ascending; the beginning of an adapter is one
  int n_public() const { return prefix.key.salt == 0 ? 0 : prefix.n_public / block_tokens; }
};

class PathHasher {
 public:
  using Fn = Hash128 (*)(const void* data, size_t bytes, uint64_t seed);

  PathHasher(Fn fn, uint64_t seed) : fn_(fn), seed_(seed) {}
  // Of names that outlive the process. Another seed would be another format of everything that is stored under them.
  static PathHasher of_names() { return {hash128, 0x51756972654b5631ULL}; }
  // Seeded at random. `fn` null: XXH3.
  static PathHasher of_process(Fn fn);

  // What a path under this key begins with.
  Hash128 root(const CacheKey& key) const;
  // Of a block whose parent, or root, has the hash `above`.
  Hash128 block(const Hash128& above, const PrefixBlocks& blocks, int block) const;

 private:
  Fn fn_;
  uint64_t seed_;
};

}  // namespace quire
