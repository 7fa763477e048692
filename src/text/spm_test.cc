// SentencePiece BPE on hand-made vocabularies, and what a bad spec is refused with.
#include <gtest/gtest.h>

#include <cmath>

#include "text/test_support.h"

namespace quire {
namespace {

// "▁", letters, a few words; no byte tokens.
TokenizerSpec small_spec() {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581ab", "abab", "<tool>"};
  spec.scores = {0, 0, 0, -9, -8, -7, -1, -3, -2, 0};
  spec.types.assign(spec.tokens.size(), TokenType::normal);
  spec.types[0] = TokenType::unknown;
  spec.types[1] = spec.types[2] = TokenType::control;
  spec.types[9] = TokenType::user_defined;
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  spec.add_bos = true;
  return spec;
}

std::unique_ptr<Tokenizer> make(TokenizerSpec spec) {
  auto made = make_tokenizer(std::move(spec));
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return std::move(*made);
}

using Ids = std::vector<Token>;

TEST(SpmBpe, MergesTheBestScoreFirst) {
  const auto t = make(small_spec());
  // "▁abab": ab (-1) twice, then abab (-2) wins over ▁ab (-3).
  EXPECT_EQ(encode(*t, "abab"), (Ids{3, 8}));
  EXPECT_EQ(encode(*t, "ab"), (Ids{7}));
}

TEST(SpmBpe, AddsTheFrameOnlyOnRequest) {
  const auto t = make(small_spec());
  EXPECT_EQ(encode(*t, "ab", {.add_special = true}), (Ids{1, 7}));
  EXPECT_EQ(encode(*t, "", {.add_special = true}), (Ids{1}));
  EXPECT_EQ(encode(*t, ""), (Ids{}));
}

TEST(SpmBpe, ControlTextIsPlainTextUnlessAsked) {
  const auto t = make(small_spec());
  EXPECT_EQ(encode(*t, "ab<s>ab", {.parse_special = true}), (Ids{7, 1, 7}));
  EXPECT_EQ(encode(*t, "a<s>"), (Ids{3, 4, 0}));  // a run of unknown characters is one <unk>
}

TEST(SpmBpe, UserDefinedTokensAreAlwaysFound) {
  const auto t = make(small_spec());
  EXPECT_EQ(encode(*t, "ab<tool>ab"), (Ids{7, 9, 7}));
}

TEST(SpmBpe, DecodeDropsTheAddedSpace) {
  const auto t = make(small_spec());
  EXPECT_EQ(t->decode(Ids{1, 7, 7, 2}, false), "ab ab");
  EXPECT_EQ(t->decode(Ids{1, 7, 2}, true), "<s> ab</s>");
}

TEST(SpmBpe, ACharacterThatIsNoTokenStillTakesPartInMerges) {
  TokenizerSpec spec = small_spec();
  spec.tokens[5] = std::string("x");  // "b" is gone, "ab" stays
  const auto t = make(std::move(spec));
  EXPECT_EQ(encode(*t, "ab"), (Ids{7}));
  EXPECT_EQ(encode(*t, "ba"), (Ids{3, 0, 4}));
}

void expect_corrupt(TokenizerSpec spec, const std::string& part) {
  const auto made = make_tokenizer(std::move(spec));
  ASSERT_FALSE(made) << part;
  EXPECT_EQ(made.error().code, Code::corrupt) << made.error().message;
  EXPECT_NE(made.error().message.find(part), std::string::npos) << made.error().message;
}

TEST(SpecCheck, RefusesWhatIsBroken) {
  const auto broken = [](auto change) {
    TokenizerSpec spec = small_spec();
    change(spec);
    return spec;
  };
  expect_corrupt(broken([](auto& s) { s.scores.pop_back(); }), "scores has 9 entries for 10 tokens");
  expect_corrupt(broken([](auto& s) { s.types.push_back(TokenType::normal); }), "token_type has 11");
  expect_corrupt(broken([](auto& s) { s.scores[4] = std::nanf(""); }), "score of token 4 is NaN");
  expect_corrupt(broken([](auto& s) { s.eos = 10; }), "eos id 10 is outside the vocabulary of 10");
  expect_corrupt(broken([](auto& s) { s.bos = -2; }), "bos id -2");
  expect_corrupt(broken([](auto& s) { s.types[3] = static_cast<TokenType>(77); }), "type of token 3 is 77");
  expect_corrupt(broken([](auto& s) { s.types[4] = TokenType::byte; }), "token 4 has type byte");
  expect_corrupt(broken([](auto& s) { s.unk = -1; }), "neither byte tokens nor an unknown token");
  expect_corrupt(broken([](auto& s) { s.scores.clear(); }), "no scores");
  expect_corrupt(broken([](auto& s) { s.tokens[4] = std::string("<0x41>"), s.types[4] = TokenType::byte; }),
                 "1 of 256 byte tokens");
  expect_corrupt(TokenizerSpec{}, "tokens is empty");
}

TEST(SpecCheck, UnknownModelIsUnsupported) {
  TokenizerSpec spec = small_spec();
  spec.model = "plamo2";
  const auto made = make_tokenizer(std::move(spec));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::unsupported);
}

TEST(SpecCheck, DuplicateAndEmptyTokensHaveDefinedBehaviour) {
  TokenizerSpec spec = small_spec();
  spec.tokens[7] = std::string("ab");  // the same text as 6
  spec.tokens[8].clear();
  const auto t = make(std::move(spec));
  EXPECT_EQ(encode(*t, "abab"), (Ids{3, 6, 6}));
  EXPECT_EQ(t->decode(Ids{7, 8}, false), "ab");
}

}  // namespace
}  // namespace quire
