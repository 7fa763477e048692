#include "text/detok.h"

#include <gtest/gtest.h>

#include <random>

#include "text/utf8.h"

namespace quire {
namespace {

std::string in_pieces(std::string_view bytes, size_t piece) {
  Utf8Stream stream;
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += piece) {
    stream.push(bytes.substr(i, piece), out);
    EXPECT_LE(stream.n_held(), 3);
  }
  stream.flush(out);
  return out;
}

TEST(Utf8Stream, GivesWholeCodePointsAtEveryCut) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  for (size_t piece = 1; piece <= text.size(); ++piece) EXPECT_EQ(in_pieces(text, piece), text);
}

TEST(Utf8Stream, HoldsBackUntilTheLastByte) {
  Utf8Stream stream;
  std::string out;
  stream.push("\xF0\x9F\x98", out);
  EXPECT_EQ(out, "");
  EXPECT_EQ(stream.n_held(), 3);
  stream.push("\x80", out);
  EXPECT_EQ(out, "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.n_held(), 0);
}

// The left side is what Python's bytes.decode("utf-8", "replace") and Rust's from_utf8_lossy print.
TEST(Utf8Stream, ReplacesEachMaximalIllFormedRunOnce) {
  const std::pair<const char*, std::string_view> cases[] = {
      {"\uFFFD", "\xE4\xBD"},  // cut off at the end
      {"\uFFFDa",
       "\xF0\x9F\x98"
       "a"},                                             // cut off by another byte
      {"\uFFFD\uFFFD", "\xC0\x80"},                      // overlong
      {"\uFFFD\uFFFD\uFFFD", "\xED\xA0\x80"},            // a surrogate
      {"\uFFFD\uFFFD\uFFFD\uFFFD", "\xF5\x80\x80\x80"},  // above U+10FFFF
      {"\uFFFDé", "\xE4\xC3\xA9"},
      {"\uFFFD\uFFFD", "\x80\xFF"},
  };
  for (const auto& [want, bytes] : cases) {
    EXPECT_EQ(in_pieces(bytes, 1), want);
    EXPECT_EQ(to_valid_utf8(bytes), want);
  }
}

TEST(Utf8Stream, OutputIsValidAndIndependentOfTheCutForRandomBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 24, '\0');
    for (char& b : bytes) b = static_cast<char>(random() % 3 == 0 ? random() : 0x80 + random() % 0x80);
    const std::string whole = in_pieces(bytes, bytes.size() + 1);
    EXPECT_EQ(in_pieces(bytes, 1), whole);
    EXPECT_EQ(in_pieces(bytes, 3), whole);
    for (size_t i = 0; i < whole.size();) {
      const CodePoint c = utf8_at(whole, i);
      ASSERT_TRUE(c.valid);
      i += static_cast<size_t>(c.len);
    }
  }
}

// A vocabulary of 256 byte tokens and one word, without any model.
TokenizerSpec byte_vocabulary() {
  TokenizerSpec spec;
  spec.model = "llama";
  for (int b = 0; b < 256; ++b) {
    const char* hex = "0123456789ABCDEF";
    spec.tokens.push_back(std::string("<0x") + hex[b / 16] + hex[b % 16] + ">");
  }
  spec.types.assign(256, TokenType::byte);
  spec.tokens.insert(spec.tokens.end(), {"\u2581hi", "<end>"});
  spec.types.insert(spec.types.end(), {TokenType::normal, TokenType::control});
  spec.scores.assign(spec.tokens.size(), 0.0f);
  return spec;
}

TEST(Detok, DropsTheAddedSpaceAtTheStartOnly) {
  const auto tokenizer = make_tokenizer(byte_vocabulary());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::string out;
  Detok start(**tokenizer, false, true);
  for (const Token id : {256, 256}) start.push(id, out);
  EXPECT_EQ(out, "hi hi");
  out.clear();
  Detok later(**tokenizer, false, false);
  later.push(256, out);
  EXPECT_EQ(out, " hi");
}

TEST(Detok, ControlTokensShowOnlyOnRequest) {
  const auto tokenizer = make_tokenizer(byte_vocabulary());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  for (const bool special : {false, true}) {
    std::string out;
    Detok detok(**tokenizer, special, true);
    for (const Token id : {256, 257}) detok.push(id, out);
    EXPECT_EQ(out, special ? "hi<end>" : "hi");
  }
}

TEST(Detok, IdsPastTheVocabularyHaveNoText) {
  const auto tokenizer = make_tokenizer(byte_vocabulary());
  ASSERT_TRUE(tokenizer);
  const Token past = (*tokenizer)->n_vocab();
  EXPECT_EQ((*tokenizer)->decode(std::vector<Token>{past, 1 << 30, past + 1}, true), "");
}

TEST(Detok, AHundredByteTokensThatNeverBecomeValidHoldThreeBytesAtMost) {
  const auto tokenizer = make_tokenizer(byte_vocabulary());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  Detok detok(**tokenizer, false, true);
  std::string out, want;
  for (int i = 0; i < 100; ++i) {
    detok.push(0xF0, out);
    EXPECT_LE(detok.n_held(), 3);
    want += kReplacementUtf8;
  }
  detok.flush(out);
  EXPECT_EQ(out, want);
}

}  // namespace
}  // namespace quire
