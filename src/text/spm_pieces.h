// How SentencePiece writes pieces: U+2581 for a space, "<0x2A>" for a byte.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace quire {

inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

// The byte of "<0x2A>", -1 for any other text.
int byte_of_piece(std::string_view text);
// byte → token among the `usable` ones; all -1 unless every byte is there, because text falls back to bytes only then.
std::array<Token, 256> byte_tokens_of(const std::vector<std::string>& texts, const std::vector<bool>& usable);
// The text with its U+2581 as spaces.
std::string with_spaces(std::string_view piece);

}  // namespace quire
