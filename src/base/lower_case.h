// Letters of ASCII in lower case; all other bytes as they are. Any thread.
#pragma once
#include <string>
#include <string_view>

namespace quire {

inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return out;
}

}  // namespace quire
