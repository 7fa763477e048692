// Counter-based random numbers: a pure function of (seed, counter), so that a token's draw depends on its position and
// on nothing that ran before. Mixing function: SplitMix64's finaliser (Steele, Lea, Flood 2014), applied twice.
#pragma once
#include <cstdint>

namespace quire {

constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr uint64_t random_bits(uint64_t seed, uint64_t counter) {
  return mix64(mix64(seed) ^ mix64(counter + 0x5851f42d4c957f2dULL));
}

// Uniform in [0, 1), 53 bits.
constexpr double random_unit(uint64_t seed, uint64_t counter) {
  return static_cast<double>(random_bits(seed, counter) >> 11) * 0x1.0p-53;
}

// A sequential generator for tests and makers.
class Rng {
 public:
  explicit Rng(uint64_t seed) : seed_(seed) {}
  uint64_t bits() { return random_bits(seed_, counter_++); }
  double unit() { return random_unit(seed_, counter_++); }
  // Uniform in [lo, hi]. REQUIRES lo ≤ hi. The modulo's bias is below 2^-32 for the ranges used here.
  int64_t between(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(bits() % (static_cast<uint64_t>(hi - lo) + 1));
  }
  // A zero-mean value of unit variance: sum of 12 uniforms (Irwin-Hall), bounded by ±6.
  float normal() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += unit();
    return static_cast<float>(sum);
  }

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

}  // namespace quire
