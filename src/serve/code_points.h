// How many code points a text has. Any thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

namespace quire {

// REQUIRES UTF-8.
inline int64_t count_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace quire
