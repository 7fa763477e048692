#include "serve/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string_view>

#include "base/rng.h"

namespace quire {

uint64_t address_number(const std::string& address, uint64_t secret) {
  std::string_view bytes = address;
  in6_addr v6{};
  if (const std::string plain = address.substr(0, address.find('%')); inet_pton(AF_INET6, plain.c_str(), &v6) == 1) {
    const std::string_view all(reinterpret_cast<const char*>(&v6), sizeof(v6));
    bytes = IN6_IS_ADDR_V4MAPPED(&v6) ? all.substr(12) : all.substr(0, 8);
  }
  in_addr v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1)
    bytes = std::string_view(reinterpret_cast<const char*>(&v4), sizeof(v4));
  uint64_t h = mix64(secret ^ bytes.size());
  for (const char c : bytes) h = mix64(h ^ static_cast<unsigned char>(c)) + secret;
  return std::max<uint64_t>(mix64(h), 1);
}

}  // namespace quire
