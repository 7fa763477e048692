#include "text/jinja/text_ops.h"

#include <algorithm>
#include <vector>

#include "text/jinja/ops.h"

namespace quire::jinja {
namespace {

// Changes case code point by code point, knowing what came before.
class Caser {
 public:
  explicit Caser(Casing casing) : casing_(casing) {}

  void put(std::string& out, char32_t cp) {
    const bool opens = starts_word(cp);
    if (casing_ == Casing::upper || (casing_ == Casing::swap && is_lower(cp)) || (casing_ == Casing::words && opens)) {
      append_upper(out, cp);
    } else if (opens && (casing_ == Casing::title || casing_ == Casing::capitalize)) {
      append_title(out, cp);
    } else if (casing_ == Casing::swap && !is_upper(cp)) {
      append_utf8(out, cp);
    } else {
      append_lower(out, cp);
    }
    before_ = cp;
    first_ = false;
  }

 private:
  bool starts_word(char32_t) const {
    if (casing_ == Casing::capitalize) return first_;
    if (casing_ == Casing::title) return first_ || !is_alpha(before_);
    // Jinja's title filter splits behind white space and - ( { [ <.
    return casing_ == Casing::words &&
           (first_ || is_space(before_) || std::u32string_view(U"-({[<").find(before_) != std::u32string_view::npos);
  }

  Casing casing_;
  char32_t before_ = 0;
  bool first_ = true;
};

bool push_slice(Context& in, Seq& seq, const Str& s, size_t begin, size_t end) {
  if (!in.step()) return false;
  push(in.arena(), seq, make_string(slice_str(in.arena(), s, begin, end)));
  return true;
}

void reverse(Seq& seq) { std::reverse(seq.items, seq.items + seq.size); }

// Length of the line break at `at`, 0 when there is none.
size_t line_break(std::string_view text, size_t at) {
  size_t next = at;
  const char32_t cp = next_code_point(text, next);
  if (cp == '\r' && next < text.size() && text[next] == '\n') return 2;
  const bool breaks =
      (cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
  return breaks ? next - at : 0;
}

size_t skip_while_space(std::string_view text, size_t at, bool space) {
  while (at < text.size()) {
    size_t next = at;
    if (is_space(next_code_point(text, next)) != space) break;
    at = next;
  }
  return at;
}

}  // namespace

bool change_case(Context& in, const Str& s, Casing casing, const Str*& out) {
  if (!in.room(s.text.size())) return false;
  TextBuilder text;
  Caser caser(casing);
  const auto put = [&](size_t begin, size_t end, bool user) {
    std::string piece;
    for (size_t at = begin; at < end;) caser.put(piece, next_code_point(s.text, at));
    user ? text.add_user(piece) : text.add(piece);
  };
  size_t at = 0;
  for (const ByteRange& r : s.user) {
    put(at, r.begin, false);
    put(r.begin, r.end, true);
    at = r.end;
  }
  put(at, s.text.size(), false);
  Str* changed = in.arena().make<Str>(*text.finish(in.arena()));
  changed->markup = s.markup;
  out = changed;
  return true;
}

const Str* strip_str(Context& in, const Str& s, Ends ends) {
  const std::string_view left = strip_space(s.text, ends);
  const auto begin = static_cast<size_t>(left.data() - s.text.data());
  return slice_str(in.arena(), s, left.empty() ? 0 : begin, left.empty() ? 0 : begin + left.size());
}

bool strip_str_chars(Context& in, const Str& s, const Str& chars, Ends ends, const Str*& out) {
  // Each character taken off is looked for among `chars`.
  if (!in.scan(s.text.size() * std::min<size_t>(chars.text.size(), in.limits().memory_bytes))) return false;
  const std::string_view left = strip_chars(s.text, chars.text, ends);
  const auto begin = static_cast<size_t>(left.data() - s.text.data());
  out = slice_str(in.arena(), s, left.empty() ? 0 : begin, left.empty() ? 0 : begin + left.size());
  return true;
}

bool replace_str(Context& in, const Str& s, const Replacement& how, const Str*& out) {
  if (!in.scan(s.text.size())) return false;
  const Str &from = how.from, &to = how.to;
  int64_t limit = how.limit < 0 ? kNoLimit : how.limit;
  std::vector<const Str*> pieces;
  size_t total = 0;
  const auto add = [&](const Str* piece) {
    pieces.push_back(piece);
    total += piece->text.size();
    return in.step() && in.fits(total);
  };
  size_t begin = 0;
  if (from.text.empty()) {  // Python puts `to` before every character and at the end
    for (; limit > 0 && begin < s.text.size(); --limit) {
      size_t end = begin;
      next_code_point(s.text, end);
      if (!add(&to) || !add(slice_str(in.arena(), s, begin, end))) return false;
      begin = end;
    }
    if (begin < s.text.size() && !add(slice_str(in.arena(), s, begin, s.text.size()))) return false;
    if (limit > 0 && !add(&to)) return false;
    return concat(in, pieces, out);
  }
  for (; limit > 0; --limit) {
    const size_t at = find_bytes(s.text, from.text, begin);
    if (at == std::string_view::npos) break;
    if (!add(slice_str(in.arena(), s, begin, at)) || !add(&to)) return false;
    begin = at + from.text.size();
  }
  if (begin == 0) {
    out = &s;
    return true;
  }
  return add(slice_str(in.arena(), s, begin, s.text.size())) && concat(in, pieces, out);
}

bool split_space(Context& in, const Str& s, int64_t limit, Seq*& out) {
  if (!in.scan(s.text.size())) return false;
  out = new_seq(in.arena(), SeqKind::list, 0);
  size_t at = skip_while_space(s.text, 0, true);
  while (at < s.text.size()) {
    if (limit-- == 0) return push_slice(in, *out, s, at, s.text.size());
    const size_t end = skip_while_space(s.text, at, false);
    if (!push_slice(in, *out, s, at, end)) return false;
    at = skip_while_space(s.text, end, true);
  }
  return true;
}

bool split_space_from_end(Context& in, const Str& s, int64_t limit, Seq*& out) {
  Seq* words = nullptr;
  if (!split_space(in, s, kNoLimit, words)) return false;
  const auto n = static_cast<int64_t>(words->size);
  if (limit >= n) {
    out = words;
    return true;
  }
  // The first words and the space between them stay together.
  out = new_seq(in.arena(), SeqKind::list, 0);
  const std::string_view last_kept = words->items[n - limit - 1].s->text;
  const size_t end = static_cast<size_t>(last_kept.data() - s.text.data()) + last_kept.size();
  if (!push_slice(in, *out, s, 0, end)) return false;
  for (int64_t i = n - limit; i < n; ++i) push(in.arena(), *out, words->items[i]);
  return true;
}

bool split_str(Context& in, const Str& s, const Str& separator, int64_t limit, Seq*& out) {
  if (separator.text.empty()) return in.fail("split: the separator is empty");
  if (!in.scan(s.text.size())) return false;
  out = new_seq(in.arena(), SeqKind::list, 0);
  size_t begin = 0;
  for (; limit > 0; --limit) {
    const size_t at = find_bytes(s.text, separator.text, begin);
    if (at == std::string_view::npos) break;
    if (!push_slice(in, *out, s, begin, at)) return false;
    begin = at + separator.text.size();
  }
  return push_slice(in, *out, s, begin, s.text.size());
}

bool split_str_from_end(Context& in, const Str& s, const Str& separator, int64_t limit, Seq*& out) {
  if (separator.text.empty()) return in.fail("rsplit: the separator is empty");
  if (!in.room(s.text.size() + separator.text.size())) return false;
  out = new_seq(in.arena(), SeqKind::list, 0);
  size_t end = s.text.size();
  for (const size_t at : find_from_end(s.text, separator.text, static_cast<size_t>(limit))) {
    if (!push_slice(in, *out, s, at + separator.text.size(), end)) return false;
    end = at;
  }
  if (!push_slice(in, *out, s, 0, end)) return false;
  reverse(*out);
  return true;
}

bool split_lines(Context& in, const Str& s, bool keep_ends, Seq*& out) {
  if (!in.scan(s.text.size())) return false;
  out = new_seq(in.arena(), SeqKind::list, 0);
  size_t begin = 0;
  for (size_t at = 0; at < s.text.size();) {
    const size_t length = line_break(s.text, at);
    if (length == 0) {
      next_code_point(s.text, at);
      continue;
    }
    if (!push_slice(in, *out, s, begin, at + (keep_ends ? length : 0))) return false;
    begin = at += length;
  }
  return begin == s.text.size() || push_slice(in, *out, s, begin, s.text.size());
}

bool pad_str(Context& in, const Str& s, const Padding& how, const Str*& out) {
  if (!in.scan(s.text.size())) return false;
  const auto size = static_cast<int64_t>(count_code_points(s.text));
  out = &s;
  if (how.width <= size) return true;
  const auto missing = static_cast<size_t>(how.width - size);
  if (!in.fits(missing) || !in.room(missing * how.fill.size())) return false;
  // str.center puts the odd one before the text when the width is odd.
  const size_t half = missing / 2 + (missing & static_cast<size_t>(how.width) & 1);
  const size_t before = how.align == Align::left ? 0 : how.align == Align::right ? missing : half;
  TextBuilder text;
  for (size_t i = 0; i < before; ++i) text.add(how.fill);
  text.add(s);
  for (size_t i = before; i < missing; ++i) text.add(how.fill);
  out = text.finish(in.arena());
  return true;
}

}  // namespace quire::jinja
