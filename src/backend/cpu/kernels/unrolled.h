// A loop that the compiler has no say about: arrays that it indexes stay in registers.
#pragma once
#include "quant/f16.h"

namespace quire {
namespace {

// fn(Index<kFrom>{}), …, fn(Index<kTo − 1>{}): a loop whose index is a constant inside.
template <int kIndex>
struct Index {
  static constexpr int kValue = kIndex;
};
template <int kFrom, int kTo, class Fn>
QR_INLINE void unrolled(const Fn& fn) {
  if constexpr (kFrom < kTo) {
    fn(Index<kFrom>{});
    unrolled<kFrom + 1, kTo>(fn);
  }
}

}  // namespace
}  // namespace quire
