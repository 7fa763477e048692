// One value of a marked call (call_form.h), read byte by byte up to the mark that ends it. In strings of JSON that mark
// is text. One thread at a time.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/parse/argument_kinds.h"
#include "text/parse/call_form.h"

namespace quire {

class MarkedValue {
 public:
  // What it is read as: text, in which the first end mark is the end; JSON; or either, where it may be a list or an
  // object of JSON but also any text.
  enum class As : uint8_t { text, json, either };

  // `form` outlives it.
  MarkedValue(const CallForm& form, As as);

  // The next byte behind the mark that begins the value. True: the value is whole.
  bool push(char c);
  // What came since take_certain(), without its end mark. REQUIRES that it is whole.
  std::string_view rest() const;
  // Moves out, as whole characters, what belongs to the value whatever comes.
  std::string take_certain();

 private:
  // Of JSON: where a quote begins a string, behind another part of a value, and in one. Text that is none stays none.
  enum class In : uint8_t { begin, open, part, string, escape, text };
  void step_json(char c);
  bool ends_wrapped(char c);
  size_t held_bytes() const;

  const CallForm& form_;
  In in_;
  std::string text_;                     // what is read and was not taken
  bool first_ = true, at_begin_ = true;  // nothing came yet; what came may be the mark of a wrapped value
  bool wrapped_ = false;                 // that mark came
  size_t wrap_at_ = std::string::npos;   // where the mark stands that may close it
  std::string end_;                      // of value_end, behind that mark and white space
};

// What stands behind a key whose value is JSON of one of `kinds`.
struct JsonKeyEnd {
  std::string mark;
  ValueKinds kinds = kEveryKind;
};
// All of a form for values of `kinds`: one where the form has one for all values, none where it has none.
std::vector<JsonKeyEnd> json_key_ends(const CallForm& form, ValueKinds kinds);

// A key as the form writes it, and back.
std::string written_key(const CallForm& form, std::string_view key);
std::string read_key(const CallForm& form, std::string_view written);

// What a value is read as that may be a list or an object, or cannot (ArgumentKinds::may_nest); `is_json`: behind
// json_key_end.
MarkedValue::As value_as(const CallForm& form, bool may_nest, bool is_json);
// Whether the value that is written as `text` ends with the mark behind it and not before.
bool fits_marks(const CallForm& form, MarkedValue::As as, std::string_view text);
// What MarkedValue reads of a value that may be JSON in front of its end mark, as a pattern of JSON Schema's dialect.
extern const std::string_view kEitherPattern;

}  // namespace quire
