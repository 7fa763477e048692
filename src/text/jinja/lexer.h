// Template source to tokens. White space control happens here: "-" takes all space away, a block tag or comment takes
// the newline after it (trim_blocks) and the blanks before it on its line (lstrip_blocks), and one newline at the very
// end of the source is dropped, as the reference implementation of chat templates sets its environment. Linear, no
// state.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/limits.h"

namespace quire::jinja {

enum class Tok : uint8_t {
  data,         // text between tags
  block_begin,  // {%
  block_end,
  print_begin,  // {{
  print_end,
  name,
  text,  // a string literal, decoded
  integer,
  real,
  op,  // an operator or bracket: the text is it
  end  // of the source
};

struct TokenView {
  Tok type = Tok::end;
  int line = 0;
  std::string text;
  int64_t integer = 0;
  double real = 0;

  bool is(Tok t, std::string_view s) const { return type == t && text == s; }
  bool is_op(std::string_view s) const { return is(Tok::op, s); }
  bool is_name(std::string_view s) const { return is(Tok::name, s); }
};

// Ends with one Tok::end. Errors are Code::invalid and name the line.
Result<std::vector<TokenView>> lex_template(std::string_view source);

// "chat template, line N: message"
tl::unexpected<Error> template_error(Code code, int line, std::string_view message);

}  // namespace quire::jinja
