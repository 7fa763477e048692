// The most that ops with a state take: what a kernel has room for on its stack.
#pragma once

namespace quire {

inline constexpr int kMostTaps = 16;            // of a short convolution
inline constexpr int kMostStateDim = 256;       // components that a state keeps for each of a head's
inline constexpr double kLengthEpsilon = 1e-6;  // of a delta rule: added to the square of a query's or key's length
inline constexpr double kWkvFade = 0.6065306597126334;  // e^−½: RWKV 7's states fade by no more than exp of it a row
inline constexpr double kWkvLeastLength = 1e-12;        // that a removed key is divided by

}  // namespace quire
