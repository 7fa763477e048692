// Operations on strings that filters and methods share. Provenance is exact: what is cut out of user text stays user
// text, what the template inserts stays the template's.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

#include "text/jinja/context.h"
#include "text/jinja/unicode.h"
#include "text/jinja/value.h"

namespace quire::jinja {

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

enum class Casing : uint8_t { upper, lower, title, capitalize, swap, words };  // words: the `title` filter of Jinja
bool change_case(Context& in, const Str& s, Casing casing, const Str*& out);

const Str* strip_str(Context& in, const Str& s, Ends ends);
bool strip_str_chars(Context& in, const Str& s, const Str& chars, Ends ends, const Str*& out);

struct Replacement {
  const Str& from;
  const Str& to;
  int64_t limit = -1;  // negative: all
};
bool replace_str(Context& in, const Str& s, const Replacement& how, const Str*& out);

// str.split and str.rsplit with `limit` cuts; lists of strings.
bool split_space(Context& in, const Str& s, int64_t limit, Seq*& out);
bool split_space_from_end(Context& in, const Str& s, int64_t limit, Seq*& out);
bool split_str(Context& in, const Str& s, const Str& separator, int64_t limit, Seq*& out);
bool split_str_from_end(Context& in, const Str& s, const Str& separator, int64_t limit, Seq*& out);
bool split_lines(Context& in, const Str& s, bool keep_ends, Seq*& out);

// The code point `fill` is repeated until s is `width` code points long.
enum class Align : uint8_t { left, right, center };
struct Padding {
  int64_t width = 0;
  std::string_view fill = " ";
  Align align = Align::left;
};
bool pad_str(Context& in, const Str& s, const Padding& how, const Str*& out);

}  // namespace quire::jinja
