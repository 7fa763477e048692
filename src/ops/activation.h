// What the hidden numbers of a feed-forward unit go through; a header of its own, since kernels may include no more.
#pragma once
#include <cstdint>

namespace quire {

// act(gate) · up, and where a unit has no gate act(up) alone (docs/numerics.md). clamped_silu is of gated units only:
// it changes up too. none is the number itself; below_zero is what an exponential has over its tangent, where x < 0.
enum class Activation : uint8_t { silu, gelu_tanh, gelu_erf, relu2, clamped_silu, sigmoid, none, below_zero };
inline constexpr int kActivations = 8;

}  // namespace quire
