// The arguments of one quoted call (call_form.h), read byte by byte and told as JSON: KEY:VALUE with commas between,
// keys without quotes, strings as they are between two marks, numbers, true, false and null, lists and objects of all
// these. One thread at a time.
#pragma once
#include <string>
#include <string_view>
#include <unordered_set>

namespace quire {

class QuotedArguments {
 public:
  enum class Step { more, whole, broken };
  static constexpr size_t kTokenBytes = 1024;  // of a key or a number

  // `mark`, which outlives it, stands at both ends of a string.
  explicit QuotedArguments(std::string_view mark) : mark_(mark) {}

  // The next byte behind the opening brace; appends to `json` what is certain. `whole`: the brace has closed.
  // Lists and objects nest as deep as JSON does (kMaxJsonDepth). Of an argument that comes again, the first counts.
  Step push(char c, std::string& json);
  bool in_string() const { return at_ == At::string; }

 private:
  enum class At : uint8_t { item, key, value, next, scalar, mark, string };
  Step push_item(char c, std::string& json);
  Step push_key(char c, std::string& json);
  Step push_next(char c, std::string& json);
  Step push_scalar(char c, std::string& json);
  Step push_mark(char c, std::string& json);
  Step push_string(char c, std::string& json);
  Step begin_value(char c, std::string& json);
  Step close(char c, std::string& json);
  void tell(std::string_view text, std::string& json);

  const std::string_view mark_;
  At at_ = At::item;
  std::string closers_ = "}";  // of the brackets that are open
  bool first_ = true;          // nothing stands in the innermost bracket yet
  bool again_ = false;         // the argument came before: its value is passed over
  std::string token_;          // the key, number or word that is read; of a string what may be its end
  std::unordered_set<std::string> told_;
};

}  // namespace quire
