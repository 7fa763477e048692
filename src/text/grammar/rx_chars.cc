// See rx_chars.h.
#include "text/grammar/rx_chars.h"

#include <algorithm>

#include "text/utf8.h"

namespace quire::grammar {

namespace {

using Ranges = std::vector<CharSet::Range>;

Ranges clip(const Ranges& ranges, char32_t first, char32_t last, char32_t base) {
  Ranges out;
  for (const auto& [a, b] : ranges) {
    const char32_t from = std::max(a, first), to = std::min(b, last);
    if (from <= to) out.emplace_back(from - base, to - base);
  }
  return out;
}

ByteSet hex_digit(char32_t d) {
  ByteSet s;
  s.add(static_cast<uint8_t>(d < 10 ? '0' + d : 'a' + d - 10));
  if (d >= 10) s.add(static_cast<uint8_t>('A' + d - 10));
  return s;
}

// Numbers in `ranges` as n digits of a base, most significant first; equal rests are one expression, so that wide
// ranges stay small. The depth is the number of digits, at most 4.
Rx in_base(RxStore& store, const Ranges& ranges, int n, char32_t base, ByteSet (*spell)(char32_t, int)) {
  if (n == 0) return ranges.empty() ? RxStore::kNever : RxStore::kEmpty;
  char32_t unit = 1;
  for (int i = 1; i < n; ++i) unit *= base;
  std::map<Rx, ByteSet> by_rest;
  size_t at = 0;
  for (char32_t d = 0; d < base && at < ranges.size(); ++d) {
    const char32_t first = d * unit, last = first + unit - 1;
    while (at < ranges.size() && ranges[at].second < first) ++at;
    if (at == ranges.size()) break;
    if (ranges[at].first > last) {
      d = ranges[at].first / unit - 1;
      continue;
    }
    if (ranges[at].first <= first && ranges[at].second >= last) {  // this digit and more of them with all rests
      const auto end = std::min<char32_t>(base, (ranges[at].second + 1) / unit);
      ByteSet& to = by_rest[in_base(store, {{0, unit - 1}}, n - 1, base, spell)];
      for (; d < end; ++d) to = to | spell(d, n);
      --d;
      continue;
    }
    Ranges rest;
    for (size_t i = at; i < ranges.size() && ranges[i].first <= last; ++i) {
      rest.emplace_back(std::max(ranges[i].first, first) - first, std::min(ranges[i].second, last) - first);
    }
    ByteSet& to = by_rest[in_base(store, rest, n - 1, base, spell)];
    to = to | spell(d, n);
  }
  std::vector<Rx> parts;
  for (const auto& [rest, bytes] : by_rest) parts.push_back(store.cat(store.set(bytes), rest));
  return store.alt(std::move(parts));
}

ByteSet spell_hex(char32_t d, int) { return hex_digit(d); }

// The n-th digit from the right of a UTF-8 sequence; a leading one brings its length along (see utf8()).
ByteSet spell_next(char32_t d, int) { return ByteSet::range(0x80 + d, 0x80 + d); }

}  // namespace

Rx CharCoder::utf8(const CharSet& set) {
  static constexpr struct {
    char32_t first, last;
    int n_next;
    uint8_t lead;
  } kLengths[] = {{0x80, 0x7FF, 1, 0xC0}, {0x800, 0xFFFF, 2, 0xE0}, {0x10000, 0x10FFFF, 3, 0xF0}};
  ByteSet ascii;
  std::map<Rx, ByteSet> by_rest;
  for (const auto& [a, b] : clip(set.ranges(), 0, 0x7F, 0)) ascii = ascii | ByteSet::range(a, b);
  for (const auto& length : kLengths) {
    const Ranges ranges = clip(set.ranges(), length.first, length.last, 0);
    if (ranges.empty()) continue;
    const char32_t unit = char32_t{1} << (6 * length.n_next);
    for (char32_t lead = ranges.front().first / unit; lead <= ranges.back().second / unit; ++lead) {
      const Ranges rest = clip(ranges, lead * unit, lead * unit + unit - 1, lead * unit);
      if (rest.empty()) continue;
      by_rest[in_base(store_, rest, length.n_next, 64, spell_next)].add(static_cast<uint8_t>(length.lead + lead));
    }
  }
  std::vector<Rx> parts{store_.set(ascii)};
  for (const auto& [rest, bytes] : by_rest) parts.push_back(store_.cat(store_.set(bytes), rest));
  return store_.alt(std::move(parts));
}

Rx CharCoder::hex(const Ranges& ranges) {
  return store_.cat(store_.literal("\\u"), in_base(store_, ranges, 4, 16, spell_hex));
}

Rx CharCoder::pairs(const CharSet& set) {
  std::map<Ranges, Ranges> highs_of;  // low halves → the high halves that they all may follow
  for (const auto& [a, b] : clip(set.ranges(), 0x10000, 0x10FFFF, 0x10000)) {
    const char32_t h0 = a >> 10, h1 = b >> 10;
    const auto add = [&](char32_t first, char32_t last, char32_t low, char32_t high) {
      highs_of[{{0xDC00 + low, 0xDC00 + high}}].emplace_back(0xD800 + first, 0xD800 + last);
    };
    if (h0 == h1) {
      add(h0, h0, a & 0x3FF, b & 0x3FF);
      continue;
    }
    const char32_t full_from = (a & 0x3FF) == 0 ? h0 : h0 + 1, full_end = (b & 0x3FF) == 0x3FF ? h1 + 1 : h1;
    if (full_from > h0) add(h0, h0, a & 0x3FF, 0x3FF);
    if (full_from < full_end) add(full_from, full_end - 1, 0, 0x3FF);
    if (full_end <= h1) add(h1, h1, 0, b & 0x3FF);
  }
  std::vector<Rx> parts;
  for (const auto& [low, highs] : highs_of) parts.push_back(store_.cat(hex(highs), hex(low)));
  return store_.alt(std::move(parts));
}

Rx CharCoder::escapes(const CharSet& set) {
  static constexpr std::pair<char32_t, char> kLetters[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                                           {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
  ByteSet letters;
  for (const auto& [c, letter] : kLetters) {
    if (set.contains(c)) letters.add(static_cast<uint8_t>(letter));
  }
  const CharSet by_number = set.intersected(CharSet{{0, 0x1F}, {0x7F, 0xFFFF}});
  return store_.alt({store_.cat(store_.byte('\\'), store_.set(letters)), hex(by_number.ranges()), pairs(set)});
}

Rx CharCoder::one_of(const CharSet& set) {
  const auto it = made_.find(set.ranges());
  if (it != made_.end()) return it->second;
  const CharSet chars = set.intersected(CharSet{{0xD800, 0xDFFF}}.negated());
  Rx out = RxStore::kNever;
  if (spelling_ == Spelling::utf8) {
    out = utf8(chars);
  } else {
    static const CharSet kNeedEscape{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    out = store_.alt({utf8(chars.intersected(kNeedEscape.negated())), escapes(chars)});
  }
  made_.emplace(set.ranges(), out);
  return out;
}

Rx CharCoder::text(std::string_view bytes) {
  const std::u32string chars = to_code_points(bytes);
  Rx out = RxStore::kEmpty;
  for (size_t i = chars.size(); i-- > 0;) out = store_.cat(one_of(CharSet{{chars[i], chars[i]}}), out);
  return out;
}

}  // namespace quire::grammar
