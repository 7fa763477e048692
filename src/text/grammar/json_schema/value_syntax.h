// How a value is written: as JSON, or as the calls of some models have it. Plain data.
#pragma once
#include <string_view>

#include "base/result.h"
#include "text/grammar/rx_chars.h"

namespace quire::grammar {

struct ValueSyntax {
  Spelling spelling = Spelling::json;  // of the characters of strings and names
  Rx quote = RxStore::kEmpty;          // at both ends of a string
  Rx strings = RxStore::kAny;          // what can be a string, beside what its schema says
  bool bare = false;                   // names stand without quotes
  // Names that can be written: of those that a schema lists, and of others.
  Rx listed_name = RxStore::kAny, other_name = RxStore::kAny;
  Rx space = RxStore::kEmpty;  // between the parts of a value

  // White space is nothing, a space, or the end of a line and a bounded indentation: models that may blank on do.
  static ValueSyntax json(RxStore& rx);
  // {name:<|"|>text<|"|>,list:[1,true]}: strings as they are between two `mark`s, whose text is in none of them; names
  // without quotes; no white space. REQUIRES a text that is not empty.
  static Result<ValueSyntax> marked(RxStore& rx, std::string_view text, Rx mark);
};

}  // namespace quire::grammar
