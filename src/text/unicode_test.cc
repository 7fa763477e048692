#include "text/unicode.h"

#include <gtest/gtest.h>

#include "text/regex/char_set.h"
#include "text/unicode_form.h"
#include "text/utf8.h"

namespace quire {
namespace {

size_t count(uint8_t bits) {
  size_t n = 0;
  for (char32_t cp = 0; cp <= CharSet::kLast; ++cp) n += (unicode_class(cp) & bits) != 0 ? 1 : 0;
  return n;
}

// The numbers that tokenizers 0.23.3 and tiktoken 0.14.0 both give (Unicode 16).
TEST(Unicode, ClassesHaveTheReferencesSizes) {
  using namespace unicode_bits;
  EXPECT_EQ(count(kLetter), 141028u);
  EXPECT_EQ(count(kNumber), 1911u);
  EXPECT_EQ(count(kMark), 2501u);
  EXPECT_EQ(count(kPunct), 855u);
  EXPECT_EQ(count(kSymbol), 8514u);
  EXPECT_EQ(count(kSpace), 25u);
  EXPECT_EQ(count(kWord), 144667u);
}

TEST(Unicode, SetsAgreeWithTheTable) {
  const CharSet upper = CharSet::of_categories(Category::lu, Category::lu), space = CharSet::space();
  for (char32_t cp = 0; cp <= CharSet::kLast; ++cp) {
    ASSERT_EQ(upper.contains(cp), category(cp) == Category::lu) << static_cast<uint32_t>(cp);
    ASSERT_EQ(space.contains(cp), is_space(cp)) << static_cast<uint32_t>(cp);
  }
  EXPECT_TRUE(CharSet::han().contains(0x4E00));
  EXPECT_EQ(category(U'\u01C5'), Category::lt);
  EXPECT_EQ(category(0x110000), Category::cn);
}

TEST(CharSet, Algebra) {
  const CharSet a{{'a', 'f'}, {'x', 'z'}}, b{{'d', 'y'}};
  EXPECT_EQ(a.intersected(b).ranges(), (std::vector<CharSet::Range>{{'d', 'f'}, {'x', 'y'}}));
  EXPECT_EQ(a.negated().negated().ranges(), a.ranges());
  EXPECT_EQ(CharSet().negated().ranges(), (std::vector<CharSet::Range>{{0, CharSet::kLast}}));
  EXPECT_FALSE(a.intersects(CharSet{{'g', 'w'}}));
  CharSet grown{{5, 6}};
  grown.add(1, 2);
  grown.add(3, 4);
  EXPECT_EQ(grown.ranges(), (std::vector<CharSet::Range>{{1, 6}}));
}

std::string form(UnicodeForm f, std::string_view text) {
  std::string out;
  append_unicode_form(f, text, out);
  return out;
}

TEST(UnicodeForm, KnownCases) {
  EXPECT_EQ(form(UnicodeForm::nfc, "e\u0301 \u212B \u1100\u1161\u11A8"), "\u00E9 \u00C5 \uAC01");
  EXPECT_EQ(form(UnicodeForm::nfd, "\u00E9\uAC01"), "e\u0301\u1100\u1161\u11A8");
  EXPECT_EQ(form(UnicodeForm::nfkc, "\uFB01 \u00BD \u2460"), "fi 1\u20442 1");
  EXPECT_EQ(form(UnicodeForm::nfc, "q\u0307\u0323"), "q\u0323\u0307");      // marks in order
  EXPECT_EQ(form(UnicodeForm::nfc, "\u0915\u093C"), "\u0915\u093C");        // a composition exclusion
  EXPECT_EQ(form(UnicodeForm::nfc, "a\xFF\u0301\xCC"), "a\xFF\u0301\xCC");  // malformed bytes stay
  EXPECT_EQ(form(UnicodeForm::nfc, ""), "");
}

TEST(UnicodeForm, ATowerOfMarksIsLinear) {
  std::string tower = "a";
  for (int i = 0; i < 200'000; ++i) tower += i % 2 == 0 ? "\u0315" : "\u0327";
  EXPECT_EQ(form(UnicodeForm::nfd, tower).size(), tower.size());
}

}  // namespace
}  // namespace quire
