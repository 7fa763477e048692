// The linear-time engine against PCRE2, and the dialect's borders.
#include <gtest/gtest.h>

#include <random>

#include "text/regex/dfa.h"
#include "text/regex/matcher.h"
#include "text/utf8.h"

namespace quire {
namespace {

// The patterns of real tokenizers that both engines read the same way.
const char* const kPatterns[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"(\p{N}{1,3})",
    R"([一-龥぀-ゟ゠-ヿ]+)",
    R"( ?[^(\s|.,!?…。，、।۔،)]+)",
    R"([^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)",
    R"(\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}|\S+)",
    R"(a|ab|(?:abc)+?d|(a*?)b{2,3}c)",
    R"((?:a|b)*?c(?=d)|[^ab]+$)",
    R"(x*(?!y)|y+)",
};

std::string random_text(std::mt19937& random) {
  // Letters with and without case, marks, digits, punctuation, spaces of all kinds, newlines, long s, emoji.
  static const std::u32string kAlphabet =
      U"abcdexyzABCDsStTrReEvVmMlLdD''''012345.,/!?-_$   \t\n\n\r\r\u00A0\u0085\u2028\u3000éßſǅʰ\u0301\u0300一龥あアก"
      U"٣Ⅷ½€😀\U00010400\u0903";
  std::string out;
  const auto n = random() % 40;
  char32_t last = 'a';
  for (unsigned i = 0; i < n; ++i) {
    if (random() % 3 != 0) last = kAlphabet[random() % kAlphabet.size()];  // runs are where the patterns differ
    append_utf8(out, last);
  }
  return out;
}

std::string show(const std::vector<ByteRange>& ranges) {
  std::string out;
  for (const ByteRange& r : ranges)
    out.append(std::to_string(r.begin)).append("-").append(std::to_string(r.end)).append(" ");
  return out;
}

class EveryPattern : public testing::TestWithParam<const char*> {};

TEST_P(EveryPattern, MatchesAsPcre2OnRandomText) {
  const auto tree = parse_regex(GetParam(), {});
  ASSERT_TRUE(tree) << tree.error().message;
  const auto dfa = Dfa::compile(*tree);
  ASSERT_TRUE(dfa) << dfa.error().message;
  const auto pcre = make_pcre_matcher(GetParam(), {});
  ASSERT_TRUE(pcre) << pcre.error().message;
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random_text(random);
    std::vector<ByteRange> got, want, in_two_passes;
    ASSERT_TRUE(dfa->find_all(text, got));
    (*pcre)->find_all(text, want);
    ASSERT_EQ(show(got), show(want)) << text;
    ASSERT_TRUE(dfa->find_all_in_two_passes(text, in_two_passes));
    ASSERT_EQ(show(in_two_passes), show(want)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Real, EveryPattern, testing::ValuesIn(kPatterns));

std::string matches(std::string_view pattern, std::string_view text, RegexDialect dialect = {}) {
  const auto matcher = make_matcher(pattern, dialect);
  if (!matcher) return matcher.error().message;
  std::vector<ByteRange> ranges;
  (*matcher)->find_all(text, ranges);
  std::string out;
  for (const ByteRange& r : ranges) out.append("<").append(text, r.begin, r.end - r.begin).append(">");
  return out;
}

TEST(Regex, ClassesIntersectAndNest) {
  EXPECT_EQ(matches(R"([\p{L}&&[^\p{Han}]]+)", "ab漢字cd"), "<ab><cd>");
  EXPECT_EQ(matches(R"([a[x-z]]+)", "axbzya"), "<ax><zya>");
}

TEST(Regex, DollarDependsOnTheDialect) {
  EXPECT_EQ(matches(R"(\s+$)", "a  \n  b  "), "<  >");
  EXPECT_EQ(matches(R"(\s+$)", "a  \n  b  ", {.dollar_before_newline = true}), "<  ><  >");
}

TEST(Regex, CaselessFollowsUnicodeFolding) {
  EXPECT_EQ(matches(R"((?i:'s|'K))", "'ſ 'S 'k '\u212A"), "<'ſ><'S><'k><'\u212A>");
}

TEST(Regex, LookaheadOfMoreThanAClassRunsOnPcre2) {
  EXPECT_EQ(parse_regex(R"(a(?=bc))", {}).error().code, Code::unsupported);
  EXPECT_EQ(matches(R"(a(?=bc))", "abcabac"), "<a>");
}

// The patterns that the table of threes stands in for, against PCRE2 running them as they are written.
class Threes : public testing::TestWithParam<const char*> {};

TEST_P(Threes, EqualTheirPattern) {
  const auto ours = make_matcher(GetParam(), {});
  const auto pcre = make_pcre_matcher(GetParam(), {});
  ASSERT_TRUE(ours && pcre);
  std::mt19937 random(5);
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    const auto n = random() % 20;
    for (unsigned k = 0; k < n; ++k)
      append_utf8(text, U"0123456789012345678901234567890123456789٣Ⅷx_ -é."[random() % 48]);
    std::vector<ByteRange> got, want;
    (*ours)->find_all(text, got);
    (*pcre)->find_all(text, want);
    ASSERT_EQ(show(got), show(want)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Known,
                         Threes,
                         testing::Values(R"(\d{1,3}(?=(?:\d{3})*\b))",
                                         R"((?=(\d{3})+(?!\d)))",
                                         R"(\p{Nd}{1,3}(?=(?:\p{Nd}{3})*(?!\p{Nd})))"));

TEST(Regex, MalformedPatternsAreInvalid) {
  for (const char* pattern : {"(", ")", "[a", "a{2,1}", "*a", "a\\", "\\p{L", "\\x{110000}", "[z-a]", "\xFF", "(?:a"}) {
    const auto made = make_matcher(pattern, {});
    ASSERT_FALSE(made) << pattern;
    EXPECT_EQ(made.error().code, Code::invalid) << pattern << ": " << made.error().message;
  }
}

TEST(Regex, SizeIsLimited) {
  EXPECT_EQ(make_matcher(std::string(kMaxRegexSize + 1, 'a'), {}).error().code, Code::invalid);
  EXPECT_EQ(parse_regex(std::string(100, '('), {}).error().code, Code::unsupported);
  EXPECT_EQ(parse_regex("a{2000}", {}).error().code, Code::unsupported);
  EXPECT_EQ(Dfa::compile(*parse_regex("(?:(?:(?:a{64}){64}){64}){64}", {})).error().code, Code::unsupported);
}

TEST(Regex, MalformedTextNeverMatchesALetter) {
  EXPECT_EQ(matches(R"(\p{L}+)", "a\xFFz\xE4\xBDq"), "<a><z><q>");
  EXPECT_EQ(matches(R"([^a])", "a\xFF\xE4\xBDq"), "<\xFF><\xE4><\xBD><q>");
}

TEST(Regex, CatastrophicPatternEndsOnPcre2) {
  // Backreferences are PCRE2's alone; the limit ends the search and the rest of the text stays whole.
  const auto matcher = make_matcher(R"((a+)+\1b)", {});
  ASSERT_TRUE(matcher) << matcher.error().message;
  std::vector<ByteRange> found;
  EXPECT_FALSE((*matcher)->find_all("aab " + std::string(2000, 'a') + " b", found));
  EXPECT_EQ(found, (std::vector<ByteRange>{{0, 3}}));
  EXPECT_EQ(matches(R"((a+)+\1b)", std::string(2000, 'a')), "");  // without a b there is nothing to search
}

TEST(Regex, VerticalTabIsOneCharacterOnBothEngines) {
  EXPECT_EQ(matches(R"([a\v]+)", "a\v\na"), "<a\v><a>");
  EXPECT_EQ(matches(R"((a)\1[a\v]\v)", "aa\v\v aa\n\v"), "<aa\v\v>");  // a backreference: PCRE2
}

TEST(Regex, LongMatchOnPcre2OutgrowsTheJitStack) {
  const std::string text(200'000, 'a');
  const auto matcher = make_matcher(R"((?:(a|b)\1)+)", {});
  ASSERT_TRUE(matcher) << matcher.error().message;
  std::vector<ByteRange> found;
  EXPECT_TRUE((*matcher)->find_all(text, found));
  EXPECT_EQ(found, (std::vector<ByteRange>{{0, text.size()}}));
}

// Patterns whose matches fail, or end, far before what they had to read.
TEST(HostilePatterns, TakeLinearTime) {
  constexpr size_t kLetters = 300'000;
  const std::string letters(kLetters, 'a');
  struct Case {
    const char* pattern;
    size_t n_matches;
  };
  for (const Case& c : {Case{"a*b", 0},
                        {"a(?:a*b)?", kLetters},
                        {"(?:a|aa)*b|a", kLetters},
                        {"a+?a+?a*?b", 0},
                        {"(?:a{1,40}){1,3}b", 0}}) {
    const auto tree = parse_regex(c.pattern, {});
    const auto dfa = Dfa::compile(*tree);
    ASSERT_TRUE(dfa) << c.pattern;
    std::vector<ByteRange> got;
    ASSERT_TRUE(dfa->find_all(letters, got));  // by one attempt for each place: minutes
    EXPECT_EQ(got.size(), c.n_matches) << c.pattern;
  }
}

TEST(HostilePatterns, MatchBothWaysAlike) {
  // The text is long enough that the table gives up in its middle.
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::string(static_cast<size_t>(i), 'a') + (i % 7 == 0 ? "b" : "c");
  for (const char* const pattern : {"a*b", "a(?:a*b)?", "(?:a|aa)*?b|a"}) {
    const auto tree = parse_regex(pattern, {});
    const auto dfa = Dfa::compile(*tree);
    ASSERT_TRUE(dfa);
    std::vector<ByteRange> got, in_two_passes;
    ASSERT_TRUE(dfa->find_all(text, got));
    ASSERT_TRUE(dfa->find_all_in_two_passes(text, in_two_passes));
    EXPECT_EQ(show(got), show(in_two_passes)) << pattern;
    EXPECT_GT(got.size(), 10u);
  }
}

TEST(HostilePatterns, OfPcre2sEndBySteps) {
  const std::string letters(300'000, 'a');
  for (const char* const pattern : {"(?<!x)a*[bc]", R"((a*)*[bc]\1)", "(?<!x)a*a*a*[bc]", "(?=(?:aa)*[bc])a"}) {
    const auto matcher = make_matcher(pattern, {});
    ASSERT_TRUE(matcher) << pattern;
    std::vector<ByteRange> got;
    EXPECT_FALSE((*matcher)->find_all(letters, got)) << pattern;  // by time: half a minute and more
  }
}

}  // namespace
}  // namespace quire
