#include "text/parse/marks.h"

#include <algorithm>

#include "base/json.h"

namespace quire {
namespace {

// Bytes at the end of `text` that are no whole character yet.
size_t cut_bytes(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(text.size(), 3); ++n) {
    const auto c = static_cast<unsigned char>(text[text.size() - n]);
    if ((c & 0xC0U) == 0x80U) continue;
    const size_t wanted = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    return wanted > n ? n : 0;
  }
  return 0;
}

}  // namespace

size_t held_bytes(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(text.size(), mark.size()); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return cut_bytes(text);
}

void append_inside_string(std::string& json, std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  json.append(quoted, 1, quoted.size() - 2);
}

}  // namespace quire
