#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

constexpr int kMaxWidth = 10000;  // of one field; also its precision

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =, 0: by type
  char sign = '-';
  bool alternate = false;
  bool comma = false;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

std::string whole_text(int64_t v, char type) {
  // The magnitude as unsigned, so that the smallest integer has one.
  uint64_t size = v < 0 ? ~static_cast<uint64_t>(v) + 1 : static_cast<uint64_t>(v);
  const unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const std::string_view digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out += digits[size % base];
    size /= base;
  } while (size > 0);
  std::reverse(out.begin(), out.end());
  return out;
}

std::string real_text(double v, char type, int precision) {
  if (std::isnan(v) || std::isinf(v)) return std::isnan(v) ? "nan" : "inf";
  const char format[] = {'%', '.', '*', type == '%' ? 'f' : type, '\0'};
  std::string out(static_cast<size_t>(std::snprintf(nullptr, 0, format, precision, v)), '\0');
  std::snprintf(out.data(), out.size() + 1, format, precision, v);
  return out;
}

void insert_commas(std::string& digits) {
  size_t end = std::min(digits.find('.'), digits.size());
  while (end > 3) {
    end -= 3;
    digits.insert(end, ",");
  }
}

// Sign, zeros or fill, and digits (or text) in the field's width.
std::string aligned(std::string sign, std::string body, const Spec& spec, char natural) {
  const auto size = static_cast<int64_t>(sign.size() + count_code_points(body));
  const char align = spec.align ? spec.align : natural;
  if (size >= spec.width) return sign + body;
  const auto missing = static_cast<size_t>(spec.width - size);
  const size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string left, right;
  for (size_t i = 0; i < missing; ++i) (i < before ? left : right) += spec.fill;
  return align == '=' ? sign + left + body : left + sign + body + right;
}

std::string sign_of(bool negative, const Spec& spec) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string whole_field(int64_t v, const Spec& spec) {
  std::string body = whole_text(v, spec.type);
  if (static_cast<int>(body.size()) < spec.precision) {
    body.insert(0, static_cast<size_t>(spec.precision) - body.size(), '0');
  }
  if (spec.comma) insert_commas(body);
  if (spec.alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b')) {
    body = std::string("0") + spec.type + body;
  }
  return aligned(sign_of(v < 0, spec), body, spec, '>');
}

std::string real_field(double v, const Spec& spec) {
  const bool negative = std::signbit(v) && !std::isnan(v);
  const double size = std::fabs(v) * (spec.type == '%' ? 100 : 1);
  std::string body = real_text(size, spec.type, spec.precision < 0 ? 6 : spec.precision);
  if (spec.type == '%') body += '%';
  if (spec.comma) insert_commas(body);
  return aligned(sign_of(negative, spec), body, spec, '>');
}

std::string text_field(std::string_view text, const Spec& spec) {
  if (spec.precision >= 0) text = text.substr(0, byte_of_code_point(text, static_cast<size_t>(spec.precision)));
  return aligned("", std::string(text), spec, '<');
}

bool is_one_of(char c, std::string_view set) { return c != '\0' && set.find(c) != std::string_view::npos; }

class Formatter {
 public:
  Formatter(Context& in, const Str& format) : in_(in), format_(format.text), user_(has_user(format)) {}

  bool percent(const Value& values, Value& out) {
    const bool is_tuple = values.is(Kind::seq) && values.seq->kind == SeqKind::tuple;
    const std::span<const Value> all =
        is_tuple ? std::span<const Value>(values.seq->items, values.seq->size) : std::span<const Value>(&values, 1);
    size_t used = 0;
    while (at_ < format_.size()) {
      if (!literal('%')) continue;
      if (!percent_field(values, all, used)) return false;
    }
    // Python forgives left-over arguments that can be subscripted, because they may be meant for %(name)s.
    const bool forgiven = values.is(Kind::dict) || values.is(Kind::undefined) || (values.is(Kind::seq) && !is_tuple);
    if (used < all.size() && !forgiven) return in_.fail("not all arguments were used by the % format");
    return finish(out);
  }

  bool braces(std::span<const Value> args, std::span<const Named> named, Value& out) {
    size_t next = 0;
    while (at_ < format_.size()) {
      const char c = format_[at_];
      if ((c == '{' || c == '}') && at_ + 1 < format_.size() && format_[at_ + 1] == c) {
        out_ += c;
        at_ += 2;
      } else if (c == '}') {
        return in_.fail("format: single '}' in the format string");
      } else if (c == '{') {
        if (!brace_field(args, named, next)) return false;
      } else {
        out_ += c;
        ++at_;
      }
    }
    return finish(out);
  }

 private:
  char peek() const { return at_ < format_.size() ? format_[at_] : '\0'; }

  // Copies text up to `mark`; true when the mark was reached and passed.
  bool literal(char mark) {
    const size_t end = std::min(format_.find(mark, at_), format_.size());
    out_ += format_.substr(at_, end - at_);
    at_ = end + 1;
    return end < format_.size();
  }

  bool number(int& out) {
    out = 0;
    while (peek() >= '0' && peek() <= '9') {
      out = out * 10 + (format_[at_++] - '0');
      if (out > kMaxWidth) return in_.fail("format: width and precision are limited to " + std::to_string(kMaxWidth));
    }
    return true;
  }

  bool percent_field(const Value& values, std::span<const Value> all, size_t& used) {
    Value named;
    if (peek() == '(') {
      const size_t close = std::min(format_.find(')', at_), format_.size());
      const Str* key = copy_str(in_.arena(), format_.substr(at_ + 1, close - at_ - 1), false);
      at_ = std::min(close + 1, format_.size());
      if (!values.is(Kind::dict)) return in_.fail("% format: a named field needs a dict");
      Value* slot = nullptr;
      if (!lookup(in_, *values.dict, make_string(key), slot)) return false;
      if (!slot) return in_.fail("% format: there is no key '" + excerpt(key->text, 100) + "'");
      named = *slot;
    }
    Spec spec;
    for (; is_one_of(peek(), "-+ 0#"); ++at_) flag(peek(), spec);
    if (!number(spec.width)) return false;
    if (peek() == '.') {
      ++at_;
      if (!number(spec.precision)) return false;
    }
    spec.type = peek();
    ++at_;
    if (spec.type == '%') {
      out_ += '%';
      return true;
    }
    if (named.is(Kind::absent)) {
      if (used == all.size()) return in_.fail("% format: there are more fields than arguments");
      named = all[used++];
    }
    return percent_value(named, spec);
  }

  static void flag(char c, Spec& spec) {
    if (c == '-') spec.align = '<';
    if (c == '0' && spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    if (c == '+' || (c == ' ' && spec.sign == '-')) spec.sign = c;
    if (c == '#') spec.alternate = true;
  }

  bool percent_value(const Value& v, Spec spec) {
    if (spec.align == '<') spec.fill = " ";
    if (is_one_of(spec.type, "sr")) {
      if (spec.align == '\0') spec.align = '>';
      if (spec.align == '=') spec.align = '>', spec.fill = " ";
      return text_value(v, spec.type == 'r', spec);
    }
    if (spec.type == 'c' && v.is_text()) return text_value(v, false, spec);
    if (!v.is_number() || !is_one_of(spec.type, "diuxXofFeEgG")) {
      return in_.fail(std::string("% format: %") + spec.type + " does not take '" + std::string(kind_name(v)) + "'");
    }
    if (is_one_of(spec.type, "fFeEgG")) return put(real_field(v.number(), spec));
    if (v.is(Kind::real) && (is_one_of(spec.type, "xXo") || !(std::fabs(v.d) < 9e18))) {
      return in_.fail(std::string("% format: %") + spec.type + " needs an integer");
    }
    if (is_one_of(spec.type, "diu")) spec.type = 'd';
    return put(whole_field(v.is(Kind::real) ? static_cast<int64_t>(v.d) : v.whole(), spec));
  }

  bool brace_field(std::span<const Value> args, std::span<const Named> named, size_t& next) {
    const size_t close = format_.find('}', at_);
    if (close == std::string_view::npos) return in_.fail("format: '{' is not closed");
    const std::string_view field = format_.substr(at_ + 1, close - at_ - 1);
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value v;
    if (!field_value(field.substr(0, name_end), args, named, next, v)) return false;
    at_ += 1 + name_end;
    char conversion = '\0';
    if (peek() == '!') {
      conversion = at_ + 1 < close ? format_[at_ + 1] : '\0';
      at_ += 2;
      if (!is_one_of(conversion, "rs")) return in_.fail("format: only !r and !s are supported");
    }
    Spec spec;
    if (peek() == ':' && !brace_spec(close, spec)) return false;
    if (at_ != close) return in_.fail("format: a field specification is not supported");
    at_ = close + 1;
    return brace_value(v, conversion, spec);
  }

  bool field_value(
      std::string_view name, std::span<const Value> args, std::span<const Named> named, size_t& next, Value& out) {
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    if (name.empty() || is_number) {
      const size_t i = name.empty() ? next++ : name.size() > 4 ? args.size() : std::stoul(std::string(name));
      if (i >= args.size()) return in_.fail("format: there are more fields than arguments");
      out = args[i];
      return true;
    }
    const auto it = std::find_if(named.begin(), named.end(), [&](const Named& n) { return n.name->text == name; });
    if (it == named.end()) return in_.fail("format: there is no argument '" + excerpt(name, 100) + "'");
    out = it->value;
    return true;
  }

  // :[[fill]align][sign][#][0][width][,][.precision][type]
  bool brace_spec(size_t close, Spec& spec) {
    ++at_;
    if (at_ < close) {
      const auto fill = static_cast<size_t>(utf8_at(format_, at_).len);
      if (at_ + fill < close && is_one_of(format_[at_ + fill], "<>^=")) {
        spec.fill = format_.substr(at_, fill);
        at_ += fill;
      }
    }
    if (is_one_of(peek(), "<>^=")) spec.align = format_[at_++];
    if (is_one_of(peek(), "+- ")) spec.sign = format_[at_++];
    if (peek() == '#') spec.alternate = ++at_ > 0;
    if (peek() == '0' && spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    if (!number(spec.width)) return false;
    if (peek() == ',') spec.comma = ++at_ > 0;
    if (peek() == '.') {
      ++at_;
      if (!number(spec.precision)) return false;
    }
    if (at_ < close) spec.type = format_[at_++];
    return true;
  }

  bool brace_value(const Value& v, char conversion, const Spec& spec) {
    const bool numeric = v.is_number() && conversion == '\0';
    if (numeric && is_one_of(spec.type, "fFeEgG%")) return put(real_field(v.number(), spec));
    if (numeric && v.is_whole() && (is_one_of(spec.type, "dxXob") || (spec.type == '\0' && !v.is(Kind::boolean)))) {
      return put(whole_field(v.whole(), spec));
    }
    if (numeric && v.is(Kind::real) && spec.type == '\0') {
      if (spec.precision >= 0) return in_.fail("format: a precision needs a type");
      std::string body;
      append_float(body, std::fabs(v.d));
      if (spec.comma) insert_commas(body);
      return put(aligned(sign_of(std::signbit(v.d), spec), body, spec, '>'));
    }
    if (spec.type != '\0' && (spec.type != 's' || numeric)) {
      return in_.fail(std::string("format: type '") + spec.type + "' does not take '" + std::string(kind_name(v)) +
                      "'");
    }
    return text_value(v, conversion == 'r', spec);
  }

  bool text_value(const Value& v, bool repr, const Spec& spec) {
    const Str* text = nullptr;
    if (!(repr ? to_repr(in_, v, text) : to_str(in_, v, text))) return false;
    user_ = user_ || has_user(*text);
    return put(text_field(text->text, spec));
  }

  bool put(const std::string& field) {
    out_ += field;
    return in_.fits(out_.size()) && in_.scan(field.size()) && in_.step();
  }

  bool finish(Value& out) {
    if (!in_.room(out_.size())) return false;
    out = make_string(copy_str(in_.arena(), out_, user_));
    return true;
  }

  Context& in_;
  std::string_view format_;
  bool user_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

bool format_percent(Context& in, const Str& format, const Value& values, Value& out) {
  return Formatter(in, format).percent(values, out);
}

bool format_braces(
    Context& in, const Str& format, std::span<const Value> args, std::span<const Named> named, Value& out) {
  return Formatter(in, format).braces(args, named, out);
}

}  // namespace quire::jinja
