// Text from a file, made fit for an error message: printable ASCII, in quotes, cut after 80 bytes.
#pragma once
#include <string>
#include <string_view>

namespace quire {

inline std::string in_quotes(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out += text.size() > kMaxBytes ? "…\"" : "\"";
  return out;
}

}  // namespace quire
