// Methods of strings that make strings and lists.
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/select.h"
#include "text/jinja/text_ops.h"

namespace quire::jinja {
namespace {

const Str& self(const Call& call) { return *call.self.s; }

bool give(const Str* s, Value& out) {
  out = make_string(s);
  return true;
}

template <Casing casing>
bool case_method(const Call& call, Value& out) {
  const Str* s = nullptr;
  return change_case(call.in, self(call), casing, s) && give(s, out);
}

template <bool left, bool right>
bool strip_method(const Call& call, Value& out) {
  constexpr Ends kEnds{.left = left, .right = right};
  if (!call.in.scan(self(call).text.size() / 16)) return false;
  if (!call.given(0) || call[0].is(Kind::none)) return give(strip_str(call.in, self(call), kEnds), out);
  const Str *chars = nullptr, *s = nullptr;
  return want_text(call, call[0], "strip: chars", chars) && strip_str_chars(call.in, self(call), *chars, kEnds, s) &&
         give(s, out);
}

// split and rsplit: (sep=None, maxsplit=-1)
template <bool from_end>
bool split_method(const Call& call, Value& out) {
  int64_t limit = -1;
  if (!int_or(call, 1, -1, limit)) return false;
  if (limit < 0) limit = kNoLimit;
  Seq* parts = nullptr;
  bool ok = false;
  if (!call.given(0) || call[0].is(Kind::none)) {
    ok = (from_end ? split_space_from_end : split_space)(call.in, self(call), limit, parts);
  } else {
    const Str* separator = nullptr;
    if (!want_text(call, call[0], "split: the separator", separator)) return false;
    ok = (from_end ? split_str_from_end : split_str)(call.in, self(call), *separator, limit, parts);
  }
  if (ok) out = make_seq(parts);
  return ok;
}

bool splitlines_method(const Call& call, Value& out) {
  Seq* lines = nullptr;
  if (!split_lines(call.in, self(call), call.given(0) && is_true(call[0]), lines)) return false;
  out = make_seq(lines);
  return true;
}

// partition and rpartition: (before, separator, after)
template <bool from_end>
bool partition_method(const Call& call, Value& out) {
  static constexpr Str kEmpty{};
  const Str* separator = nullptr;
  if (!want_text(call, call[0], "partition: the separator", separator)) return false;
  Seq* parts = nullptr;
  if (!(from_end ? split_str_from_end : split_str)(call.in, self(call), *separator, 1, parts)) return false;
  Seq* triple = new_seq(call.in.arena(), SeqKind::tuple, 3);
  std::array<const Str*, 3> pieces{&self(call), &kEmpty, &kEmpty};
  if (parts->size == 2) {
    pieces = {parts->items[0].s, separator, parts->items[1].s};
  } else if (from_end) {
    pieces = {&kEmpty, &kEmpty, &self(call)};
  }
  for (const Str* piece : pieces) push(call.in.arena(), *triple, make_string(piece));
  out = make_seq(triple);
  return true;
}

bool replace_method(const Call& call, Value& out) {
  const Str *from = nullptr, *to = nullptr, *s = nullptr;
  int64_t limit = -1;
  return want_text(call, call[0], "replace: old", from) && want_text(call, call[1], "replace: new", to) &&
         int_or(call, 2, -1, limit) && replace_str(call.in, self(call), {*from, *to, limit}, s) && give(s, out);
}

bool join_method(const Call& call, Value& out) {
  Seq* items = nullptr;
  if (!iterate(call.in, call[0], items)) return false;
  for (size_t i = 0; i < items->size; ++i) {
    const Str* s = nullptr;
    if (!want_text(call, items->items[i], "join: an item", s)) return false;
  }
  return join_values(call.in, *items, self(call), out);
}

bool format_method(const Call& call, Value& out) {
  return format_braces(call.in, self(call), call.args, call.named, out);
}

template <Align align>
bool pad_method(const Call& call, Value& out) {
  int64_t width = 0;
  const Str* s = nullptr;
  std::string_view fill = " ";
  if (!want_int(call, call[0], "width", width)) return false;
  if (call.given(1)) {
    if (!want_text(call, call[1], "the fill character", s)) return false;
    if (count_code_points(s->text) != 1) return call.in.fail("the fill character must be one character");
    fill = s->text;
  }
  return pad_str(call.in, self(call), {width, fill, align}, s) && give(s, out);
}

bool zfill_method(const Call& call, Value& out) {
  int64_t width = 0;
  if (!want_int(call, call[0], "zfill: width", width)) return false;
  const Str& s = self(call);
  const size_t sign = s.text.starts_with('-') || s.text.starts_with('+') ? 1 : 0;
  const Str* digits = slice_str(call.in.arena(), s, sign, s.text.size());
  if (!pad_str(call.in, *digits, {width - static_cast<int64_t>(sign), "0", Align::right}, digits)) return false;
  const std::array<const Str*, 2> pieces{slice_str(call.in.arena(), s, 0, sign), digits};
  const Str* joined = nullptr;
  return concat(call.in, pieces, joined) && give(joined, out);
}

template <bool prefix>
bool remove_end_method(const Call& call, Value& out) {
  const Str* end = nullptr;
  if (!want_text(call, call[0], "the argument", end)) return false;
  const Str& s = self(call);
  const bool found = prefix ? s.text.starts_with(end->text) : s.text.ends_with(end->text);
  const size_t cut = found ? end->text.size() : 0;
  const size_t begin = prefix ? cut : 0;
  return give(slice_str(call.in.arena(), s, begin, s.text.size() - (prefix ? 0 : cut)), out);
}

constexpr Builtin kMethods[] = {
    {"upper", case_method<Casing::upper>},
    {"lower", case_method<Casing::lower>},
    {"casefold", case_method<Casing::lower>},
    {"title", case_method<Casing::title>},
    {"capitalize", case_method<Casing::capitalize>},
    {"swapcase", case_method<Casing::swap>},
    {"strip", strip_method<true, true>, 0, {"chars"}},
    {"lstrip", strip_method<true, false>, 0, {"chars"}},
    {"rstrip", strip_method<false, true>, 0, {"chars"}},
    {"split", split_method<false>, 0, {"sep", "maxsplit"}},
    {"rsplit", split_method<true>, 0, {"sep", "maxsplit"}},
    {"splitlines", splitlines_method, 0, {"keepends"}},
    {"partition", partition_method<false>, 1, {"sep"}},
    {"rpartition", partition_method<true>, 1, {"sep"}},
    {"replace", replace_method, 2, {"old", "new", "count"}},
    {"join", join_method, 1, {"iterable"}},
    {"format", format_method, 0, {kAnyParams}},
    {"ljust", pad_method<Align::left>, 1, {"width", "fillchar"}},
    {"rjust", pad_method<Align::right>, 1, {"width", "fillchar"}},
    {"center", pad_method<Align::center>, 1, {"width", "fillchar"}},
    {"zfill", zfill_method, 1, {"width"}},
    {"removeprefix", remove_end_method<true>, 1, {"prefix"}},
    {"removesuffix", remove_end_method<false>, 1, {"suffix"}},
};

}  // namespace

std::span<const Builtin> text_methods() { return kMethods; }

}  // namespace quire::jinja
