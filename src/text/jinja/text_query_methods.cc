// Methods of strings that answer with numbers and truth.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

// self[start:end] of the arguments `first` and `first + 1`, as bytes; false in `inside` when start is behind the end.
struct Part {
  std::string_view text;
  size_t begin = 0;  // in bytes
  bool inside = true;
};

bool part_of(const Call& call, size_t first, Part& out) {
  const std::string_view text = call.self.s->text;
  out.text = text;
  const auto given = [&](size_t i) { return call.given(i) && !call[i].is(Kind::none); };
  if (!call.in.scan(text.size())) return false;
  if (!given(first) && !given(first + 1)) return true;
  const auto size = static_cast<int64_t>(count_code_points(text));
  int64_t start = 0, end = size;
  if (given(first) && !want_int(call, call[first], "start", start)) return false;
  if (given(first + 1) && !want_int(call, call[first + 1], "end", end)) return false;
  const auto place = [&](int64_t i) { return i < 0 ? std::max<int64_t>(i + size, 0) : i; };
  start = place(start);
  end = std::min(place(end), size);
  out.inside = start <= size && start <= end;
  if (!out.inside) return true;
  out.begin = byte_of_code_point(text, static_cast<size_t>(start));
  const size_t stop = byte_of_code_point(text, static_cast<size_t>(end));
  out.text = text.substr(out.begin, stop - out.begin);
  return true;
}

// startswith and endswith: (one or a tuple of them, start, end)
template <bool start>
bool affix_method(const Call& call, Value& out) {
  Part part;
  if (!part_of(call, 1, part)) return false;
  const auto matches = [&](std::string_view affix) {
    return part.inside && (start ? part.text.starts_with(affix) : part.text.ends_with(affix));
  };
  const bool is_tuple = call[0].is(Kind::seq) && call[0].seq->kind == SeqKind::tuple;
  const std::span<const Value> all =
      is_tuple ? std::span<const Value>(call[0].seq->items, call[0].seq->size) : std::span<const Value>(&call[0], 1);
  out = make_bool(false);
  for (const Value& v : all) {
    const Str* affix = nullptr;
    if (!call.in.step() || !want_text(call, v, start ? "startswith: prefix" : "endswith: suffix", affix)) return false;
    if (matches(affix->text)) out = make_bool(true);
  }
  return true;
}

// The place in code points, or -1.
bool find_place(const Call& call, bool from_end, int64_t& place) {
  const Str* wanted = nullptr;
  Part part;
  if (!want_text(call, call[0], "the text to find", wanted) || !part_of(call, 1, part)) return false;
  size_t at = std::string_view::npos;
  if (part.inside && !from_end) {
    at = find_bytes(part.text, wanted->text, 0);
  } else if (part.inside && wanted->text.empty()) {
    at = part.text.size();
  } else if (part.inside) {
    if (!call.in.room(part.text.size() + wanted->text.size())) return false;
    const auto hits = find_from_end(part.text, wanted->text, 1);
    if (!hits.empty()) at = hits[0];
  }
  const bool found = at != std::string_view::npos;
  place = found ? static_cast<int64_t>(count_code_points(call.self.s->text.substr(0, part.begin + at))) : -1;
  return true;
}

template <bool from_end>
bool find_method(const Call& call, Value& out) {
  int64_t place = 0;
  if (!find_place(call, from_end, place)) return false;
  out = make_int(place);
  return true;
}

template <bool from_end>
bool index_method(const Call& call, Value& out) {
  if (!find_method<from_end>(call, out)) return false;
  return out.i >= 0 || call.in.fail("index: the text was not found");
}

bool count_method(const Call& call, Value& out) {
  const Str* wanted = nullptr;
  Part part;
  if (!want_text(call, call[0], "count: the text", wanted) || !part_of(call, 1, part)) return false;
  int64_t n = 0;
  if (wanted->text.empty()) {
    n = part.inside ? static_cast<int64_t>(count_code_points(part.text)) + 1 : 0;
  } else if (part.inside) {
    for (size_t at = 0; (at = find_bytes(part.text, wanted->text, at)) != std::string_view::npos; ++n) {
      at += wanted->text.size();
      if (!call.in.step()) return false;
    }
  }
  out = make_int(n);
  return true;
}

bool is_alnum(char32_t cp) { return is_alpha(cp) || is_digit(cp); }
bool is_ascii(char32_t cp) { return cp < 0x80; }

// True when the string is not empty (or may be) and each character passes.
template <bool (*passes)(char32_t), bool empty_passes = false>
bool all_method(const Call& call, Value& out) {
  const std::string_view text = call.self.s->text;
  if (!call.in.scan(text.size())) return false;
  bool all = empty_passes || !text.empty();
  for (size_t at = 0; all && at < text.size();) all = passes(next_code_point(text, at));
  out = make_bool(all);
  return true;
}

template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
bool cased_method(const Call& call, Value& out) {
  const std::string_view text = call.self.s->text;
  if (!call.in.scan(text.size())) return false;
  bool some = false, none_other = true;
  for (size_t at = 0; at < text.size();) {
    const char32_t cp = next_code_point(text, at);
    some = some || wanted(cp);
    none_other = none_other && !other(cp);
  }
  out = make_bool(some && none_other);
  return true;
}

constexpr Builtin kMethods[] = {
    {"startswith", affix_method<true>, 1, {"prefix", "start", "end"}},
    {"endswith", affix_method<false>, 1, {"suffix", "start", "end"}},
    {"find", find_method<false>, 1, {"sub", "start", "end"}},
    {"rfind", find_method<true>, 1, {"sub", "start", "end"}},
    {"index", index_method<false>, 1, {"sub", "start", "end"}},
    {"rindex", index_method<true>, 1, {"sub", "start", "end"}},
    {"count", count_method, 1, {"sub", "start", "end"}},
    {"isdigit", all_method<is_digit>},
    {"isdecimal", all_method<is_decimal>},
    {"isnumeric", all_method<is_digit>},
    {"isalpha", all_method<is_alpha>},
    {"isalnum", all_method<is_alnum>},
    {"isspace", all_method<is_space>},
    {"isascii", all_method<is_ascii, true>},
    {"isprintable", all_method<is_printable, true>},
    {"isupper", cased_method<is_upper, is_lower>},
    {"islower", cased_method<is_lower, is_upper>},
};

}  // namespace

std::span<const Builtin> text_query_methods() { return kMethods; }

}  // namespace quire::jinja
