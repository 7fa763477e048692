// What a chat template may cost. Every limit is named in the error that it causes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace quire {

struct TemplateLimits {
  size_t source_bytes = 512 << 10;
  int nesting = 64;          // of statements and brackets in the source
  int recursion = 32;        // macros calling macros
  int64_t fuel = 1'000'000;  // steps: an expression, a statement, an element made, 256 bytes looked at
  size_t output_bytes = 4 << 20;
  size_t memory_bytes = 64 << 20;  // of values and intermediate strings, input included
};

}  // namespace quire
