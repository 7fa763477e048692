// See matcher.h.
#include "text/regex/matcher.h"

#include "text/regex/dfa.h"
#include "text/utf8.h"

namespace quire {

namespace {

class DfaMatcher final : public RegexMatcher {
 public:
  explicit DfaMatcher(Dfa dfa) : dfa_(std::move(dfa)) {}
  bool find_all(std::string_view text, std::vector<ByteRange>& out) const override { return dfa_.find_all(text, out); }

 private:
  Dfa dfa_;
};

class LiteralMatcher final : public RegexMatcher {
 public:
  explicit LiteralMatcher(std::string text) : text_(std::move(text)) {}
  bool find_all(std::string_view text, std::vector<ByteRange>& out) const override {
    for (size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at + text_.size())) {
      out.push_back({at, at + text_.size()});
    }
    return true;
  }

 private:
  std::string text_;
};

// Runs of decimal digits, cut in threes from the right. Tokenizers ask for this with lookaheads that take quadratic
// time on long runs; the patterns are few, so they are known by name.
class ThreesMatcher final : public RegexMatcher {
 public:
  enum class Kind : uint8_t {
    groups,           // the groups themselves
    groups_at_words,  // the same, in runs that no word character follows
    cuts              // the empty places before each full group
  };
  explicit ThreesMatcher(Kind kind) : kind_(kind) {}

  bool find_all(std::string_view text, std::vector<ByteRange>& out) const override {
    std::vector<size_t> digits;  // where each digit of the run begins, and its end
    for (size_t i = 0; i < text.size();) {
      digits.clear();
      CodePoint c = utf8_at(text, i);
      for (; category(c.value) == Category::nd; c = utf8_at(text, i)) {
        digits.push_back(i);
        i += static_cast<size_t>(c.len);
        if (i == text.size()) break;
      }
      digits.push_back(i);
      const bool word_follows = i < text.size() && word_for_boundary(c.value);
      if (kind_ != Kind::groups_at_words || !word_follows) add_run(digits, out);
      if (i < text.size()) i += static_cast<size_t>(c.len);
    }
    return true;
  }

 private:
  // Oniguruma's idea of \b: six Latin-1 numbers are word characters, joiners are not.
  static bool word_for_boundary(char32_t cp) {
    const bool number = cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || (cp >= 0xBC && cp <= 0xBE);
    return number || (is_word(cp) && cp != 0x200C && cp != 0x200D);
  }

  void add_run(const std::vector<size_t>& digits, std::vector<ByteRange>& out) const {
    const size_t n = digits.size() - 1;
    const size_t lead = n % 3;
    if (lead > 0 && kind_ != Kind::cuts) out.push_back({digits[0], digits[lead]});
    for (size_t d = lead; d < n; d += 3) out.push_back({digits[d], kind_ == Kind::cuts ? digits[d] : digits[d + 3]});
  }

  Kind kind_;
};

std::unique_ptr<RegexMatcher> make_threes_matcher(std::string_view pattern) {
  using Kind = ThreesMatcher::Kind;
  if (pattern == R"(\d{1,3}(?=(?:\d{3})*\b))") return std::make_unique<ThreesMatcher>(Kind::groups_at_words);
  if (pattern == R"((?=(\d{3})+(?!\d)))") return std::make_unique<ThreesMatcher>(Kind::cuts);
  if (pattern == R"(\p{Nd}{1,3}(?=(?:\p{Nd}{3})*(?!\p{Nd})))") return std::make_unique<ThreesMatcher>(Kind::groups);
  return nullptr;
}

Result<std::unique_ptr<RegexMatcher>> make_dfa_matcher(std::string_view pattern, RegexDialect dialect) {
  QR_TRY(const RegexTree tree, parse_regex(pattern, dialect));
  QR_TRY(Dfa dfa, Dfa::compile(tree));
  return std::make_unique<DfaMatcher>(std::move(dfa));
}

}  // namespace

Result<std::unique_ptr<RegexMatcher>> make_matcher(std::string_view pattern, RegexDialect dialect) {
  if (auto threes = make_threes_matcher(pattern)) return threes;
  auto made = make_dfa_matcher(pattern, dialect);
  if (made || made.error().code != Code::unsupported) return made;
  return make_pcre_matcher(pattern, dialect);
}

std::unique_ptr<RegexMatcher> make_literal_matcher(std::string text) {
  return std::make_unique<LiteralMatcher>(std::move(text));
}

}  // namespace quire
