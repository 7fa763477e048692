// A shape as errors spell it: "[3, 64]".
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace quire {

inline std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (const int64_t extent : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + "]";
}

}  // namespace quire
