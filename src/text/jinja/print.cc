#include "text/jinja/print.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_hex(std::string& out, char32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(value >> shift) & 15];
}

void append_repr_escape(std::string& out, char32_t cp) {
  if (cp == '\n') {
    out += "\\n";
  } else if (cp == '\r') {
    out += "\\r";
  } else if (cp == '\t') {
    out += "\\t";
  } else if (cp < 0x100) {
    out += "\\x";
    append_hex(out, cp, 2);
  } else if (cp < 0x10000) {
    out += "\\u";
    append_hex(out, cp, 4);
  } else {
    out += "\\U";
    append_hex(out, cp, 8);
  }
}

// repr() of nested values into one string; remembers whether any piece came from the user.
class Repr {
 public:
  explicit Repr(Context& in) : in_(in) {}

  bool write(const Value& v) {
    if (!in_.step() || !in_.fits(out_.size())) return false;
    switch (v.kind) {
      case Kind::absent:
      case Kind::undefined: return put("Undefined");
      case Kind::none: return put("None");
      case Kind::boolean: return put(v.b ? "True" : "False");
      case Kind::integer: return put(std::to_string(v.i));
      case Kind::real: append_float(out_, v.d); return true;
      case Kind::string: return write_string(*v.s);
      case Kind::seq: return nested() && write_seq(*v.seq) && leave();
      case Kind::dict: return nested() && write_dict(*v.dict) && leave();
      case Kind::space: return put("<Namespace ") && nested() && write_dict(*v.dict) && leave() && put(">");
      case Kind::macro:
      case Kind::builtin:
      case Kind::bound:
      case Kind::loop: return put("<" + std::string(kind_name(v)) + ">");
    }
    return true;
  }

  const Str* finish() { return copy_str(in_.arena(), out_, user_); }

 private:
  bool put(std::string_view text) {
    out_ += text;
    return true;
  }
  bool nested() { return ++depth_ <= kMaxValueDepth || in_.fail("a value is nested too deeply to be printed"); }
  bool leave() {
    --depth_;
    return true;
  }

  bool write_string(const Str& s) {
    if (!in_.room(s.text.size())) return false;
    user_ = user_ || has_user(s);
    if (s.markup) out_ += "Markup(";
    append_repr(out_, s.text);
    if (s.markup) out_ += ')';
    return true;
  }

  bool write_items(const Seq& seq) {
    for (size_t i = 0; i < seq.size; ++i) {
      if (i > 0) out_ += ", ";
      if (!write(seq.items[i])) return false;
    }
    return true;
  }

  bool write_seq(const Seq& seq) {
    switch (seq.kind) {
      case SeqKind::list: return put("[") && write_items(seq) && put("]");
      case SeqKind::group:
      case SeqKind::tuple: return put("(") && write_items(seq) && put(seq.size == 1 ? ",)" : ")");
      case SeqKind::keys: return put("dict_keys([") && write_items(seq) && put("])");
      case SeqKind::values: return put("dict_values([") && write_items(seq) && put("])");
      case SeqKind::items: return put("dict_items([") && write_items(seq) && put("])");
      case SeqKind::generator: return put("<generator>");
      case SeqKind::range: return write_range(seq);
    }
    return true;
  }

  bool write_range(const Seq& seq) {
    const int64_t first = seq.size > 0 ? seq.items[0].i : 0;
    const int64_t step = seq.size > 1 ? seq.items[1].i - first : 1;
    const int64_t end = first + step * static_cast<int64_t>(seq.size);
    put("range(" + std::to_string(first) + ", " + std::to_string(end));
    return put(step == 1 ? ")" : ", " + std::to_string(step) + ")");
  }

  bool write_dict(const Dict& dict) {
    out_ += '{';
    for (size_t i = 0; i < dict.size; ++i) {
      if (i > 0) out_ += ", ";
      if (!write(dict.entries[i].key)) return false;
      out_ += ": ";
      if (!write(dict.entries[i].value)) return false;
    }
    out_ += '}';
    return true;
  }

  Context& in_;
  std::string out_;
  bool user_ = false;
  int depth_ = 0;
};

}  // namespace

void append_repr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t cp = next_code_point(text, at);
    if (cp == static_cast<char32_t>(quote) || cp == '\\') {
      out += '\\';
      out += text[start];
    } else if (is_printable(cp)) {
      out += text.substr(start, at - start);
    } else {
      append_repr_escape(out, cp);
    }
  }
  out += quote;
}

void append_float(std::string& out, double v) {
  if (std::isnan(v)) {
    out += "nan";
    return;
  }
  if (std::isinf(v)) {
    out += v < 0 ? "-inf" : "inf";
    return;
  }
  // Python's repr: the shortest digits that read back, with an exponent outside 1e-4 ≤ |v| < 1e16.
  const double size = std::fabs(v);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 64> buffer{};
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v, format).ptr;
  const std::string_view digits(buffer.data(), static_cast<size_t>(end - buffer.data()));
  out += digits;
  if (plain && digits.find('.') == std::string_view::npos) out += ".0";
}

bool to_repr(Context& in, const Value& v, const Str*& out) {
  Repr repr(in);
  if (!repr.write(v)) return false;
  out = repr.finish();
  return true;
}

bool to_str(Context& in, const Value& v, const Str*& out) {
  if (v.is_text()) {
    out = v.s;
    return true;
  }
  static constexpr Str kEmpty{};
  if (v.is(Kind::undefined) || v.is(Kind::absent)) {
    out = &kEmpty;
    return true;
  }
  return to_repr(in, v, out);
}

}  // namespace quire::jinja
