// Random numbers that belong to no request: seeds of requests that give none, and ids of answers, streams and requests.
// Ids are all that some endpoints ask for, and from a seed follow the draws of an answer, so nobody may foretell either
// from those that they were given. Any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/secure_random.h"
#include "serve/reply_writer.h"

namespace quire {

// Instead of the system's generator, for tests that repeat a run; any thread may call it.
using RandomSource = std::function<uint64_t()>;

class SeedSource {
 public:
  explicit SeedSource(RandomSource source = nullptr) : source_(std::move(source)) {}
  uint64_t next() { return source_ ? source_() : secure_random_bits(); }
  std::string id() {  // 32 hexadecimal digits: 128 bits
    const uint64_t high = next();
    return hex64(high) + hex64(next());
  }

 private:
  const RandomSource source_;
};

}  // namespace quire
