// GPT-2's one-to-one map of bytes to printable characters, in which byte-level vocabularies are written ("Ġthe").
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// The character of each byte.
char32_t byte_to_char(uint8_t byte);
// The bytes of a token; nothing when some character of it stands for no byte.
std::optional<std::string> chars_to_bytes(std::string_view token);
// The other way round, for texts that a pipeline rewrites into these characters.
void append_byte_chars(std::string_view bytes, std::string& out);

}  // namespace quire
