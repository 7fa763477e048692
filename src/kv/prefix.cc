#include "kv/prefix.h"

#include <algorithm>
#include <random>

namespace quire {
namespace {

constexpr uint64_t kAdapterBegins = 0x616c6f7261ULL;  // what stands there is no image, but an adapter's beginning

}  // namespace

std::span<const Token> PrefixBlocks::tokens(int block) const {
  const auto n = static_cast<size_t>(block_tokens);
  return prefix.tokens.subspan(static_cast<size_t>(block) * n, n);
}

CacheKey PrefixBlocks::key(int block) const {
  CacheKey key = prefix.key;
  if (block < n_public()) key.salt = 0;
  if (block < prefix.n_base / block_tokens) key.adapter = 0;
  return key;
}

std::vector<Extra> PrefixBlocks::extras(int block) const {
  const int begin = block * block_tokens, end = begin + block_tokens;
  std::vector<Extra> out;
  for (const Extra& extra : prefix.extras) {
    if (extra.pos < end && extra.pos + extra.len > begin) out.push_back(extra);
  }
  // One that adds to all tokens stands in the root.
  const bool begins = prefix.key.adapter != 0 && prefix.n_base > 0 && prefix.n_base / block_tokens == block;
  if (begins) {
    const auto at = std::ranges::upper_bound(out, prefix.n_base, {}, &Extra::pos);
    out.insert(at, {prefix.n_base, 1, {prefix.key.adapter, kAdapterBegins}});
  }
  return out;
}

PathHasher PathHasher::of_process(Fn fn) {
  std::random_device random;
  const uint64_t seed = (static_cast<uint64_t>(random()) << 32) | random();
  const Fn own = hash128;
  return {fn != nullptr ? fn : own, seed};
}

Hash128 PathHasher::root(const CacheKey& key) const {
  const uint64_t words[] = {key.model, key.adapter, key.salt};
  return fn_(words, sizeof words, seed_);
}

// Behind public blocks the salt enters, so that equal tokens of two tenants are two nodes there.
Hash128 PathHasher::block(const Hash128& above, const PrefixBlocks& blocks, int block) const {
  Hash128 parent = above;
  if (block > 0 && block == blocks.n_public()) {
    const uint64_t words[] = {above.lo, above.hi, blocks.prefix.key.salt};
    parent = fn_(words, sizeof words, seed_);
  }
  const std::span<const Token> tokens = blocks.tokens(block);
  Hash128 hash = fn_(tokens.data(), tokens.size_bytes(), parent.lo ^ seed_);
  hash.hi ^= parent.hi;
  for (const Extra& extra : blocks.extras(block)) {
    const uint64_t words[] = {
        hash.lo,       hash.hi,      static_cast<uint64_t>(extra.pos), static_cast<uint64_t>(extra.len),
        extra.hash.lo, extra.hash.hi};
    hash = fn_(words, sizeof words, seed_);
  }
  return hash;
}

}  // namespace quire
