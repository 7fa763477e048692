#include "text/grammar/pattern.h"

#include <gtest/gtest.h>

#include <random>

#include "text/regex/matcher.h"

namespace quire::grammar {
namespace {

constexpr size_t kBytes = size_t{64} << 20;

const char* const kPatterns[] = {"abc",         "^abc$",
                                 "^a",          "b$",
                                 "a|b|",        "(a|b)*abb",
                                 "^(a|b)*abb$", "[^a]b",
                                 "a{2}",        "a{2,}",
                                 "^a{1,3}$",    "(ab?){2,3}",
                                 "^$",          "",
                                 "(^a|b)c",     "a(b$|c)",
                                 "(?=.*b)a",    "^(?=.*b)a",
                                 "^(?!.*b)a",   "(?!a)b",
                                 "^(?:a(?!b))", "^(?=.*a)(?=.*b).{2,4}$",
                                 "[a-c1-3]+",   "^\\d+$",
                                 "\\w\\W",      "^\\s*a",
                                 "^[^\\d]+$",   "a(?=b|c)",
                                 "(?:^|b)a",    "^(a?){3}$",
                                 "\\.",         "^[a.]+$",
                                 "x*",          "^(?:(?:a|b){2})+$",
                                 "^(?!a$)",     "(a|ab)(c|bcd)",
                                 "^.$",         "^[\\w.-]+@b$",
                                 "a{0}b",       "^(a|(b|(c|1)))*$"};

std::string random_text(std::mt19937& random) {
  static const std::string kAlphabet = "aabbcc1 .@\n-d";
  std::string out;
  for (size_t n = random() % 8; n > 0; --n) out += kAlphabet[random() % kAlphabet.size()];
  return out;
}

TEST(GrammarPattern, FindsWhatPcreFinds) {
  std::mt19937 random(3);
  for (const char* pattern : kPatterns) {
    RxStore rx(kBytes);
    CharCoder chars(rx, Spelling::utf8);
    const auto ours = compile_pattern(pattern, PatternMeans::found_anywhere, chars);
    ASSERT_TRUE(ours.has_value()) << pattern << ": " << ours.error().message;
    // From the start over anything, so that a match of nothing behind the last byte counts, too.
    const auto theirs = make_pcre_matcher("^[\\x00-\\x7F]*?(?:" + std::string(pattern) + ")", {});
    ASSERT_TRUE(theirs.has_value()) << pattern;
    for (int i = 0; i < 400; ++i) {
      const std::string text = random_text(random);
      if (text.empty()) continue;  // the other matcher does not look at an empty text
      std::vector<ByteRange> found;
      ASSERT_TRUE((*theirs)->find_all(text, found));
      EXPECT_EQ(rx.matches(*ours, text), !found.empty()) << pattern << " in \"" << text << '"';
    }
  }
}

TEST(GrammarPattern, WholeTextsMatchAsAnchoredOnesDoInPcre) {
  std::mt19937 random(4);
  for (const char* pattern : {"(a|b)*abb", "a{2,3}b?", "[^a]+", "(ab?){2,3}", "a(?=b)b", "(?!aa)[ab]+", "\\d+|c*"}) {
    RxStore rx(kBytes);
    CharCoder chars(rx, Spelling::utf8);
    const auto ours = compile_pattern(pattern, PatternMeans::whole_text, chars);
    ASSERT_TRUE(ours.has_value()) << pattern;
    const auto theirs = make_pcre_matcher("^(?:" + std::string(pattern) + ")$", {});
    ASSERT_TRUE(theirs.has_value()) << pattern;
    for (int i = 0; i < 400; ++i) {
      const std::string text = random_text(random);
      if (text.empty()) continue;
      std::vector<ByteRange> found;
      ASSERT_TRUE((*theirs)->find_all(text, found));
      EXPECT_EQ(rx.matches(*ours, text), !found.empty()) << pattern << " is \"" << text << '"';
    }
  }
}

TEST(GrammarPattern, SpellingsOfJsonStringsMeanTheirTexts) {
  RxStore rx(kBytes);
  CharCoder chars(rx, Spelling::json);
  const auto rx_of = [&](std::string_view p) { return *compile_pattern(p, PatternMeans::found_anywhere, chars); };
  EXPECT_TRUE(rx.matches(rx_of("^\\n$"), "\\n"));
  EXPECT_TRUE(rx.matches(rx_of("^\\n$"), "\\u000a"));
  EXPECT_TRUE(rx.matches(rx_of("^\\n$"), "\\u000A"));
  EXPECT_FALSE(rx.matches(rx_of("^\\n$"), "\n"));
  EXPECT_TRUE(rx.matches(rx_of("^\"\\\\$"), "\\\"\\\\"));
  EXPECT_TRUE(rx.matches(rx_of("^\u00e9$"), "\u00e9"));
  EXPECT_TRUE(rx.matches(rx_of("^\u00e9$"), "\\u00e9"));
  EXPECT_TRUE(rx.matches(rx_of("^\\uD83D\\uDE00$"), "\U0001F600"));
  EXPECT_TRUE(rx.matches(rx_of("^.$"), "\\ud83d\\ude00"));
  EXPECT_FALSE(rx.matches(rx_of("^..$"), "\\ud83d\\ude00"));
  EXPECT_FALSE(rx.matches(rx_of(""), "\\ud83d"));       // half a character
  EXPECT_FALSE(rx.matches(rx_of("^a$"), "\\u0061"));    // spelled as itself only
  EXPECT_FALSE(rx.matches(rx_of(""), "\xC3"));          // half a sequence
  EXPECT_FALSE(rx.matches(rx_of(""), "\xED\xA0\x80"));  // a surrogate
}

TEST(GrammarPattern, RefusesWhatItLacksAndNamesTheOffset) {
  RxStore rx(kBytes);
  CharCoder chars(rx, Spelling::utf8);
  for (const char* p : {"\\bx", "(a)\\1", "(?<=a)b", "(?<!a)b", "(?:^a)*", "(a$)+", "a*^b", "a*+"}) {
    const auto made = compile_pattern(p, PatternMeans::found_anywhere, chars);
    ASSERT_FALSE(made.has_value()) << p;
    EXPECT_EQ(made.error().code, Code::unsupported) << p << made.error().message;
  }
  for (const char* p : {"(", ")", "[a", "*a", "a{3,1}", "\\"}) {
    const auto made = compile_pattern(p, PatternMeans::found_anywhere, chars);
    ASSERT_FALSE(made.has_value()) << p;
    EXPECT_EQ(made.error().code, Code::invalid) << p << made.error().message;
  }
}

TEST(GrammarRx, CombinesAsSetsDo) {
  RxStore rx(kBytes);
  const Rx a_star = rx.star(rx.byte('a')), b = rx.byte('b');
  const Rx even = rx.star(rx.literal("aa"));
  const Rx odd = rx.both({a_star, rx.negate(even)});
  for (size_t n = 0; n < 9; ++n) EXPECT_EQ(rx.matches(odd, std::string(n, 'a')), n % 2 == 1) << n;
  EXPECT_FALSE(rx.alive(rx.both({a_star, rx.cat(a_star, b)})));
  EXPECT_TRUE(rx.alive(rx.both({even, rx.repeat(rx.byte('a'), 5, 7)})));
  EXPECT_FALSE(rx.alive(rx.both({even, rx.repeat(rx.byte('a'), 5, 5)})));
  EXPECT_EQ(rx.negate(rx.negate(even)), even);
  EXPECT_EQ(rx.both({even, rx.negate(even), a_star}), RxStore::kNever);
  EXPECT_EQ(rx.both({rx.repeat(rx.byte('a'), 2, 9), rx.negate(a_star)}), RxStore::kNever);
  EXPECT_EQ(rx.negate(RxStore::kNever), RxStore::kAny);
  EXPECT_TRUE(rx.matches(rx.negate(RxStore::kEmpty), "x"));
  const Rx third = rx.multiple_of(3, 1);  // of 0.3
  EXPECT_TRUE(rx.matches(third, "1.2"));
  EXPECT_TRUE(rx.matches(third, "-3"));
  EXPECT_TRUE(rx.matches(third, "0.900"));
  EXPECT_FALSE(rx.matches(third, "1"));
  EXPECT_FALSE(rx.matches(third, "0.35"));
}

TEST(GrammarRx, CountsStaySmall) {
  RxStore rx(kBytes);
  const Rx many = rx.repeat(rx.byte('a'), 1'000'000'000, 2'000'000'000);
  const size_t before = rx.size();
  EXPECT_FALSE(rx.matches(many, std::string(100, 'a')));
  EXPECT_LT(rx.size(), before + 300);
  const Rx nested = rx.repeat(rx.repeat(rx.byte('a'), 0, 500), 0, 500);
  EXPECT_TRUE(rx.matches(nested, std::string(300, 'a')));
  EXPECT_FALSE(rx.exhausted());
}

TEST(GrammarRx, SaysWhenItHasNoMoreRoom) {
  RxStore rx(20'000);
  Rx all = RxStore::kNever;
  for (int i = 0; i < 200; ++i) all = rx.alt({all, rx.literal("word number " + std::to_string(i * 7919))});
  EXPECT_TRUE(rx.exhausted());
}

}  // namespace
}  // namespace quire::grammar
