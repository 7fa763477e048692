// See byte_chars.h. Printable Latin-1 stands for itself; the other 68 bytes, in order, for U+0100 onwards.
#include "text/byte_chars.h"

#include <array>

#include "text/utf8.h"

namespace quire {

namespace {

bool stands_for_itself(unsigned b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; }

struct Map {
  std::array<char32_t, 256> to_char{};
  std::array<int16_t, 0x180> to_byte{};

  Map() {
    to_byte.fill(-1);
    char32_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      to_char[b] = stands_for_itself(b) ? b : next++;
      to_byte[to_char[b]] = static_cast<int16_t>(b);
    }
  }
};

const Map& map() {
  static const Map instance;
  return instance;
}

}  // namespace

char32_t byte_to_char(uint8_t byte) { return map().to_char[byte]; }

std::optional<std::string> chars_to_bytes(std::string_view token) {
  const Map& m = map();
  std::string out;
  for (size_t i = 0; i < token.size();) {
    const CodePoint c = utf8_at(token, i);
    if (!c.valid || c.value >= m.to_byte.size() || m.to_byte[c.value] < 0) return std::nullopt;
    out.push_back(static_cast<char>(m.to_byte[c.value]));
    i += static_cast<size_t>(c.len);
  }
  return out;
}

void append_byte_chars(std::string_view bytes, std::string& out) {
  for (const char b : bytes) append_utf8(out, byte_to_char(static_cast<uint8_t>(b)));
}

}  // namespace quire
