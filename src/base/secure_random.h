// Numbers that nobody can foretell, whatever others they have seen: the system's cryptographic generator. Any thread.
#pragma once
#include <cstdint>

namespace quire {

uint64_t secure_random_bits();

}  // namespace quire
