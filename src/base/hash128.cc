#include "base/hash128.h"

#define XXH_INLINE_ALL  // the header only, no library to link
#include <xxhash.h>

#include <charconv>

namespace quire {

Hash128 hash128(const void* data, size_t bytes, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, seed);
  return {h.low64, h.high64};
}

std::string to_hex(const Hash128& hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const uint64_t half : {hash.hi, hash.lo}) {
    for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[half >> shift & 15U];
  }
  return out;
}

bool from_hex(std::string_view text, Hash128& out) {
  if (text.size() != 32) return false;
  Hash128 hash;
  for (const auto& [half, at] : {std::pair{&hash.hi, text.data()}, std::pair{&hash.lo, text.data() + 16}}) {
    const auto [end, error] = std::from_chars(at, at + 16, *half, 16);
    if (error != std::errc() || end != at + 16) return false;
  }
  out = hash;
  return true;
}

}  // namespace quire
