// Tokenizers made to harm: files whose rules let a text grow without end, or look at all of it for each of its letters.
// Every one ends in an error that names the limit, or in time that is linear in the text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/json.h"
#include "text/charsmap.h"
#include "text/hf/hf_tokenizer.h"
#include "text/kept_vector.h"
#include "text/test_support.h"
#include "text/text_budget.h"

namespace quire {
namespace {

Result<std::unique_ptr<Tokenizer>> make(const std::string& sections) {
  QR_TRY(const Json root, Json::parse(R"({"model":{"type":"BPE","unk_token":"?","byte_fallback":false,
      "vocab":{"?":0,"a":1,"b":2,"ab":3},"merges":["a b"]},"added_tokens":[
      {"id":4,"content":"<x>","special":true,"normalized":false}])" +
                                      sections + "}"));
  return make_hf_tokenizer(root, {});
}

std::string sequence(const char* section, const char* list, int n, const std::string& part) {
  std::string out = std::string(",\"") + section + "\":{\"type\":\"Sequence\",\"" + list + "\":[";
  for (int i = 0; i < n; ++i) out += (i > 0 ? "," : "") + part;
  return out + "]}";
}

std::string replace(const std::string& pattern, const std::string& content) {
  return R"({"type":"Replace","pattern":)" + pattern + R"(,"content":")" + content + "\"}";
}

struct Growth {
  const char* what;
  std::string sections, text;
};

TEST(HostileTokenizer, GrowthIsAnErrorThatNamesTheLimit) {
  const std::string book(1 << 20, 'a');
  const std::string byte_level = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  const Growth cases[] = {
      {"30 doublings", sequence("normalizer", "normalizers", 30, replace(R"({"String":"a"})", "aa")), "a"},
      {"30 doublings by patterns", sequence("normalizer", "normalizers", 30, replace(R"({"Regex":"a"})", "aa")), "a"},
      {"a book for each letter", sequence("normalizer", "normalizers", 1, replace(R"({"String":"a"})", book)),
       std::string(1000, 'a')},
      {"a book for each pair", sequence("normalizer", "normalizers", 1, replace(R"({"String":"aa"})", book)),
       std::string(1000, 'a')},
      {"a book for each place", sequence("normalizer", "normalizers", 1, replace(R"({"Regex":"b*"})", book)),
       std::string(1000, 'a')},
      {"books in front", sequence("normalizer", "normalizers", 20, R"({"type":"Prepend","prepend":")" + book + "\"}"),
       "a"},
      {"bytes as characters, again and again", sequence("normalizer", "normalizers", 40, R"({"type":"ByteLevel"})"),
       "\xC3\xA9"},
      {"the same as pieces", sequence("pre_tokenizer", "pretokenizers", 40, byte_level), "\xC3\xA9"},
      {"a book for each space",
       sequence("pre_tokenizer", "pretokenizers", 1,
                R"({"type":"Metaspace","prepend_scheme":"never","split":false,"replacement":")" + book + "\"}"),
       std::string(1000, ' ')},
      {"a thousand letters for each, in a hundred thousand stretches",
       sequence("normalizer", "normalizers", 1, replace(R"({"String":"a"})", std::string(1000, 'a'))),
       [] {
         std::string out;
         for (int i = 0; i < 100'000; ++i) out += "<x>a";
         return out;
       }()},
  };
  for (const Growth& c : cases) {
    const auto tokenizer = make(c.sections);
    ASSERT_TRUE(tokenizer) << c.what << ": " << tokenizer.error().message;
    std::vector<Token> ids;
    const Status done = (*tokenizer)->encode(c.text, {.parse_special = true}, ids);
    ASSERT_FALSE(done) << c.what << ": " << ids.size();
    EXPECT_EQ(done.error().code, Code::invalid);
    EXPECT_THAT(done.error().message, testing::HasSubstr("text_growth")) << c.what;
    EXPECT_TRUE((*tokenizer)->encode("<x>b", {.parse_special = true}, ids) || c.text.size() < 3) << c.what;
  }
}

// A double array in which each "a" leads back to the root, and has a leaf: a key of any length.
std::string ring_blob(const std::string& replacement) {
  std::vector<uint32_t> units(256, 0);
  units[0] = 1u << 10;  // the root's offset is 1; as a leaf, the value 1024
  for (const uint32_t node : {uint32_t{1} ^ 'a', uint32_t{'a'}})
    units[node] = uint32_t{'a'} | 1u << 8 | node << 10;  // node ^ its offset: unit 0
  std::string blob;
  const auto n = static_cast<uint32_t>(units.size() * 4);
  blob.append(reinterpret_cast<const char*>(&n), 4);
  blob.append(reinterpret_cast<const char*>(units.data()), n);
  return blob.append(replacement).append(1, '\0');
}

TEST(HostileTokenizer, CharsMapsThatGrowAreStopped) {
  const auto map = CharsMap::parse(ring_blob(std::string(100'000, 'x')));
  ASSERT_TRUE(map);
  ASSERT_GT(map->longest("a").replacement.size(), 10'000u);
  const std::string text(100'000, 'a');
  for (const auto& rule : {make_precompiled(*map), make_sentencepiece({.map = *map})}) {
    std::string out;
    EXPECT_FALSE(rule->apply(text, TextBudget(text.size()).room(), out));
    EXPECT_LE(out.size(), TextBudget(text.size()).room() + 300'000);
  }
}

TEST(HostileTokenizer, CharsMapKeysEnd) {
  const auto map = CharsMap::parse(ring_blob(std::string(2000, 'x')));
  ASSERT_TRUE(map);
  EXPECT_EQ(map->longest(std::string(1 << 20, 'a')).len, CharsMap::kMaxKeyBytes);  // all of it, at each place: hours
}

TEST(HostileTokenizer, TextsOfTokensAreBoundedWhenTheFileIsRead) {
  const std::string book(1 << 20, 'a');
  const std::string twice = R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  for (const std::string& sections : {sequence("decoder", "decoders", 30, twice),
                                      sequence("decoder", "decoders", 1, replace(R"({"Regex":"b"})", book))}) {
    const auto tokenizer = make(sections);
    ASSERT_FALSE(tokenizer);
    EXPECT_EQ(tokenizer.error().code, Code::corrupt);
    EXPECT_THAT(tokenizer.error().message, testing::HasSubstr("16384"));
  }
  std::string ids;
  for (int i = 0; i < 300; ++i) ids += (i > 0 ? ",1" : "1");
  const auto framed = make(R"(,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},
      {"Sequence":{"id":"A"}}],"special_tokens":{"x":{"id":"x","ids":[)" +
                           ids + "]}}}");
  ASSERT_FALSE(framed);
  EXPECT_THAT(framed.error().message, testing::HasSubstr("at most 256 tokens"));
}

TEST(HostileTokenizer, TokensOfAnyLengthAreRefused) {
  const std::string key(5000, 'a');
  const auto by_vocab = Json::parse(R"({"model":{"type":"BPE","vocab":{"?":0,")" + key + R"(":1},"merges":[]}})");
  const auto added = Json::parse(R"({"model":{"type":"BPE","vocab":{"?":0},"merges":[]},"added_tokens":[
      {"id":1,"content":")" + key +
                                 R"(","special":true}]})");
  const auto grown = Json::parse(R"({"model":{"type":"BPE","vocab":{"?":0},"merges":[]},"normalizer":)" +
                                 replace(R"({"String":"a"})", key) + R"(,"added_tokens":[
      {"id":1,"content":"a","special":false,"normalized":true}]})");
  for (const auto& root : {by_vocab, added, grown}) {
    ASSERT_TRUE(root);
    const auto tokenizer = make_hf_tokenizer(*root, {});
    ASSERT_FALSE(tokenizer);
    EXPECT_EQ(tokenizer.error().code, Code::corrupt);
    EXPECT_THAT(tokenizer.error().message, testing::HasSubstr("5000"));
  }
}

TEST(HostileTokenizer, OneWordOfAMegabyteTakesLinearTime) {
  for (const std::string& model :
       {std::string(
            R"({"type":"BPE","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"ab":3,"aa":4},"merges":["a b","a a"]})"),
        std::string(R"({"type":"Unigram","unk_id":0,"vocab":[["?",0],["a",-1],["b",-2],["aab",-2.5]]})"),
        std::string(
            R"({"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##","max_input_chars_per_word":100,
                       "vocab":{"?":0,"a":1,"##a":2,"##b":3}})")}) {
    const auto root = Json::parse(R"({"model":)" + model + "}");
    ASSERT_TRUE(root);
    const auto tokenizer = make_hf_tokenizer(*root, {});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    std::string word;
    uint32_t state = 1;
    while (word.size() < 1 << 20) word += (state = state * 1664525 + 1013904223) >> 31 != 0 ? 'a' : 'b';
    std::vector<Token> ids;
    ASSERT_TRUE((*tokenizer)->encode(word, {}, ids));  // quadratic: hours
    EXPECT_GT(ids.size(), 0u);
  }
}

// A thread that has read a large text holds no more afterwards than one that has not.
TEST(HostileTokenizer, WorkingMemoryIsBoundedAndGivenBack) {
  const auto held = [] { return static_cast<int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd); };
  const std::string bpe = R"({"type":"BPE","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"ab":3},"merges":["a b"]})";
  for (const std::string& sections :
       {"\"model\":" + bpe,
        "\"model\":" + bpe + R"(,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":false})"}) {
    const auto root = Json::parse("{" + sections + "}");
    ASSERT_TRUE(root);
    const auto tokenizer = make_hf_tokenizer(*root, {});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    std::vector<Token> ids;
    ASSERT_TRUE((*tokenizer)->encode("abba", {}, ids));  // what is made once
    std::string word;
    uint32_t state = 1;
    while (word.size() < 4 << 20) word += (state = state * 1664525 + 1013904223) >> 31 != 0 ? 'a' : 'b';
    ids.reserve(word.size());
    const int64_t before = held();
    std::atomic<bool> done = false;
    int64_t most = 0;
    std::thread watch([&] {
      while (!done) most = std::max(most, held() - before);
    });
    EXPECT_TRUE((*tokenizer)->encode(word, {}, ids));
    done = true;
    watch.join();
    EXPECT_LE(most, kEncodeBytes * static_cast<int64_t>(word.size())) << sections;
    EXPECT_LE(held() - before, int64_t{4 * kKeptBytes}) << sections;
  }
}

// As many stretches of text as ranges of the user's.
TEST(HostileTokenizer, ManyStretchesAndManyRangesMeetInLinearTime) {
  const auto tokenizer = make("");
  std::string text;
  std::vector<ByteRange> plain;
  for (int i = 0; i < 200'000; ++i) {
    plain.push_back({text.size(), text.size() + 1});
    text += "a<x>";
  }
  std::vector<Token> ids;
  ASSERT_TRUE((*tokenizer)->encode(text, {.parse_special = true, .plain = plain}, ids));
  EXPECT_EQ(ids.size(), 400'000u);
}

}  // namespace
}  // namespace quire
