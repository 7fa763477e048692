// Every golden file of the shared data against the tokenizer that it belongs to, to the token: ids, ids with the
// model's frame, decoded text.
#include <gtest/gtest.h>

#include "text/test_support.h"
#include "text/tokenizer_files.h"

namespace quire {
namespace {

using Ids = std::vector<Token>;

Json read_json(const std::filesystem::path& path) {
  auto json = Json::parse(read_file(path));
  EXPECT_TRUE(json) << path;
  return json ? std::move(*json) : Json();
}

Ids ids_of(const Json& list) {
  Ids out;
  for (const Json& id : *list.as_array()) out.push_back(static_cast<Token>(*id.as_int()));
  return out;
}

std::unique_ptr<Tokenizer> load(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return load_gguf_tokenizer(path);
  auto made = load_tokenizer(path.string());
  EXPECT_TRUE(made) << path << ": " << (made ? "" : made.error().message);
  return made ? std::move(*made) : nullptr;
}

struct Golden {
  const char* name;       // of expected/NAME.json
  const char* tokenizer;  // below tokenizers/
  bool parse_special;     // the reference parses special tokens in the text
};
std::string test_name(const testing::TestParamInfo<Golden>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

class ExpectedFile : public testing::TestWithParam<Golden> {};

TEST_P(ExpectedFile, EveryCaseMatches) {
  const auto base = shared_dir() / "tokenizers";
  const auto expected = base / "expected" / (std::string(GetParam().name) + ".json");
  QR_NEED_FILE(expected);
  QR_NEED_FILE(base / GetParam().tokenizer);
  const auto t = load(base / GetParam().tokenizer);
  ASSERT_NE(t, nullptr);
  const Json golden = read_json(expected);
  const Json::Array& cases = *golden.find("cases")->as_array();
  ASSERT_GT(cases.size(), 50u);
  for (const Json& c : cases) {
    const std::string& text = *c.find("text")->as_string();
    const Ids ids = ids_of(*c.find("ids"));
    EXPECT_EQ(encode(*t, text, {.parse_special = GetParam().parse_special}), ids) << text;
    if (const Json* with_special = c.find("ids_with_special")) {
      EXPECT_EQ(encode(*t, text, {.add_special = true, .parse_special = true}), ids_of(*with_special)) << text;
    }
    EXPECT_EQ(t->decode(ids, true), *c.find("decoded")->as_string());
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         ExpectedFile,
                         testing::Values(Golden{"hf-gpt-neox-20b", "hf/gpt-neox-20b", true},
                                         Golden{"hf-llama-2", "hf/llama-2", true},
                                         Golden{"hf-llama-3", "hf/llama-3", true},
                                         Golden{"hf-phi-2", "hf/phi-2", true},
                                         Golden{"hf-phi-3-mini", "hf/phi-3-mini", true},
                                         Golden{"hf-qwen2.5", "hf/qwen2.5", true},
                                         Golden{"hf-t5-small", "hf/t5-small", true},
                                         Golden{"spm-mistral-v1", "spm/mistral-v1.model", false},
                                         Golden{"spm-mistral-v3", "spm/mistral-v3.model", false},
                                         Golden{"spm-tok105", "spm/tok105.model", false},
                                         Golden{"spm-tok512", "spm/tok512.model", false},
                                         Golden{"tiktoken-llama-3", "hf/llama-3/tokenizer.model", false},
                                         Golden{"tiktoken-o200k_base", "tiktoken/o200k_base.tiktoken", false}),
                         test_name);

// One long multilingual text each, from swift-transformers.
class SwiftFile : public testing::TestWithParam<Golden> {};

TEST_P(SwiftFile, LongTextMatches) {
  const auto base = shared_dir() / "tokenizers";
  const auto expected = base / "expected" / (std::string(GetParam().name) + ".json");
  QR_NEED_FILE(expected);
  QR_NEED_FILE(base / GetParam().tokenizer);
  const auto t = load(base / GetParam().tokenizer);
  ASSERT_NE(t, nullptr);
  const Json golden = read_json(expected);
  const Ids ids = ids_of(*golden.find("token_ids"));
  EXPECT_EQ(encode(*t, *golden.find("text")->as_string(), {.add_special = true}), ids);
  EXPECT_EQ(t->decode(ids, true), *golden.find("decoded_text")->as_string());
}

INSTANTIATE_TEST_SUITE_P(All,
                         SwiftFile,
                         testing::Values(Golden{"swift-bert_uncased_encoded", "hf/bert-base-uncased", true},
                                         Golden{"swift-falcon_encoded", "gguf-vocab/ggml-vocab-falcon.gguf", true},
                                         Golden{"swift-gpt2_encoded_tokens", "gguf-vocab/ggml-vocab-gpt-2.gguf", true},
                                         Golden{"swift-llama_3.2_encoded", "hf/llama-3", true},
                                         Golden{"swift-llama_encoded", "hf/llama-2", true},
                                         Golden{"swift-t5_base_encoded", "hf/t5-small", true}),
                         test_name);

class TransformersJs : public testing::TestWithParam<Golden> {};

TEST_P(TransformersJs, EveryCaseMatches) {
  const auto base = shared_dir() / "tokenizers";
  const auto expected = base / "expected/transformers-js-tokenizer_tests.json";
  QR_NEED_FILE(expected);
  QR_NEED_FILE(base / GetParam().tokenizer);
  const auto t = load(base / GetParam().tokenizer);
  ASSERT_NE(t, nullptr);
  const Json golden = read_json(expected);
  const Json* cases = golden.find(GetParam().name);
  ASSERT_NE(cases, nullptr);
  for (const Json& c : *cases->as_array()) {
    const std::string& text = *c.find("input")->as_string();
    const Ids ids = ids_of(*c.find("encoded")->find("input_ids"));
    EXPECT_EQ(encode(*t, text, {.add_special = true, .parse_special = true}), ids) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         TransformersJs,
                         testing::Values(Golden{"bert-base-uncased", "hf/bert-base-uncased", true},
                                         Golden{"google-bert/bert-base-uncased", "hf/bert-base-uncased", true},
                                         Golden{"distilgpt2", "gguf-vocab/ggml-vocab-gpt-2.gguf", true},
                                         Golden{"coreml-projects/Llama-2-7b-chat-coreml", "hf/llama-2", true},
                                         Golden{"tiiuae/falcon-7b", "gguf-vocab/ggml-vocab-falcon.gguf", true},
                                         Golden{"t5-base", "hf/t5-small", true},
                                         Golden{"pcuenq/Llama-3.2-1B-Instruct-tokenizer", "hf/llama-3", true}),
                         test_name);

TEST(Tiktoken, SourceFileInO200k) {
  const auto base = shared_dir() / "tokenizers/tiktoken";
  QR_NEED_FILE(base / "tokens_gpt4o.json");
  const auto t = load(base / "o200k_base.tiktoken");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(encode(*t, read_file(base / "lib.rs.txt")), ids_of(read_json(base / "tokens_gpt4o.json")));
}

}  // namespace
}  // namespace quire
