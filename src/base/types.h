// The two numbers that every room passes around.
#pragma once
#include <cstdint>

namespace quire {

using Token = int32_t;   // an id of the vocabulary; negative means "none"
using SeqId = uint64_t;  // names a running sequence for the life of the process; never reused, 0 means "none"

}  // namespace quire
