// 128-bit hashes of bytes: XXH3 with a seed. Not cryptographic: who can choose the bytes and knows the seed can make
// two that collide, so a user of such names compares what they stand for, or draws the seed at random. Equal bytes and
// seeds have equal hashes in every process and on every machine. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire {

struct Hash128 {
  uint64_t lo = 0, hi = 0;
  auto operator<=>(const Hash128&) const = default;
};

Hash128 hash128(const void* data, size_t bytes, uint64_t seed);
inline Hash128 hash128(std::span<const std::byte> bytes, uint64_t seed) {
  return hash128(bytes.data(), bytes.size(), seed);
}

// 32 hexadecimal digits, hi first, and back; false, and `out` as it was, for anything else.
std::string to_hex(const Hash128& hash);
bool from_hex(std::string_view text, Hash128& out);

}  // namespace quire
