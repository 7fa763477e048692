// See class_parser.h. Classes nest with an explicit stack; && binds weaker than juxtaposition, as in Oniguruma.
#include "text/regex/class_parser.h"

#include <vector>

#include "text/regex/parse.h"
#include "text/utf8.h"

namespace quire {

namespace {

struct Property {
  std::string_view name;
  Category first, last;
};
using enum Category;
constexpr Property kProperties[] = {
    {"L", lu, lo},  {"Lu", lu, lu}, {"Ll", ll, ll}, {"Lt", lt, lt}, {"Lm", lm, lm}, {"Lo", lo, lo}, {"M", mn, me},
    {"Mn", mn, mn}, {"Mc", mc, mc}, {"Me", me, me}, {"N", nd, no},  {"Nd", nd, nd}, {"Nl", nl, nl}, {"No", no, no},
    {"P", pc, po},  {"Pc", pc, pc}, {"Pd", pd, pd}, {"Ps", ps, ps}, {"Pe", pe, pe}, {"Pi", pi, pi}, {"Pf", pf, pf},
    {"Po", po, po}, {"S", sm, so},  {"Sm", sm, sm}, {"Sc", sc, sc}, {"Sk", sk, sk}, {"So", so, so}, {"Z", zs, zp},
    {"Zs", zs, zs}, {"Zl", zl, zl}, {"Zp", zp, zp}, {"Cc", cc, cc}, {"Cf", cf, cf}};

bool is_ascii_letter(char32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

// What a caseless pattern accepts for an ASCII letter, by Unicode's simple case folding.
void add_caseless(CharSet& set, char32_t letter) {
  set.add(letter | 0x20, letter | 0x20);
  set.add(letter & ~0x20u, letter & ~0x20u);
  if ((letter | 0x20) == 's') set.add(0x17F, 0x17F);    // long s
  if ((letter | 0x20) == 'k') set.add(0x212A, 0x212A);  // kelvin sign
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

tl::unexpected<Error> ClassParser::unsupported(const std::string& what) const {
  return fail(Code::unsupported, "regex: " + what + " at offset " + std::to_string(at_));
}

tl::unexpected<Error> ClassParser::invalid(const std::string& what) const {
  return fail(Code::invalid, "regex: " + what + " at offset " + std::to_string(at_));
}

Result<CharSet> ClassParser::literal(bool caseless) {
  const CodePoint c = utf8_at(pattern_, at_);
  if (!c.valid) return invalid("malformed UTF-8");
  if (caseless && !is_ascii_letter(c.value) && unicode_class(c.value) & unicode_bits::kLetter) {
    return unsupported("a caseless letter beyond ASCII");
  }
  at_ += static_cast<size_t>(c.len);
  CharSet set{{c.value, c.value}};
  if (caseless && is_ascii_letter(c.value)) add_caseless(set, c.value);
  return set;
}

Result<char32_t> ClassParser::hex_escape() {  // after "\x" or "\u"
  const bool braces = accept("{");
  const size_t n_max = braces ? 6 : pattern_[at_ - 1] == 'x' ? 2 : 4;
  char32_t value = 0;
  size_t n = 0;
  for (; n < n_max && !done() && hex_digit(peek()) >= 0; ++n, ++at_) {
    value = value * 16 + static_cast<char32_t>(hex_digit(peek()));
  }
  if (n == 0 || (braces && !accept("}"))) return invalid("bad hexadecimal escape");
  if (value > CharSet::kLast) return invalid("code point out of range");
  return value;
}

Result<CharSet> ClassParser::property(bool negated) {  // after "\p" or "\P"
  std::string_view name;
  if (accept("{")) {
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return invalid("\\p{ without }");
    name = pattern_.substr(at_, end - at_);
    at_ = end + 1;
  } else if (!done()) {
    name = pattern_.substr(at_++, 1);
  }
  if (name.starts_with('^')) {
    negated = !negated;
    name.remove_prefix(1);
  }
  if (name == "Han") return negated ? CharSet::han().negated() : CharSet::han();
  for (const Property& p : kProperties) {
    if (p.name != name) continue;
    const CharSet set = CharSet::of_categories(p.first, p.last);
    return negated ? set.negated() : set;
  }
  return unsupported("property " + std::string(name));
}

bool ClassParser::at_count() const {
  size_t i = at_ + 1, n_digits = 0;
  bool comma = false;
  for (; i < pattern_.size(); ++i) {
    const char c = pattern_[i];
    if (c == '}') return n_digits > 0;
    if (c == ',' && !comma && n_digits > 0) {
      comma = true;
    } else if (c >= '0' && c <= '9') {
      ++n_digits;
    } else {
      return false;
    }
  }
  return false;
}

// Behind "\uD83D": its other half.
Result<char32_t> ClassParser::ecma_escape_pair(char32_t high) {
  if (!accept("\\u")) return unsupported("half a character");
  QR_TRY(const char32_t low, hex_escape());
  if (low < 0xDC00 || low > 0xDFFF) return unsupported("half a character");
  return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

// What an escape means in the dialect of JSON Schema where that is not what it means elsewhere; an empty set where it
// is. Behind the backslash and c.
Result<CharSet> ClassParser::ecma_escape(char c) {
  switch (c) {
    case 'd': return CharSet{{'0', '9'}};
    case 'D': return CharSet{{'0', '9'}}.negated();
    case 'w': return CharSet{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 'W': return CharSet{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}.negated();
    case 's':
    case 'S': {
      const CharSet space{{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
      return c == 's' ? space : space.negated();
    }
    case '0': return CharSet{{0, 0}};
    case 'c': {
      if (done() || !is_ascii_letter(static_cast<unsigned char>(peek()))) return invalid("\\c without a letter");
      const auto value = static_cast<char32_t>(pattern_[at_++] & 0x1F);
      return CharSet{{value, value}};
    }
    case 'b': return CharSet{{'\b', '\b'}};  // in a class; elsewhere the parser has refused it
    default: return CharSet{};
  }
}

Result<CharSet> ClassParser::escape(bool caseless) {
  ++at_;
  if (done()) return invalid("\\ at the end");
  const char c = pattern_[at_++];
  if (ecma_) {
    QR_TRY(CharSet set, ecma_escape(c));
    if (!set.empty()) return set;
  }
  switch (c) {
    case 's': return CharSet::space();
    case 'S': return CharSet::space().negated();
    case 'd': return CharSet::of_categories(nd, nd);
    case 'D': return CharSet::of_categories(nd, nd).negated();
    case 'w': return CharSet::word();
    case 'W': return CharSet::word().negated();
    case 'r': return CharSet{{'\r', '\r'}};
    case 'n': return CharSet{{'\n', '\n'}};
    case 't': return CharSet{{'\t', '\t'}};
    case 'f': return CharSet{{'\f', '\f'}};
    case 'v': return CharSet{{'\v', '\v'}};
    case 'p':
    case 'P': return property(c == 'P');
    case 'x':
    case 'u': {
      QR_TRY(char32_t cp, hex_escape());
      if (ecma_ && cp >= 0xD800 && cp <= 0xDBFF) {
        QR_TRY(cp, ecma_escape_pair(cp));
      }
      if (caseless && (unicode_class(cp) & unicode_bits::kLetter)) return unsupported("a caseless escape");
      return CharSet{{cp, cp}};
    }
    default: break;
  }
  if (is_ascii_letter(static_cast<unsigned char>(c)) || (c >= '0' && c <= '9')) {
    --at_;
    return unsupported((c >= '1' && c <= '9' ? "the back-reference \\" : "escape \\") + std::string(1, c));
  }
  --at_;
  return literal(false);
}

Result<CharSet> ClassParser::class_item(bool caseless) {
  const size_t start = at_;
  QR_TRY(CharSet set, peek() == '\\' ? escape(caseless) : literal(caseless));
  const bool range =
      looking_at("-") && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']' && (ecma_ || pattern_[at_ + 1] != '[');
  const bool single = set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second;
  if (!range || (ecma_ && !single)) return set;
  // A range: both ends must be single code points as they are written.
  at_ = start;
  QR_TRY(const CharSet low, peek() == '\\' ? escape(false) : literal(false));
  if (low.ranges().size() != 1 || low.ranges()[0].first != low.ranges()[0].second)
    return unsupported("a class as range end");
  ++at_;
  QR_TRY(const CharSet high, peek() == '\\' ? escape(false) : literal(false));
  if (high.ranges().size() != 1 || high.ranges()[0].first != high.ranges()[0].second)
    return unsupported("a class as range end");
  const char32_t first = low.ranges()[0].first, last = high.ranges()[0].first;
  if (first > last) return invalid("range out of order");
  CharSet out{{first, last}};
  if (!caseless) return out;
  if (last >= 0x80) return unsupported("a caseless range beyond ASCII");
  for (char32_t c = first; c <= last; ++c) {
    if (is_ascii_letter(c)) add_caseless(out, c);
  }
  return out;
}

CharSet ClassParser::close(Class& c) {
  CharSet set = c.has_left ? c.left.intersected(c.now) : c.now;
  return c.negated ? set.negated() : set;
}

Result<CharSet> ClassParser::bracket(bool caseless) {
  std::vector<Class> open;
  while (!done()) {
    if ((!ecma_ || open.empty()) && accept("[")) {
      if (!ecma_ && looking_at(":")) return unsupported("a POSIX class");
      if (open.size() == kMaxRegexDepth)
        return unsupported("classes nested deeper than " + std::to_string(kMaxRegexDepth));
      open.emplace_back();
      open.back().negated = accept("^");
      if (!ecma_ && looking_at("]")) return unsupported("] at the start of a class");
      continue;
    }
    if (accept("]")) {
      const CharSet set = close(open.back());
      open.pop_back();
      if (open.empty()) return set;
      open.back().now.add(set);
      continue;
    }
    if (!ecma_ && accept("&&")) {
      Class& c = open.back();
      c.left = c.has_left ? c.left.intersected(c.now) : c.now;
      c.now = {};
      c.has_left = true;
      continue;
    }
    QR_TRY(const CharSet item, class_item(caseless));
    open.back().now.add(item);
  }
  return invalid("[ without ]");
}

}  // namespace quire
