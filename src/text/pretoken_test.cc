#include "text/pretoken.h"

#include <gtest/gtest.h>

#include "text/added_tokens.h"
#include "text/byte_trie.h"

namespace quire {
namespace {

std::string cut(const PreTokenStep& step, std::string_view text, bool at_start = true) {
  PreTokens pieces;
  pieces.text = text;
  pieces.at_start = at_start;
  if (!text.empty()) pieces.ranges.push_back({0, text.size()});
  step.apply(pieces);
  std::string out;
  for (size_t i = 0; i < pieces.ranges.size(); ++i) out.append(i > 0 ? "|" : "").append(pieces[i]);
  return out;
}

std::string split(SplitBehavior behavior, std::string_view text, bool invert = false) {
  return cut(*make_split(make_literal_matcher("-"), behavior, invert), text);
}

// The examples of the reference's own documentation, and the corners.
TEST(Split, Behaviours) {
  constexpr std::string_view kText = "the-final--countdown";
  EXPECT_EQ(split(SplitBehavior::removed, kText), "the|final|countdown");
  EXPECT_EQ(split(SplitBehavior::isolated, kText), "the|-|final|-|-|countdown");
  EXPECT_EQ(split(SplitBehavior::merged_with_previous, kText), "the-|final-|-|countdown");
  EXPECT_EQ(split(SplitBehavior::merged_with_next, kText), "the|-final|-|-countdown");
  EXPECT_EQ(split(SplitBehavior::contiguous, kText), "the|-|final|--|countdown");
  EXPECT_EQ(split(SplitBehavior::removed, kText, true), "-|-|-");
  EXPECT_EQ(split(SplitBehavior::merged_with_previous, "-a"), "-|a");
  EXPECT_EQ(split(SplitBehavior::merged_with_next, "a-"), "a|-");
  EXPECT_EQ(split(SplitBehavior::isolated, ""), "");
}

TEST(Metaspace, PrependsAndSplits) {
  const auto step = [](PrependScheme scheme, bool splits) { return make_metaspace("_", scheme, splits); };
  EXPECT_EQ(cut(*step(PrependScheme::always, true), "a b  c"), "_a|_b|_|_c");
  EXPECT_EQ(cut(*step(PrependScheme::always, true), " a"), "_a");
  EXPECT_EQ(cut(*step(PrependScheme::first, false), "a b", true), "_a_b");
  EXPECT_EQ(cut(*step(PrependScheme::first, false), "a b", false), "a_b");
  EXPECT_EQ(cut(*step(PrependScheme::never, true), "a b"), "a|_b");
}

TEST(FixedLength, CutsCodePoints) { EXPECT_EQ(cut(*make_fixed_length(2), "ab\u00e9\u4e00e"), "ab|\u00e9\u4e00|e"); }

TEST(ByteTrie, LongestMatchAndFirstValue) {
  const ByteTrie trie({{"ab", 1}, {"abcd", 2}, {"ab", 9}, {"b", 3}, {"", 4}});
  EXPECT_EQ(trie.longest("abcx").value, 1);
  EXPECT_EQ(trie.longest("abcx").len, 2u);
  EXPECT_EQ(trie.longest("abcd").value, 2);
  EXPECT_EQ(trie.longest("x").value, ByteTrie::kNone);
  EXPECT_EQ(trie.longest("").len, 0u);
  EXPECT_FALSE(trie.may_start('a' + 2));
  EXPECT_TRUE(ByteTrie().empty());
}

TEST(AddedTokens, LeftmostThenLongest) {
  const AddedTokens added(
      {{.text = "<a>", .id = 1}, {.text = "<a><b>", .id = 2}, {.text = "b>", .id = 3, .special = true}});
  const auto show = [&](std::string_view text, bool special) {
    std::vector<Fragment> fragments;
    added.split(text, special, fragments);
    std::string out;
    for (const Fragment& f : fragments)
      out.append("[").append(f.id >= 0 ? std::to_string(f.id) : std::string(f.text)).append("]");
    return out;
  };
  EXPECT_EQ(show("x<a><b>y<a>", false), "[x][2][y][1]");
  EXPECT_EQ(show("<b>", true), "[<][3]");
  EXPECT_EQ(show("<b>", false), "[<b>]");
  EXPECT_EQ(show("", true), "");
}

}  // namespace
}  // namespace quire
