// Whose an address is, as a number: an IPv4 address by itself, of an IPv6 address the network (the first 64 bits), for
// who has one has all of it. What is no address is by itself. Mixed with a secret, so that nobody can look for an
// address that has another's number. Never 0. Pure.
#pragma once
#include <cstdint>
#include <string>

namespace quire {

uint64_t address_number(const std::string& address, uint64_t secret);

}  // namespace quire
