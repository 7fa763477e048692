// Where a JSON value ends, told byte by byte: strings, escapes and brackets are followed, other syntax is not checked.
// One thread at a time.
#pragma once
#include <string>
#include <string_view>

namespace quire {

class JsonSpan {
 public:
  enum class Step { more, whole, past, broken };  // past: the value ended before this byte
  // The next byte of a value that began with the first. Nothing may be pushed behind its end.
  Step push(char c);
  bool in_string() const { return in_string_; }

 private:
  std::string closers_;  // of the brackets that are open, at most kMaxJsonDepth
  bool in_string_ = false, escaped_ = false, scalar_ = false;
};

inline bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
// As marks around calls are compared.
std::string without_space(std::string_view text);

}  // namespace quire
