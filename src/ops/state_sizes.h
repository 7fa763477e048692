// The most that ops with a state take: what a kernel has room for on its stack.
#pragma once

namespace quire {

inline constexpr int kMostTaps = 16;       // of a short convolution
inline constexpr int kMostStateDim = 256;  // components that a scan keeps for each of a head's

}  // namespace quire
