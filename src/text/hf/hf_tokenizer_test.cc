// tokenizer.json by hand: small pipelines, and what a broken file is refused with.
#include "text/hf/hf_tokenizer.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "text/test_support.h"

namespace quire {
namespace {

using Ids = std::vector<Token>;

Result<std::unique_ptr<Tokenizer>> make(const std::string& json) {
  QR_TRY(const Json root, Json::parse(json));
  return make_hf_tokenizer(root, {});
}

std::unique_ptr<Tokenizer> must(const std::string& json) {
  auto made = make(json);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return std::move(*made);
}

std::string bpe(const std::string& fields) {
  return R"({"model":{"type":"BPE","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"ab":3,"c":4},"merges":["a b"])" +
         fields + "}";
}

TEST(HfTokenizer, PlainBpeWithUnknowns) {
  const auto t = must(bpe("}"));
  EXPECT_EQ(encode(*t, "abcxyab"), (Ids{3, 4, 0, 0, 3}));
  const auto fused = must(bpe(R"(,"fuse_unk":true})"));
  EXPECT_EQ(encode(*fused, "abcxyab"), (Ids{3, 4, 0, 3}));
}

TEST(HfTokenizer, AddedTokensStripAndRespectWords) {
  const auto t = must(bpe(R"(},"added_tokens":[
      {"id":5,"content":"<x>","special":true,"lstrip":true,"rstrip":true,"normalized":false},
      {"id":6,"content":"ca","special":false,"single_word":true,"normalized":false}],
      "normalizer":{"type":"Replace","pattern":{"String":" "},"content":"a"})"));
  EXPECT_EQ(encode(*t, "c  <x>\n c", {.parse_special = true}), (Ids{4, 5, 4}));
  EXPECT_EQ(encode(*t, "c ca ca", {}), (Ids{4, 1, 6, 1, 6}));
  EXPECT_EQ(encode(*t, "cab", {}), (Ids{4, 3}));  // a letter touches it
}

TEST(HfTokenizer, NormalizedAddedTokensAreSearchedInNormalisedText) {
  const auto t = must(bpe(R"(},"normalizer":{"type":"Lowercase"},"added_tokens":[
      {"id":5,"content":"XX","special":false,"normalized":true}])"));
  EXPECT_EQ(encode(*t, "aXxb", {}), (Ids{1, 5, 2}));
}

TEST(HfTokenizer, FrameComesFromThePostProcessor) {
  const auto t = must(bpe(R"(},"post_processor":{"type":"TemplateProcessing","single":[
      {"SpecialToken":{"id":"[C]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[S]","type_id":0}}],
      "special_tokens":{"[C]":{"id":"[C]","ids":[3],"tokens":["[C]"]},"[S]":{"id":"[S]","ids":[4,4],"tokens":["[S]"]}}})"));
  EXPECT_EQ(encode(*t, "a", {.add_special = true}), (Ids{3, 1, 4, 4}));
}

TEST(HfTokenizer, MetaspacePrependsToTheFirstPieceOnly) {
  const auto t = must(R"({"model":{"type":"BPE","vocab":{"▁":0,"a":1,"▁a":2},"merges":["▁ a"]},
      "added_tokens":[{"id":3,"content":"<x>","special":true,"normalized":false}],
      "pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}})");
  EXPECT_EQ(encode(*t, "a a<x>a", {.parse_special = true}), (Ids{2, 2, 3, 1}));
}

TEST(HfTokenizer, WordsNamedByTheirPlace) {
  const auto t =
      must(R"({"model":{"type":"BPE","end_of_word_suffix":"</w>","vocab":{"l":0,"o":1,"w</w>":2,"lo":3,"low</w>":4},
      "merges":["l o","lo w</w>"]},"pre_tokenizer":{"type":"WhitespaceSplit"},"decoder":{"type":"BPEDecoder"}})");
  EXPECT_EQ(encode(*t, "low lo"), (Ids{4, 0}));  // no "o</w>": it vanishes, there is no unknown token
}

TEST(HfTokenizer, ByteLevelBeforeOtherStepsCutsByteCharacters) {
  // After ByteLevel, "½" is the characters Â and ½; Digits then cuts off the latter.
  const auto t = must(R"({"model":{"type":"BPE","vocab":{"Â":0,"½":1,"Â½":2},"merges":["Â ½"]},"pre_tokenizer":
      {"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false},{"type":"Digits"}]}})");
  EXPECT_EQ(encode(*t, "\u00BD"), (Ids{0, 1}));
}

TEST(HfTokenizer, UnigramPicksTheBestPathAndFusesUnknowns) {
  const auto t = must(R"({"model":{"type":"Unigram","unk_id":0,
      "vocab":[["<unk>",0.0],["a",-1.0],["b",-1.0],["ab",-1.5],["aba",-4.0]]}})");
  EXPECT_EQ(encode(*t, "aba"), (Ids{3, 1}));
  EXPECT_EQ(encode(*t, "axyzb"), (Ids{1, 0, 2}));
}

TEST(HfTokenizer, BrokenFilesNameTheField) {
  const std::pair<std::string, const char*> cases[] = {
      {"{}", "root.model"},
      {R"({"model":{"type":"BPE"}})", "model.vocab"},
      {R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", "token id -1"},
      {R"({"model":{"type":"BPE","vocab":{"a":99999999},"merges":[]}})", "token id 99999999 must be in [0, 65536]"},
      {R"({"model":{"type":"BPE","vocab":{"a":"x"},"merges":[]}})", "model.vocab"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a z"]}})", "merges[0]"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})", "merges[0]"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":7}})", "model.merges"},
      {R"({"model":{"type":"Unigram","unk_id":5,"vocab":[["a",0.0]]}})", "model.unk_id"},
      {R"({"model":{"type":"Unigram","vocab":[["a"]]}})", "model.vocab"},
      {R"({"model":{"type":"Unigram","vocab":{"a":0}}})", "model.vocab"},
      {bpe(R"(},"added_tokens":[{"content":"x"}])"), "token id -1"},
      {bpe(R"(},"added_tokens":{})"), "added_tokens"},
      {bpe(R"(},"post_processor":{"type":"BertProcessing","sep":["x",9],"cls":["y",1]})"), "token 9"},
      {bpe(R"(},"post_processor":{"type":"TemplateProcessing"})"), "single"},
      {bpe(R"(},"pre_tokenizer":{"type":"Split","pattern":{}})"), "pattern"},
      {bpe(R"(},"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAA"})"), "precompiled_charsmap"},
      {bpe(R"(},"normalizer":{"type":"Precompiled","precompiled_charsmap":"*"})"), "base64"},
  };
  for (const auto& [json, part] : cases) {
    const auto made = make(json);
    ASSERT_FALSE(made) << json;
    EXPECT_EQ(made.error().code, Code::corrupt) << made.error().message;
    EXPECT_NE(made.error().message.find(part), std::string::npos) << made.error().message;
  }
}

TEST(HfTokenizer, UnknownPartsAreUnsupported) {
  for (const char* fields : {R"(},"normalizer":{"type":"Magic"})", R"(},"pre_tokenizer":{"type":"Magic"})",
                             R"(},"decoder":{"type":"Magic"})", R"(},"post_processor":{"type":"Magic"})"}) {
    const auto made = make(bpe(fields));
    ASSERT_FALSE(made) << fields;
    EXPECT_EQ(made.error().code, Code::unsupported);
    EXPECT_NE(made.error().message.find("Magic"), std::string::npos);
  }
  const auto bad = make(bpe(R"(},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::invalid);  // no regex of any dialect
}

TEST(HfTokenizer, TooManyPartsAreRefused) {
  std::string list = R"({"type":"NFC"})";
  for (int i = 0; i < 64; ++i) list += R"(,{"type":"NFC"})";
  const auto made = make(bpe(R"(},"normalizer":{"type":"Sequence","normalizers":[)" + list + "]}"));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::corrupt);
}

}  // namespace
}  // namespace quire
