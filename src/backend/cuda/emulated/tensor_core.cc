#include "backend/cuda/emulated/tensor_core.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

namespace quire::emulated {
namespace {

constexpr int kLeastExponent = -126;
constexpr int kNoExponent = -1000;
constexpr int kPoint = 32;  // bits behind the point of a term
constexpr size_t kMostTogether = 16;
constexpr uint32_t kInfinity = 0x7f800000;

// A float, or a bf16 with zeros behind it: ±significand · 2^(exponent − 23).
struct Operand {
  uint32_t significand;
  int exponent;
};

Operand operand(const TensorCore& core, uint32_t bits) {
  const uint32_t mantissa = bits & 0x7fffff;
  const int stored = static_cast<int>(bits >> 23 & 0xff);
  if (stored == 0) return {core.is_flushed ? 0 : mantissa, kLeastExponent};
  return {mantissa | 0x800000, stored - 127};
}

bool is_nan(uint32_t bits) { return (bits & 0x7fffffff) > kInfinity; }
bool is_infinite(uint32_t bits) { return (bits & 0x7fffffff) == kInfinity; }
bool is_finite(uint32_t bits) { return (bits & kInfinity) != kInfinity; }

// Of operands that are not all finite.
uint32_t special_sum(const TensorCore& core, const uint32_t* a, const uint32_t* b, int n, uint32_t c) {
  bool has_plus = c == kInfinity, has_minus = c == (kInfinity | 1U << 31);
  bool is_none = is_nan(c);
  for (int i = 0; i < n; ++i) {
    is_none |= is_nan(a[i]) || is_nan(b[i]);
    if (!is_infinite(a[i]) && !is_infinite(b[i])) continue;
    const uint32_t other = is_infinite(a[i]) ? b[i] : a[i];
    is_none |= is_finite(other) && operand(core, other).significand == 0;
    ((a[i] ^ b[i]) >> 31 != 0 ? has_minus : has_plus) = true;
  }
  if (is_none || (has_plus && has_minus)) return kTensorCoreNan;
  return kInfinity | (has_minus ? 1U << 31 : 0);
}

// sum · 2^(exponent − fraction_bits) as a float.
uint32_t as_float(const TensorCore& core, int64_t sum, int exponent) {
  const uint32_t sign = sum < 0 ? 1U << 31 : 0;
  const auto size = static_cast<uint64_t>(std::llabs(sum));
  if (size == 0) return 0;
  const int unit = exponent - core.fraction_bits;
  const int highest = unit + static_cast<int>(std::bit_width(size)) - 1;
  const int last = std::max(highest, kLeastExponent) - 23;  // exponent of the float's last bit
  const int shift = std::min(last - unit, 63);
  uint64_t significand = shift > 0 ? size >> shift : size << -shift;
  if (core.is_rounded && shift > 0) {
    const uint64_t rest = size & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
    significand += rest > half || (rest == half && (significand & 1) != 0) ? 1 : 0;
  }
  // The significand's highest bit counts the exponent up.
  const uint64_t bits = (static_cast<uint64_t>(last + 149) << 23) + significand;
  if (bits >= kInfinity) return sign | (core.is_saturated ? kInfinity - 1 : kInfinity);
  return sign | static_cast<uint32_t>(bits);
}

struct Term {
  uint64_t size;          // fixed point, kPoint bits behind it
  int exponent, largest;  // largest: what it is where the largest exponent is looked for
  bool is_minus;
};

Term term(const TensorCore& core, uint64_t size, int exponent, bool is_minus) {
  if (core.is_normalised && size >> kPoint > 1) {  // products alone reach 2
    size >>= 1;                                    // their last bits are zeros
    ++exponent;
  }
  if (size != 0 || core.zero == ZeroExponent::of_factors) return {size, exponent, exponent, is_minus};
  return {size, exponent, core.zero == ZeroExponent::none ? kNoExponent : kLeastExponent, is_minus};
}

uint32_t sum_of_terms(const TensorCore& core, const Term* terms, int n) {
  int largest = kNoExponent;
  for (int i = 0; i < n; ++i) largest = std::max(largest, terms[i].largest);
  if (largest == kNoExponent) return 0;
  const int down = kPoint - core.fraction_bits + largest;
  int64_t sum = 0;
  for (int i = 0; i < n; ++i) {
    const int shift = std::clamp(down - terms[i].exponent, 0, 63);  // a zero's exponent may be above the largest
    auto size = static_cast<int64_t>(terms[i].size >> shift);
    const bool is_cut = static_cast<uint64_t>(size) << shift != terms[i].size;
    if (core.is_floored && terms[i].is_minus && is_cut) ++size;
    sum += terms[i].is_minus ? -size : size;
  }
  return as_float(core, sum, largest);
}

uint32_t sum_of_some(const TensorCore& core, const uint16_t* a, const uint16_t* b, int n, uint32_t c) {
  std::array<uint32_t, kMostTogether> left{}, right{};
  std::array<Term, kMostTogether + 1> terms;
  bool is_special = !is_finite(c);
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    left[i] = uint32_t{a[i]} << 16;
    right[i] = uint32_t{b[i]} << 16;
    is_special |= !is_finite(left[i]) || !is_finite(right[i]);
    const auto [x, ex] = operand(core, left[i]);
    const auto [y, ey] = operand(core, right[i]);
    const uint64_t product = uint64_t{x >> 16} * (y >> 16);  // 14 bits behind the point
    terms[i] = term(core, product << (kPoint - 14), ex + ey, (left[i] ^ right[i]) >> 31 != 0);
  }
  if (is_special) return special_sum(core, left.data(), right.data(), n, c);
  const auto [x, ex] = operand(core, c);
  terms[static_cast<size_t>(n)] = term(core, uint64_t{x} << (kPoint - 23), ex, c >> 31 != 0);
  return sum_of_terms(core, terms.data(), n + 1);
}

}  // namespace

namespace {

// Whether all products are zeros and c is a number, which is the sum then.
bool adds_nothing(const TensorCore& core, const uint16_t* a, const uint16_t* b, int n, uint32_t c) {
  uint32_t left = 0, right = 0;
  bool are_finite = is_finite(c);
  for (int i = 0; i < n; ++i) {
    left |= a[i] & 0x7fffU;
    right |= b[i] & 0x7fffU;
    are_finite &= is_finite(uint32_t{a[i]} << 16) && is_finite(uint32_t{b[i]} << 16);
  }
  return (left == 0 || right == 0) && are_finite && core.zero == ZeroExponent::none && core.fraction_bits >= 23 &&
         !core.is_flushed;
}

}  // namespace

uint32_t sum_of_products(const TensorCore& core, const uint16_t* a, const uint16_t* b, int n, uint32_t c) {
  if (adds_nothing(core, a, b, n, c)) return (c & 0x7fffffff) == 0 ? 0 : c;
  for (int i = 0; i < n; i += core.n_together) c = sum_of_some(core, a + i, b + i, core.n_together, c);
  return c;
}

std::string describe(const TensorCore& core) {
  constexpr std::array kZeros = {"nothing", "-126", "its factors'"};
  std::string out = std::to_string(core.n_together + 1) + " terms, " + std::to_string(core.fraction_bits) +
                    " bits, a zero's exponent " + kZeros[static_cast<size_t>(core.zero)];
  if (core.is_normalised) out += ", products normalised";
  if (core.is_floored) out += ", terms floored";
  if (core.is_rounded) out += ", sum to nearest";
  if (core.is_flushed) out += ", subnormals flushed";
  if (core.is_saturated) out += ", largest for infinity";
  return out;
}

}  // namespace quire::emulated
