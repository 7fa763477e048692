// Random numbers that belong to no request: seeds of requests that give none, and ids of answers. One source a process,
// seeded once, so that a run whose source is seeded by hand can be repeated. Any thread.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/rng.h"

namespace quire {

class SeedSource {
 public:
  explicit SeedSource(uint64_t seed) : seed_(seed) {}
  uint64_t next() { return random_bits(seed_, n_.fetch_add(1, std::memory_order_relaxed)); }

 private:
  const uint64_t seed_;
  std::atomic<uint64_t> n_{0};
};

}  // namespace quire
