// The vector vocabulary on AVX-512 with VNNI.
#pragma once
#include "backend/cpu/isa/avx512/lanes.h"

namespace quire {
namespace {

using Vec = Avx512Lanes;

}  // namespace
}  // namespace quire
