// The most that ops with a state take: what a kernel has room for on its stack.
#pragma once

namespace quire {

inline constexpr int kMostTaps = 16;            // of a short convolution
inline constexpr int kMostStateDim = 256;       // components that a state keeps for each of a head's
inline constexpr double kLengthEpsilon = 1e-6;  // of a delta rule: added to the square of a query's or key's length

}  // namespace quire
