#include "text/charsmap.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

// A double array with the one key "A" → "bc": root 0 with offset 1, so 'A' lies at 1 ^ 'A'; its leaf is at offset 1.
std::string one_key_blob() {
  std::vector<uint32_t> units(256, 0);
  units[0] = 1u << 10;
  const uint32_t node = 1 ^ 'A';
  units[node] = uint32_t{'A'} | 1u << 8 | 1u << 10;  // label, has leaf, offset 1
  units[node ^ 1] = uint32_t{1} << 31 | 0;           // the leaf: value 0
  std::string blob;
  const auto n = static_cast<uint32_t>(units.size() * 4);
  blob.append(reinterpret_cast<const char*>(&n), 4);
  blob.append(reinterpret_cast<const char*>(units.data()), n);
  return blob.append("bc").append(1, '\0');
}

std::string normalized(const Normalizer& rule, std::string_view text) {
  std::string out;
  EXPECT_TRUE(rule.apply(text, std::string::npos, out));
  return out;
}

TEST(CharsMap, FindsKeys) {
  const auto map = CharsMap::parse(one_key_blob());
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(map->longest("AB").replacement, "bc");
  EXPECT_EQ(map->longest("AB").len, 1u);
  EXPECT_EQ(map->longest("B").len, 0u);
  EXPECT_EQ(map->longest("").len, 0u);
}

TEST(CharsMap, BrokenBlobsAreRefused) {
  const std::string whole = one_key_blob();
  for (const std::string& blob : {std::string("a"), std::string("abc"), std::string(4, '\0'), std::string(8, '\0'),
                                  whole.substr(0, whole.size() - 1), whole.substr(0, 200), std::string(64, '\xFF')}) {
    const auto map = CharsMap::parse(blob);
    ASSERT_FALSE(map) << blob.size();
    EXPECT_EQ(map.error().code, Code::corrupt);
  }
  EXPECT_TRUE(CharsMap::parse("")->empty());
}

TEST(CharsMap, HostileUnitsNeverReadOutside) {  // run under the sanitizers
  std::mt19937 random(1);
  std::string blob = one_key_blob();
  for (int round = 0; round < 2000; ++round) {
    std::string bad = blob;
    for (int i = 0; i < 200; ++i) bad[4 + random() % (bad.size() - 5)] = static_cast<char>(random());
    const auto map = CharsMap::parse(bad);
    ASSERT_TRUE(map);
    std::string text(16, 'A');
    for (char& c : text) c = static_cast<char>(random());
    EXPECT_LE(map->longest(text).len, text.size());
  }
}

TEST(SentencePieceNormalizer, WhiteSpaceRules) {
  const auto rule = make_sentencepiece({.map = *CharsMap::parse(one_key_blob())});
  EXPECT_EQ(normalized(*rule, "  A  x "), "\u2581bc\u2581x");
  EXPECT_EQ(normalized(*rule, "   "), "");
  EXPECT_EQ(normalized(*rule, ""), "");
  const auto plain = make_sentencepiece({.map = {}, .remove_extra_whitespaces = false});
  EXPECT_EQ(normalized(*plain, " a  b "), "\u2581\u2581a\u2581\u2581b\u2581");
  const auto suffix = make_sentencepiece({.map = {}, .prefix_is_suffix = true});
  EXPECT_EQ(normalized(*suffix, "a b"), "a\u2581b\u2581");
}

TEST(SentencePieceNormalizer, UserDefinedTextIsLeftAlone) {
  SentencePieceRules rules{.map = *CharsMap::parse(one_key_blob())};
  rules.user_defined = ByteTrie({{"AA", 0}});
  EXPECT_EQ(normalized(*make_sentencepiece(std::move(rules)), "AAA"), "\u2581AAbc");
}

}  // namespace
}  // namespace quire
