// How SentencePiece writes pieces: U+2581 for a space, "<0x2A>" for a byte.
#pragma once
#include <string>
#include <string_view>

namespace quire {

inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

// The byte of "<0x2A>", -1 for any other text.
int byte_of_piece(std::string_view text);
// The text with its U+2581 as spaces.
std::string with_spaces(std::string_view piece);

}  // namespace quire
