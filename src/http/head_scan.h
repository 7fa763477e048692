// What is checked in the bytes of a head, of a request or of an answer, before a parser reads them: whatever two
// parsers could understand differently is a fault. Pure functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

// The first fault in `head` from byte `from` on, as words; null: none so far. `head` begins with its first byte.
inline const char* head_fault(std::string_view head, size_t from) {
  for (size_t i = from; i < head.size(); ++i) {
    const auto c = static_cast<unsigned char>(head[i]);
    const bool after_cr = i > 0 && head[i - 1] == '\r';
    if (after_cr != (c == '\n')) return "a line that does not end in CR LF";
    if ((c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f) return "a control character in the head";
  }
  return nullptr;
}

// The number of fields of a complete head, −1 where one is folded over two lines.
inline int64_t count_fields(std::string_view head) {
  int64_t n = -2;  // the first line and the blank line are none
  for (size_t at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at + 2)) {
    ++n;
    if (at + 2 < head.size() && (head[at + 2] == ' ' || head[at + 2] == '\t')) return -1;
  }
  return n;
}

}  // namespace quire
