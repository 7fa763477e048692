// The sixteen four-bit floats (e2m1) as levels: twice the numbers, so that they are whole.
#pragma once
#include "quant/levels.h"

namespace quire {

using Fp4Levels = Table<0x0c08060403020100, 0xf4f8fafcfdfeff00, 12>;
inline constexpr float kMostFp4 = 6;

}  // namespace quire
