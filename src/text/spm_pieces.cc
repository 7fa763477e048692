// See spm_pieces.h.
#include "text/spm_pieces.h"

namespace quire {

int byte_of_piece(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

std::string with_spaces(std::string_view piece) {
  std::string out;
  size_t done = 0;
  for (size_t at = piece.find(kSpaceSymbol); at != std::string_view::npos; at = piece.find(kSpaceSymbol, done)) {
    out.append(piece, done, at - done).push_back(' ');
    done = at + kSpaceSymbol.size();
  }
  return out.append(piece, done);
}

}  // namespace quire
