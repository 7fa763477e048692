#include "base/size_text.h"

#include <cstdio>

namespace quire {

std::string size_text(int64_t bytes) {
  char text[32];
  const auto n = static_cast<double>(bytes);
  if (bytes < 1000) {
    std::snprintf(text, sizeof text, "%d B", static_cast<int>(bytes));
  } else if (bytes < 1'000'000) {
    std::snprintf(text, sizeof text, "%.1f kB", n / 1e3);
  } else if (bytes < 1'000'000'000) {
    std::snprintf(text, sizeof text, "%.1f MB", n / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.2f GB", n / 1e9);
  }
  return text;
}

}  // namespace quire
