// Filters whose subject is text.
#include <array>
#include <cmath>

#include "base/json.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace quire::jinja {
namespace {

// Filters work on str(value).
bool self_text(const Call& call, const Str*& out) { return to_str(call.in, call.self, out); }

bool give(const Str* s, Value& out) {
  out = make_string(s);
  return true;
}

template <Casing casing>
bool case_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  return self_text(call, s) && change_case(call.in, *s, casing, s) && give(s, out);
}

bool string_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  return self_text(call, s) && give(s, out);
}

bool trim_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (!self_text(call, s)) return false;
  if (!call.given(0) || call[0].is(Kind::none)) return give(strip_str(call.in, *s, {}), out);
  const Str* chars = nullptr;
  return want_text(call, call[0], "trim: chars", chars) && strip_str_chars(call.in, *s, *chars, {}, s) && give(s, out);
}

bool replace_filter(const Call& call, Value& out) {
  const Str *s = nullptr, *from = nullptr, *to = nullptr;
  int64_t limit = -1;
  if (call.given(2) && !call[2].is(Kind::none) && !want_int(call, call[2], "replace: count", limit)) return false;
  return self_text(call, s) && to_str(call.in, call[0], from) && to_str(call.in, call[1], to) &&
         replace_str(call.in, *s, {*from, *to, limit}, s) && give(s, out);
}

bool escape_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (!self_text(call, s)) return false;
  return (s->markup || escape_html(call.in, *s, s)) && give(s, out);
}

bool force_escape_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  return self_text(call, s) && escape_html(call.in, *s, s) && give(s, out);
}

bool safe_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (!self_text(call, s)) return false;
  Str* marked = call.in.arena().make<Str>(*s);
  marked->markup = true;
  return give(marked, out);
}

// indent(width=4, first=False, blank=False)
bool indent_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (!want_text(call, call.self, "indent: the value", s)) return false;
  static constexpr Str kNewline{.text = "\n"}, kSpace{.text = " "};
  const Str* indention = nullptr;
  if (call.given(0) && call[0].is_text()) {
    indention = call[0].s;
  } else {
    int64_t width = 4;
    Value spaces;
    if (!int_or(call, 0, 4, width)) return false;
    if (!binary(call.in, Operator::mul, make_string(&kSpace), make_int(width), spaces)) return false;
    indention = spaces.s;
  }
  const bool first = call.given(1) && is_true(call[1]);
  const bool blank = call.given(2) && is_true(call[2]);
  const std::array<const Str*, 2> with_end{s, &kNewline};
  Seq* lines = nullptr;
  if (!concat(call.in, with_end, s) || !split_lines(call.in, *s, false, lines)) return false;
  std::vector<const Str*> pieces;
  size_t total = 0;
  for (size_t i = 0; i < lines->size; ++i) {
    const Str* line = lines->items[i].s;
    if (i > 0) pieces.push_back(&kNewline);
    const bool indents = i == 0 ? first : blank || !line->text.empty();
    if (indents) pieces.push_back(indention);
    pieces.push_back(line);
    total += line->text.size() + indention->text.size();
    if (!call.in.step() || !call.in.fits(total)) return false;
  }
  return concat(call.in, pieces, s) && give(s, out);
}

bool center_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  int64_t width = 80;
  return self_text(call, s) && int_or(call, 0, 80, width) && pad_str(call.in, *s, {width, " ", Align::center}, s) &&
         give(s, out);
}

// truncate(length=255, killwords=False, end='...', leeway=5)
bool truncate_filter(const Call& call, Value& out) {
  static constexpr Str kDots{.text = "..."};
  const Str* s = nullptr;
  const Str* end = &kDots;
  int64_t length = 255, leeway = 5;
  if (!want_text(call, call.self, "truncate: the value", s)) return false;
  if (!int_or(call, 0, 255, length) || !int_or(call, 3, 5, leeway)) return false;
  if (call.given(2) && !want_text(call, call[2], "truncate: end", end)) return false;
  if (!call.in.scan(s->text.size())) return false;
  const auto size = static_cast<int64_t>(count_code_points(s->text));
  const auto end_size = static_cast<int64_t>(count_code_points(end->text));
  if (length < end_size) return call.in.fail("truncate: length must be at least that of end");
  if (size <= length + std::max<int64_t>(leeway, 0)) return give(s, out);
  size_t cut = byte_of_code_point(s->text, static_cast<size_t>(length - end_size));
  if (!(call.given(1) && is_true(call[1]))) {
    const size_t space = s->text.substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  const std::array<const Str*, 2> pieces{slice_str(call.in.arena(), *s, 0, cut), end};
  return concat(call.in, pieces, s) && give(s, out);
}

bool wordcount_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (!self_text(call, s) || !call.in.scan(s->text.size())) return false;
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < s->text.size();) {
    const char32_t cp = next_code_point(s->text, at);
    const bool part = cp == '_' || is_alpha(cp) || is_digit(cp);
    words += part && !inside;
    inside = part;
  }
  out = make_int(words);
  return true;
}

bool urlencode_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (call.self.is(Kind::seq) || call.self.is(Kind::dict)) return call.in.fail("urlencode: the value must be a string");
  if (!self_text(call, s) || !call.in.room(s->text.size() * 3)) return false;
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : s->text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (is_alpha(byte) || is_decimal(byte) ||
                                       std::string_view("_.-~/").find(c) != std::string_view::npos);
    if (plain) {
      text += c;
    } else {
      text += '%';
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    }
  }
  return give(copy_str(call.in.arena(), text, has_user(*s)), out);
}

// "%s" | format(values) — also with named values.
bool format_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (!self_text(call, s)) return false;
  Arena& arena = call.in.arena();
  if (!call.named.empty()) {
    if (!call.args.empty()) return call.in.fail("format: takes positional or named values, not both");
    Dict* values = new_dict(arena, call.named.size());
    for (const Named& n : call.named) append_entry(arena, *values, make_string(n.name), n.value);
    return format_percent(call.in, *s, make_dict(values), out);
  }
  Seq* values = new_seq(arena, SeqKind::tuple, call.args.size());
  for (const Value& v : call.args) push(arena, *values, v);
  return format_percent(call.in, *s, make_seq(values), out);
}

bool json_indent(const Call& call, const Value& v, JsonStyle& style) {
  if (v.is(Kind::none) || v.is(Kind::absent)) return true;
  style.has_indent = true;
  style.item_separator = ",";
  if (v.is_text()) {
    style.indent = v.s->text;
    return true;
  }
  static constexpr std::string_view kSpaces = "                                ";
  int64_t width = 0;
  if (!want_int(call, v, "tojson: indent", width)) return false;
  if (width > static_cast<int64_t>(kSpaces.size())) return call.in.fail("tojson: indent is limited to 32");
  style.indent = kSpaces.substr(0, static_cast<size_t>(std::max<int64_t>(width, 0)));
  return true;
}

// tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)
bool tojson_filter(const Call& call, Value& out) {
  JsonStyle style;
  style.ensure_ascii = call.given(0) && is_true(call[0]);
  style.sort_keys = call.given(3) && is_true(call[3]);
  if (!json_indent(call, call[1], style)) return false;
  if (call.given(2) && !call[2].is(Kind::none)) {
    const Value& v = call[2];
    if (!v.is(Kind::seq) || v.seq->size != 2 || !v.seq->items[0].is_text() || !v.seq->items[1].is_text()) {
      return call.in.fail("tojson: separators must be two strings");
    }
    style.item_separator = v.seq->items[0].s->text;
    style.key_separator = v.seq->items[1].s->text;
  }
  const Str* s = nullptr;
  return to_json(call.in, call.self, style, s) && give(s, out);
}

// Not Jinja's, but a few templates expect it of their engine.
bool from_json_filter(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (!want_text(call, call.self, "from_json: the value", s) || !call.in.scan(s->text.size())) return false;
  const auto parsed = Json::parse(s->text);
  if (!parsed) return call.in.fail("from_json: " + parsed.error().message);
  const JsonImport how{.trust = has_user(*s) ? Trust::user : Trust::trusted,
                       .strings = Strings::copy,
                       .limit = call.in.limits().memory_bytes};
  return import_json(call.in.arena(), *parsed, how, out) || call.in.step();
}

constexpr Builtin kFilters[] = {
    {"upper", case_filter<Casing::upper>},
    {"lower", case_filter<Casing::lower>},
    {"capitalize", case_filter<Casing::capitalize>},
    {"title", case_filter<Casing::words>},
    {"string", string_filter},
    {"trim", trim_filter, 0, {"chars"}},
    {"replace", replace_filter, 2, {"old", "new", "count"}},
    {"escape", escape_filter},
    {"e", escape_filter},
    {"forceescape", force_escape_filter},
    {"safe", safe_filter},
    {"indent", indent_filter, 0, {"width", "first", "blank"}},
    {"center", center_filter, 0, {"width"}},
    {"truncate", truncate_filter, 0, {"length", "killwords", "end", "leeway"}},
    {"wordcount", wordcount_filter},
    {"urlencode", urlencode_filter},
    {"format", format_filter, 0, {kAnyParams}},
    {"tojson", tojson_filter, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"from_json", from_json_filter},
};

}  // namespace

std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace quire::jinja
