// See spm_pieces.h.
#include "text/spm_pieces.h"

#include <algorithm>

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

std::array<Token, 256> byte_tokens_of(const std::vector<std::string>& texts, const std::vector<bool>& usable) {
  std::array<Token, 256> table;
  table.fill(-1);
  for (size_t id = 0; id < texts.size(); ++id) {
    const int byte = usable[id] ? byte_of_piece(texts[id]) : -1;
    if (byte >= 0) table[static_cast<size_t>(byte)] = static_cast<Token>(id);
  }
  if (std::find(table.begin(), table.end(), -1) != table.end()) table.fill(-1);
  return table;
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
