// SHA-256, and a comparison that takes the same time wherever two digests differ. Both are OpenSSL's, which stays
// behind this header. Any thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
bool same_digest(const Sha256& a, const Sha256& b);
// 64 hexadecimal digits, as sha256sum prints them; nullopt for anything else.
std::optional<Sha256> parse_sha256(std::string_view hex);
std::string hex_of(std::span<const uint8_t> digest);

}  // namespace quire
