#include <gtest/gtest.h>

#include <random>

#include "text/grammar/automaton.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/slow_recognizer.h"
#include "text/test_support.h"

namespace quire {
namespace {

using GrammarPtr = std::shared_ptr<const Grammar>;
using TriePtr = std::shared_ptr<const TokenTrie>;

GrammarPtr schema(std::string_view text) {
  auto made = compile_json_schema(text, {}, {});
  EXPECT_TRUE(made.has_value()) << text << ": " << (made ? "" : made.error().message);
  return made ? *made : nullptr;
}
GrammarPtr regex(std::string_view text) {
  auto made = compile_regex(text, {});
  EXPECT_TRUE(made.has_value()) << text << ": " << (made ? "" : made.error().message);
  return made ? *made : nullptr;
}

// Every byte, some pieces that cross the borders of lexemes and characters, the same bytes twice, an end token.
TriePtr small_vocabulary() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  for (const char* t : {"{\"",      "\":",
                        "\", \"",   "\"}",
                        "\"]",      "[[",
                        "]]",       "}, {",
                        "true",     "null",
                        "12",       "-0.5",
                        "1e5",      "abc",
                        "a\"",      "\\\"",
                        "\\u00",    "\xC3\xA9",
                        "\xE2\x82", "\x82\xAC",
                        "name",     "\"name\": \"",
                        "  ",       "\n  ",
                        "abc",      "2020-",
                        "01-",      "aaaa",
                        "aaaaaaaa", "\xF0\x9F\x98\x80",
                        "x, y",     "\"a\": 1, \"b\": 2}"})
    tokens.emplace_back(t);
  tokens.emplace_back("");  // a token without text
  tokens.emplace_back("</s>");
  const auto end = static_cast<Token>(tokens.size()) - 1;
  return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<Token>{end}, 320);
}

// Each character of a string that is counted is a state of its own, so that caches are full from some length on. The
// answer is not walked again for each token from there.
TEST(GrammarMatcher, LongAnswersAreNotWalkedAgainAtEachToken) {
  constexpr int kChars = 60'000;
  const auto g = regex("[a-z]{1,1000000}");
  Matcher m(g, byte_vocabulary());
  for (int i = 0; i < kChars; ++i) ASSERT_TRUE(m.accept('a')) << i;
  EXPECT_TRUE(m.may_end());
}

bool bit(const std::vector<uint32_t>& mask, size_t i) { return (mask[i / 32] >> (i % 32) & 1) != 0; }

const char* const kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":3},"a":{"type":"integer"}},"required":["name"]})",
    R"({"type":"array","items":{"type":"array","items":{"type":"number","minimum":-2,"maximum":10.5},"maxItems":3},"minItems":1})",
    R"({"anyOf":[{"type":"string","pattern":"^a+b?$"},{"const":{"a":1,"b":2}},{"enum":["abc","name",12,null]}]})",
    R"({"type":"object","additionalProperties":{"type":"boolean"},"propertyNames":{"maxLength":4},"maxProperties":2})",
    R"({"type":"object","patternProperties":{"^a":{"type":"null"},"e$":{"type":"string"}},"additionalProperties":false})",
    R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"l":{"$ref":"#/$defs/t"},"a":{"type":"integer","multipleOf":7}}}}})",
    R"({"type":"string","format":"date"})",
    R"({"type":["string","null"],"minLength":2,"maxLength":5,"not":{"pattern":"aa"}})",
    R"({"type":"array","prefixItems":[{"type":"string"},{"type":"boolean"}],"items":false,"minItems":1})",
    R"({"type":"array","items":{"enum":[1,2,3]},"uniqueItems":true,"contains":{"const":2}})",
};

std::vector<GrammarPtr> grammars() {
  std::vector<GrammarPtr> out;
  for (const char* s : kSchemas) {
    if (auto made = compile_json_schema(s, {}, {})) out.push_back(*made);
  }
  for (const char* r : {"(a|b)*abb", "[^a]{2,4}", "(\xC3\xA9|a){3}", "x, y|name"}) out.push_back(regex(r));
  out.push_back(*compile_choice(std::vector<std::string>{"abc", "abcd", "\xF0\x9F\x98\x80", "x, y"}, {}));
  return out;
}

// A walk of random allowed tokens; at each step the mask must say of every token what the recogniser says of its bytes.
void check_masks(const GrammarPtr& g, const TriePtr& trie, uint32_t seed, int n_steps, size_t stride) {
  std::mt19937 random(seed);
  Matcher matcher(g, trie);
  grammar::SlowRecognizer slow(g->program());
  std::vector<uint32_t> mask(trie->n_words());
  for (int step = 0; step < n_steps; ++step) {
    ASSERT_TRUE(matcher.mask(mask).has_value());
    ASSERT_EQ(matcher.may_end(), slow.complete());
    std::vector<Token> allowed;
    for (size_t id = static_cast<size_t>(step) % stride; id < trie->n_logits(); id += stride) {
      const auto token = static_cast<Token>(id);
      bool expected = false;
      if (trie->known(token) && trie->is_end(token)) {
        expected = slow.complete();
      } else if (trie->known(token) && !trie->bytes(token).empty()) {
        grammar::SlowRecognizer trial = slow;
        expected = true;
        for (const char c : trie->bytes(token)) expected = expected && trial.push(static_cast<uint8_t>(c));
      }
      ASSERT_EQ(bit(mask, id), expected) << "step " << step << " token " << id << " \""
                                         << (trie->known(token) ? trie->bytes(token) : "") << '"';
      if (expected && !trie->is_end(token)) allowed.push_back(token);
    }
    if (allowed.empty()) return;
    const Token next = allowed[random() % allowed.size()];
    ASSERT_TRUE(matcher.accept(next).has_value());
    for (const char c : trie->bytes(next)) slow.push(static_cast<uint8_t>(c));
  }
}

TEST(GrammarMask, SaysOfEveryTokenWhatAByteByByteRecognizerSays) {
  const TriePtr trie = small_vocabulary();
  for (const GrammarPtr& g : grammars()) {
    for (uint32_t seed = 0; seed < 4; ++seed) check_masks(g, trie, seed, 12, 1);
  }
}

TEST(GrammarMask, HoldsOnARealVocabulary) {
  const auto path = shared_dir() / "tokenizers" / "gguf-vocab" / "ggml-vocab-llama-bpe.gguf";
  QR_NEED_FILE(path);
  const auto tokenizer = load_gguf_tokenizer(path);
  const TriePtr trie = TokenTrie::of(*tokenizer, static_cast<size_t>(tokenizer->n_vocab()));
  for (const GrammarPtr& g : grammars()) check_masks(g, trie, 7, 6, 97);
}

TEST(GrammarMatcher, AfterAcceptsAndRollbacksInAnyOrderIsAsFresh) {
  const TriePtr trie = small_vocabulary();
  std::mt19937 random(11);
  for (const GrammarPtr& g : grammars()) {
    Matcher worn(g, trie);
    std::vector<Token> history;
    std::vector<uint32_t> mask(trie->n_words()), fresh_mask(trie->n_words());
    for (int step = 0; step < 60; ++step) {
      if (random() % 4 == 0 && !history.empty()) {
        const size_t n = random() % (history.size() + 1);
        worn.rollback(n);
        history.resize(history.size() - n);
      }
      Matcher fresh(g, trie);
      for (const Token t : history) ASSERT_TRUE(fresh.accept(t).has_value());
      ASSERT_TRUE(worn.mask(mask).has_value());
      ASSERT_TRUE(fresh.mask(fresh_mask).has_value());
      ASSERT_EQ(mask, fresh_mask);
      ASSERT_EQ(worn.may_end(), fresh.may_end());
      ASSERT_EQ(worn.forced_bytes(64), fresh.forced_bytes(64));
      std::vector<Token> allowed;
      for (size_t id = 0; id < trie->n_logits(); ++id) {
        if (bit(mask, id)) allowed.push_back(static_cast<Token>(id));
      }
      if (allowed.empty()) continue;
      const Token next = allowed[random() % allowed.size()];
      ASSERT_TRUE(worn.accept(next).has_value());
      history.push_back(next);
    }
  }
}

TEST(GrammarMatcher, RefusesWhatTheMaskForbidsAndStaysWhereItWas) {
  const TriePtr trie = small_vocabulary();
  Matcher m(schema(R"({"type":"boolean"})"), trie);
  EXPECT_EQ(m.accept('x').error().code, Code::invalid);
  EXPECT_EQ(m.accept(100000).error().code, Code::invalid);
  EXPECT_EQ(m.accept(trie->ends()[0]).error().code, Code::invalid);
  EXPECT_EQ(m.accepted(), 0u);
  ASSERT_TRUE(m.accept('t').has_value());
  EXPECT_EQ(m.forced_bytes(64), "rue");
  EXPECT_EQ(m.forced_bytes(2), "ru");
  for (const char c : std::string("rue")) ASSERT_TRUE(m.accept(c).has_value());
  EXPECT_TRUE(m.may_end());
  ASSERT_TRUE(m.accept(trie->ends()[0]).has_value());
  EXPECT_TRUE(m.ended());
  std::vector<uint32_t> mask(trie->n_words(), 1);
  ASSERT_TRUE(m.mask(mask).has_value());
  EXPECT_EQ(mask, std::vector<uint32_t>(trie->n_words(), 0));
  m.rollback(1);
  EXPECT_TRUE(m.may_end());
}

TEST(GrammarMatcher, TextMayBeGivenWithoutTokens) {
  const TriePtr trie = small_vocabulary();
  Matcher m(schema(kSchemas[0]), trie);
  ASSERT_TRUE(m.accept_text("{\"name\": \"a").has_value());
  EXPECT_EQ(m.accept_text("bcd").error().code, Code::invalid);
  ASSERT_TRUE(m.accept_text("bc\"}").has_value());
  EXPECT_TRUE(m.may_end());
  m.rollback(1);
  EXPECT_EQ(m.accepted(), 1u);
  EXPECT_FALSE(m.may_end());
}

TEST(GrammarMatcher, AVocabularyThatLacksWhatComesHasAnEmptyMask) {
  const auto trie = std::make_shared<const TokenTrie>(std::vector<std::string>{"a", "b"}, std::vector<Token>{}, 2);
  Matcher m(regex("ac"), trie);
  ASSERT_TRUE(m.accept(0).has_value());
  std::vector<uint32_t> mask(1, ~0u);
  ASSERT_TRUE(m.mask(mask).has_value());
  EXPECT_EQ(mask[0], 0u);
}

TEST(GrammarMatcher, LeavesWhatItLearnedToTheNextWithoutChangingIt) {
  const TriePtr trie = small_vocabulary();
  const GrammarPtr g = schema(kSchemas[1]);
  std::vector<uint32_t> first(trie->n_words()), second(trie->n_words());
  for (std::vector<uint32_t>* mask : {&first, &second}) {
    Matcher m(g, trie);
    for (const char c : std::string("[[1.5, ")) ASSERT_TRUE(m.accept(c).has_value());
    ASSERT_TRUE(m.mask(*mask).has_value());
  }
  EXPECT_EQ(first, second);
  EXPECT_GT(g->bytes(), 0u);
}

}  // namespace
}  // namespace quire
