// A half-open run of bytes [begin, end) of some text.
#pragma once
#include <cstddef>

namespace quire {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace quire
