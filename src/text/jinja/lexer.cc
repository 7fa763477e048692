#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

// \r\n and \r become \n, and one newline at the end goes.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<TokenView>> run() {
    while (at_ < source_.size()) QR_TRY_VOID(next_piece());
    TokenView& last = emit(Tok::end, {});
    last.text = "end of template";
    return std::move(tokens_);
  }

 private:
  TokenView& emit(Tok type, std::string_view text) {
    TokenView& token = tokens_.emplace_back();
    token.type = type;
    token.line = line_;
    token.text = text;
    return token;
  }

  tl::unexpected<Error> error(std::string_view message) const { return template_error(Code::invalid, line_, message); }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  // Moves on, counting lines.
  void advance(size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
    if (n > 0) line_starting_ = source_[at_ - 1] == '\n';
  }

  void skip_space() {
    const std::string_view left = strip_space(rest(), {.left = true, .right = false});
    advance(rest().size() - left.size());
  }

  // The text up to `end`, shortened as the tag behind it asks.
  void emit_data(size_t end, char sign, bool is_print) {
    std::string_view text = rest().substr(0, end - at_);
    if (sign == '-') {
      text = strip_space(text, {.left = false, .right = true});
    } else if (sign != '+' && !is_print) {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == kNone ? 0 : newline + 1;
      const bool whole_line = line_begin > 0 || line_starting_;
      if (whole_line && strip_space(text.substr(line_begin), {}).empty()) text = text.substr(0, line_begin);
    }
    if (!text.empty()) emit(Tok::data, text);
    advance(end - at_);
  }

  size_t find_tag() const {
    for (size_t at = source_.find('{', at_); at != kNone; at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() && std::string_view("%{#").find(source_[at + 1]) != kNone) return at;
    }
    return kNone;
  }

  // The sign after a tag's opening, 0 when there is none.
  char sign_at(size_t at) const {
    const char c = at < source_.size() ? source_[at] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  Status next_piece() {
    const size_t tag = find_tag();
    if (tag == kNone) {
      emit(Tok::data, rest());
      advance(source_.size() - at_);
      return {};
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    emit_data(tag, sign, kind == '{');
    advance(sign ? 3 : 2);
    if (kind == '#') return comment();
    if (kind == '%' && starts_raw()) return raw();
    emit(kind == '{' ? Tok::print_begin : Tok::block_begin, {});
    return inside(kind == '{');
  }

  // After the closing of a block or comment.
  void after_block(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && rest().starts_with('\n')) {
      advance(1);
    }
  }

  Status comment() {
    const size_t end = source_.find("#}", at_);
    if (end == kNone) return error("a comment is not closed");
    const char before = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_block(before);
    return {};
  }

  // At the inside of "{%": does "raw %}" follow? Then moves behind it.
  bool starts_raw() {
    std::string_view text = strip_space(rest(), {.left = true, .right = false});
    if (!text.starts_with("raw")) return false;
    text = strip_space(text.substr(3), {.left = true, .right = false});
    const bool strips = text.starts_with("-%}");
    if (!strips && !text.starts_with("%}")) return false;
    advance(rest().size() - text.size() + (strips ? 3 : 2));
    if (strips) skip_space();
    return true;
  }

  Status raw() {
    for (size_t at = source_.find("{%", at_); at != kNone; at = source_.find("{%", at + 2)) {
      const char sign = sign_at(at + 2);
      std::string_view text = std::string_view(source_).substr(at + (sign ? 3 : 2));
      text = strip_space(text, {.left = true, .right = false});
      if (!text.starts_with("endraw")) continue;
      text = strip_space(text.substr(6), {.left = true, .right = false});
      const char closing = text.empty() || text[0] == '%' ? '\0' : text[0];
      if (!text.substr(closing ? 1 : 0).starts_with("%}") || (closing && closing != '-' && closing != '+')) continue;
      emit_data(at, sign, false);
      advance(rest().size() - text.size() + (closing ? 3 : 2));
      after_block(closing);
      return {};
    }
    return error("a raw block is not closed");
  }

  // Closes the tag when its end is here and no bracket is open.
  bool closes(bool is_print) {
    const std::string_view text = rest();
    const char sign = text.starts_with('-') || (!is_print && text.starts_with('+')) ? text[0] : '\0';
    if (!open_.empty() || !text.substr(sign ? 1 : 0).starts_with(is_print ? "}}" : "%}")) return false;
    emit(is_print ? Tok::print_end : Tok::block_end, {});
    advance(sign ? 3 : 2);
    if (!is_print) {
      after_block(sign);
    } else if (sign == '-') {
      skip_space();
    }
    return true;
  }

  Status inside(bool is_print) {
    const int opened_at = line_;
    open_.clear();
    while (true) {
      skip_space();
      if (at_ == source_.size()) return template_error(Code::invalid, opened_at, "a tag is not closed");
      if (closes(is_print)) return {};
      QR_TRY_VOID(expression_token());
    }
  }

  Status expression_token() {
    const char c = source_[at_];
    if (is_digit_char(c)) return number();
    if (is_name_start(c)) {
      const size_t length = name_length();
      emit(Tok::name, rest().substr(0, length));
      advance(length);
      return {};
    }
    return c == '\'' || c == '"' ? string_token() : operator_token();
  }

  size_t name_length() const {
    size_t end = at_;
    while (end < source_.size() && (is_name_start(source_[end]) || is_digit_char(source_[end]))) {
      size_t next = end;
      if (is_space(next_code_point(source_, next))) break;  // the wide spaces of Unicode
      end = next;
    }
    return end - at_;
  }

  Status string_token() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return error("a string is not closed");
    auto decoded = decode_string_literal(rest().substr(1, end - at_ - 1));
    if (!decoded) return error(decoded.error().message);
    emit(Tok::text, *decoded);
    advance(end + 1 - at_);
    return {};
  }

  size_t skip_digits(size_t at) const {
    while (at < source_.size() && (is_digit_char(source_[at]) ||
                                   (source_[at] == '_' && at + 1 < source_.size() && is_digit_char(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  bool digit_at(size_t at) const { return at < source_.size() && is_digit_char(source_[at]); }

  Status number() {
    const size_t begin = at_;
    size_t end = skip_digits(at_);
    bool is_real = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // x.0.1 is two subscripts
    if (!after_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      is_real = true;
      end = skip_digits(end + 1);
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign = end + 1 < source_.size() && std::string_view("+-").find(source_[end + 1]) != kNone ? 1 : 0;
      if (digit_at(end + 1 + sign)) {
        is_real = true;
        end = skip_digits(end + 1 + sign);
      }
    }
    std::string digits(rest().substr(0, end - begin));
    std::erase(digits, '_');
    TokenView& token = emit(is_real ? Tok::real : Tok::integer, digits);
    const char* stop = digits.data() + digits.size();
    const auto parsed = is_real ? std::from_chars(digits.data(), stop, token.real)
                                : std::from_chars(digits.data(), stop, token.integer);
    if (parsed.ec != std::errc() || parsed.ptr != stop) return error("the number " + digits + " is out of range");
    advance(end - begin);
    return {};
  }

  Status operator_token() {
    constexpr std::string_view kTwo[] = {"**", "//", "==", "!=", "<=", ">="};
    const std::string_view text = rest();
    const auto two = std::find_if(std::begin(kTwo), std::end(kTwo), [&](auto op) { return text.starts_with(op); });
    const size_t length = two == std::end(kTwo) ? 1 : 2;
    if (length == 1 && std::string_view("+-*/%~<>=.,:|()[]{};").find(text[0]) == kNone) {
      return error("unexpected character '" + excerpt_character() + "'");
    }
    QR_TRY_VOID(balance(text[0]));
    emit(Tok::op, text.substr(0, length));
    advance(length);
    return {};
  }

  std::string excerpt_character() const {
    const std::string_view text = rest();
    const size_t length = static_cast<size_t>(utf8_at(text, 0).len);
    return std::string(text.substr(0, length));
  }

  Status balance(char c) {
    const size_t opening = std::string_view("([{").find(c);
    if (opening != kNone) {
      open_ += ")]}"[opening];
    } else if (std::string_view(")]}").find(c) != kNone) {
      if (open_.empty() || open_.back() != c) return error(std::string("unexpected '") + c + "'");
      open_.pop_back();
    }
    return {};
  }

  const std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the text read last ended with a newline
  std::string open_;           // closing brackets that are waited for
  std::vector<TokenView> tokens_;
};

}  // namespace

tl::unexpected<Error> template_error(Code code, int line, std::string_view message) {
  return fail(code, "chat template, line " + std::to_string(line) + ": " + std::string(message));
}

Result<std::vector<TokenView>> lex_template(std::string_view source) {
  if (!is_valid_utf8(source)) return fail(Code::invalid, "chat template: the source is not valid UTF-8");
  const std::string text = normalized(source);
  return Lexer(text).run();
}

}  // namespace quire::jinja
