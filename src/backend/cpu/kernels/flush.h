// As long as one of these lives, its thread takes numbers below the least normal one for zeros and makes no others:
// what VDPBF16PS always does (docs/numerics.md, "Linear").
#pragma once
#include <xmmintrin.h>

namespace quire {
namespace {

class FlushSubnormals {
 public:
  FlushSubnormals() { _mm_setcsr(before_ | kFlush | kZeros); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  static constexpr unsigned kFlush = 0x8000, kZeros = 0x40;  // of results, of operands
  const unsigned before_ = _mm_getcsr();
};

}  // namespace
}  // namespace quire
