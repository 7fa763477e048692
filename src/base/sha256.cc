#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace quire {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  Sha256 out{};
  unsigned n = 0;
  QR_CHECK(EVP_Digest(bytes.data(), bytes.size(), out.data(), &n, EVP_sha256(), nullptr) == 1 && n == out.size());
  return out;
}

bool same_digest(const Sha256& a, const Sha256& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

std::optional<Sha256> parse_sha256(std::string_view hex) {
  Sha256 out{};
  if (hex.size() != 2 * out.size()) return std::nullopt;
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return out;
}

std::string hex_of(std::span<const uint8_t> digest) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : digest) {
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

}  // namespace quire
