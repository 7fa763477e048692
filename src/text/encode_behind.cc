// See encode_behind.h.
#include "text/encode_behind.h"

#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace quire {
namespace {

std::optional<std::vector<Token>> cut(const Tokenizer& tokenizer, std::string_view before, std::string_view text) {
  const std::string all = std::string(before) + std::string(text);
  std::vector<Token> ids;
  if (!tokenizer.encode(all, {}, ids)) return std::nullopt;
  size_t at = 0, first = ids.size();
  std::string bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    bytes.clear();
    tokenizer.append_bytes(ids[i], false, bytes);
    std::string_view part = bytes;
    // A space that encoding put in front.
    if (i == 0 && tokenizer.strips_leading_space() && part.starts_with(' ') && !all.starts_with(part)) {
      if (before.empty()) return std::nullopt;
      part.remove_prefix(1);
    }
    if (at == before.size() && first == ids.size()) first = i;
    if (!std::string_view(all).substr(at).starts_with(part)) return std::nullopt;
    at += part.size();
  }
  if (at != all.size() || first == ids.size()) return std::nullopt;
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first));
  return ids;
}

}  // namespace

std::string_view whole_code_points(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::string_view end = text.substr(text.size() - back);
    const auto lead = static_cast<uint8_t>(end[0]);
    if ((lead & 0xC0) == 0x80) continue;
    if (static_cast<size_t>(utf8_length(lead)) <= back) return text;
    const SecondByte range = second_byte_range(lead);
    const uint8_t second = back == 1 ? range.low : static_cast<uint8_t>(end[1]);
    if (second < range.low || second > range.high) return text;
    return text.substr(0, text.size() - back);
  }
  return text;
}

std::optional<std::vector<Token>> encode_behind(const Tokenizer& tokenizer,
                                                std::string_view before,
                                                std::string_view text) {
  for (const std::string_view behind : {before, std::string_view("\n"), std::string_view()}) {
    if (auto ids = cut(tokenizer, behind, text)) return ids;
  }
  return std::nullopt;
}

}  // namespace quire
