// The arguments of one call as Python writes them (call_form.h), read byte by byte and told as JSON: KEY=VALUE with
// commas between. Values are literals: strings in either quotes with their escapes, numbers, True, False and None, also
// as JSON spells them, lists and dicts with strings as keys. What else Python has (tuples, sets, calls, arithmetic,
// prefixes of strings, three quotes) is none. One thread at a time.
#pragma once
#include <string>
#include <string_view>
#include <unordered_set>

namespace quire {

// What no key has, beside control characters and '=', which ends it. A key, like a number, is no longer than this.
inline constexpr std::string_view kNotInKeywords = "\"'()[]{},:#\\";
inline constexpr size_t kKeywordBytes = 1024;

class KeywordArguments {
 public:
  enum class Step { more, whole, broken };

  // The next byte behind the opening bracket; appends to `json` what is certain. `whole`: the bracket has closed.
  // Lists and dicts nest as deep as JSON does (kMaxJsonDepth). Of a key that comes again, the first value counts.
  Step push(char c, std::string& json);
  bool in_string() const { return at_ == At::string || at_ == At::escape || at_ == At::code || at_ == At::octal; }

 private:
  enum class At : uint8_t { item, key, colon, value, next, scalar, string, escape, code, octal };
  Step push_item(char c, std::string& json);
  Step push_key(char c, std::string& json);
  Step push_next(char c, std::string& json);
  Step push_scalar(char c, std::string& json);
  Step push_string(char c, std::string& json);
  Step push_escape(char c, std::string& json);
  Step push_code(char c, std::string& json);
  Step push_octal(char c, std::string& json);
  Step begin_value(char c, std::string& json);
  Step close(char c, std::string& json);
  void tell(std::string_view text, std::string& json);
  void tell_separator(std::string& json);

  At at_ = At::item;
  std::string closers_ = ")";  // of the brackets that are open
  bool first_ = true;          // nothing stands in the innermost bracket yet
  bool dict_key_ = false;      // the string is one
  bool again_ = false;         // the key came before: its value is passed over
  char quote_ = '"';
  size_t code_digits_ = 0;
  std::string token_;  // the key, scalar or character code that is read
  std::unordered_set<std::string> told_;
};

}  // namespace quire
