#include "serve/api.h"

namespace quire {

std::string_view finish_name(FinishReason reason) {
  static constexpr std::string_view kNames[] = {"stop", "length", "tool_calls"};
  return kNames[static_cast<size_t>(reason)];
}

void append_joined(std::string& out, const AnswerParts& parts, PartKind kind) {
  append_json_string(out, parts.joined(kind));
}

void add_joined(Pieces& out, const AnswerParts& parts, PartKind kind, const std::shared_ptr<const void>& owner) {
  out.add("\"");
  for (const AnswerPart& part : parts)
    if (part.kind == kind) out.add_json_text(part.text, owner);
  out.add("\"");
}

std::string hex64(uint64_t value) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) out[i] = kHex[value & 15];
  return out;
}

}  // namespace quire
