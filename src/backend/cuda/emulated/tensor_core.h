// How a tensor core sums products of bf16 into a float: the twin of mma.m16n8k16. NVIDIA does not say how; this follows
// the model that MMA-Sim's authors found by probing (arXiv 2511.10909). All terms, products and what was summed before,
// are shifted to the largest exponent among them, cut off below its fraction_bits-th bit, added exactly, and the sum is
// cut off to a float. A product is not normalised first: its exponent is its factors' together, so it is below 4,
// not 2. Where the model leaves open what a device does, a member says what is taken; tests/device/mma_check.h tries
// the others where a device differs.
#pragma once
#include <cstdint>
#include <string>

namespace quire::emulated {

// Whose exponent counts for the largest although its product is zero: none; each, as -126; each, as its factors'
// together, where a zero's is -126.
enum class ZeroExponent : uint8_t { none, least, of_factors };

struct TensorCore {
  int fraction_bits = 25;
  int n_together = 16;                     // products of one sum; the next ones begin with it
  ZeroExponent zero = ZeroExponent::none;  // found on a device (9.0)
  bool is_normalised = false;              // a product's exponent is its own
  bool is_floored = false;                 // terms are cut off towards minus infinity, as those of two's complement are
  bool is_rounded = false;                 // a sum becomes the nearest float, of two the even one
  bool is_flushed = false;                 // subnormal operands are zeros
  bool is_saturated = false;               // what is too large for a float is the largest one, not infinity
  bool operator==(const TensorCore&) const = default;
};

constexpr TensorCore kHopperCore;                                           // compute capability 9.0, and 10.x
constexpr TensorCore kAmpereCore = {.fraction_bits = 24, .n_together = 8};  // 8.x

inline constexpr uint32_t kTensorCoreNan = 0x7fffffff;  // the only one it makes

// Bits of the float c + Σ a[i] · b[i], i < n; n is a multiple of n_together. a, b: bf16. c: bits of a float.
uint32_t sum_of_products(const TensorCore& core, const uint16_t* a, const uint16_t* b, int n, uint32_t c);

std::string describe(const TensorCore& core);  // for people

}  // namespace quire::emulated
