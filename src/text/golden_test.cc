// Every golden file of the shared data against the tokenizer that it belongs to, to the token: ids, ids with the
// model's frame, decoded text. The last test finds files that no list names.
#include <gtest/gtest.h>

#include <algorithm>

#include "text/bert_pipeline.h"
#include "text/golden_tally.h"
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

std::string test_name(std::string name) {
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

// ---- .inp and .out beside a vocabulary ----

constexpr const char* kPairs[] = {"bert-bge",  "deepseek-llm", "falcon", "gpt-2",    "llama-bpe",
                                  "llama-spm", "phi-3",        "qwen2",  "starcoder"};

class GgufVocab : public testing::TestWithParam<const char*> {};

TEST_P(GgufVocab, EncodesEveryGoldenTextToTheToken) {
  const auto path = shared_dir() / "tokenizers/gguf-vocab" / ("ggml-vocab-" + std::string(GetParam()) + ".gguf");
  QR_NEED_FILE(path);
  const auto t = load(path);
  ASSERT_NE(t, nullptr);
  const GoldenPairs golden = read_golden_pairs(path);
  ASSERT_GT(golden.texts.size(), 40u);
  ASSERT_EQ(golden.texts.size(), golden.ids.size());
  for (size_t i = 0; i < golden.texts.size(); ++i) {
    expect_golden("gguf-vocab/*.inp, .out", GetParam(), encode(*t, golden.texts[i]), golden.ids[i], golden.texts[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufVocab, testing::ValuesIn(kPairs), [](const auto& test) {
  return test_name(test.param);
});

// ---- expected/{hf,spm,tiktoken}-*.json ----

struct Golden {
  const char* name;           // of expected/NAME.json, or of a list in it
  const char* tokenizer;      // below tokenizers/
  bool parse_special = true;  // the reference parses special tokens in the text
  bool cleans_up = false;     // the reference takes spaces before punctuation away from what it decodes
};

constexpr Golden kExpected[] = {{"hf-gpt-neox-20b", "hf/gpt-neox-20b"},
                                {"hf-llama-2", "hf/llama-2"},
                                {"hf-llama-3", "hf/llama-3"},
                                {"hf-phi-2", "hf/phi-2"},
                                {"hf-phi-3-mini", "hf/phi-3-mini"},
                                {"hf-qwen2.5", "hf/qwen2.5"},
                                {"hf-t5-small", "hf/t5-small"},
                                {"spm-mistral-v1", "spm/mistral-v1.model", false},
                                {"spm-mistral-v3", "spm/mistral-v3.model", false},
                                {"spm-tok105", "spm/tok105.model", false},
                                {"spm-tok512", "spm/tok512.model", false},
                                {"tiktoken-llama-3", "hf/llama-3/tokenizer.model", false},
                                {"tiktoken-o200k_base", "tiktoken/o200k_base.tiktoken", false}};

// The tokenizer and the golden file of the parameter; skips the test where either is absent.
class GoldenFile : public testing::TestWithParam<Golden> {
 protected:
  void read(const std::string& file) {
    const auto base = shared_dir() / "tokenizers";
    QR_NEED_FILE(base / "expected" / file);
    QR_NEED_FILE(base / GetParam().tokenizer);
    tokenizer = load(base / GetParam().tokenizer);
    golden = read_json(base / "expected" / file);
    ASSERT_NE(tokenizer, nullptr);
  }
  std::unique_ptr<Tokenizer> tokenizer;
  Json golden;
};
#define QR_READ_GOLDEN(file) \
  read(file);                \
  if (IsSkipped() || HasFatalFailure()) return

class ExpectedFile : public GoldenFile {};

TEST_P(ExpectedFile, EveryCaseMatches) {
  const std::string file = std::string(GetParam().name) + ".json";
  QR_READ_GOLDEN(file);
  const Json::Array& cases = *golden.find("cases")->as_array();
  ASSERT_GT(cases.size(), 50u);
  const std::string kind = "expected/{hf,spm,tiktoken}-*.json: ";
  for (const Json& c : cases) {
    const std::string& text = *c.find("text")->as_string();
    const Ids ids = ids_of(*c.find("ids"));
    const EncodeOptions options{.parse_special = GetParam().parse_special};
    expect_golden(kind + "ids", file, encode(*tokenizer, text, options), ids, text);
    if (const Json* framed = c.find("ids_with_special")) {
      const Ids got = encode(*tokenizer, text, {.add_special = true, .parse_special = true});
      expect_golden(kind + "ids_with_special", file, got, ids_of(*framed), text);
    }
    expect_golden(kind + "decoded", file, tokenizer->decode(ids, true), *c.find("decoded")->as_string(), text);
  }
}

const auto kTestName = [](const auto& test) { return test_name(test.param.name); };
INSTANTIATE_TEST_SUITE_P(All, ExpectedFile, testing::ValuesIn(kExpected), kTestName);

// ---- expected/swift-*.json: one long multilingual text each ----

constexpr Golden kSwift[] = {{"swift-bert_uncased_encoded", "hf/bert-base-uncased"},
                             {"swift-falcon_encoded", "gguf-vocab/ggml-vocab-falcon.gguf"},
                             {"swift-gpt2_encoded_tokens", "gguf-vocab/ggml-vocab-gpt-2.gguf"},
                             {"swift-llama_3.2_encoded", "hf/llama-3"},
                             {"swift-llama_encoded", "hf/llama-2"},
                             {"swift-t5_base_encoded", "hf/t5-small"}};

class SwiftFile : public GoldenFile {};

TEST_P(SwiftFile, LongTextMatches) {
  const std::string file = std::string(GetParam().name) + ".json";
  QR_READ_GOLDEN(file);
  const Ids ids = ids_of(*golden.find("token_ids"));
  const std::string& text = *golden.find("text")->as_string();
  const std::string kind = "expected/swift-*.json: ";
  expect_golden(kind + "token_ids", file, encode(*tokenizer, text, {.add_special = true}), ids, text);
  const std::string& decoded = *golden.find("decoded_text")->as_string();
  expect_golden(kind + "decoded_text", file, tokenizer->decode(ids, true), decoded, text);
}

INSTANTIATE_TEST_SUITE_P(All, SwiftFile, testing::ValuesIn(kSwift), kTestName);

// ---- expected/transformers-js-tokenizer_tests.json ----

constexpr const char* kTransformersJsFile = "transformers-js-tokenizer_tests.json";
constexpr Golden kTransformersJs[] = {{"bert-base-uncased", "hf/bert-base-uncased", true, true},
                                      {"google-bert/bert-base-uncased", "hf/bert-base-uncased", true, true},
                                      {"distilgpt2", "gguf-vocab/ggml-vocab-gpt-2.gguf", true, true},
                                      {"coreml-projects/Llama-2-7b-chat-coreml", "hf/llama-2"},
                                      {"tiiuae/falcon-7b", "gguf-vocab/ggml-vocab-falcon.gguf", true, true},
                                      {"t5-base", "hf/t5-small", true, true},
                                      {"pcuenq/Llama-3.2-1B-Instruct-tokenizer", "hf/llama-3", true, true}};

class TransformersJs : public GoldenFile {};

TEST_P(TransformersJs, EveryCaseMatches) {
  QR_READ_GOLDEN(kTransformersJsFile);
  const Json* cases = golden.find(GetParam().name);
  ASSERT_NE(cases, nullptr);
  const std::string kind = "expected/transformers-js: ", file = GetParam().name;
  for (const Json& c : *cases->as_array()) {
    const std::string& text = *c.find("input")->as_string();
    const Ids ids = ids_of(*c.find("encoded")->find("input_ids"));
    const Ids got = encode(*tokenizer, text, {.add_special = true, .parse_special = true});
    expect_golden(kind + "input_ids", file, got, ids, text);
    for (const bool special : {false, true}) {
      const std::string field = special ? "decoded_with_special" : "decoded_without_special";
      std::string decoded = tokenizer->decode(ids, special);
      if (GetParam().cleans_up) decoded = clean_up_spaces(std::move(decoded));
      expect_golden(kind + field, file, decoded, *c.find(field)->as_string(), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransformersJs, testing::ValuesIn(kTransformersJs), kTestName);

// ---- expected/mistral-common/*.json: whole requests ----

// The reference encodes what lies between two control tokens by itself. Its ids say what that text was: decoded, with
// the control tokens' names between, it must give the same ids again, every one, as one text and piece by piece.
TEST(MistralCommon, WholeRequestsMatch) {
  const auto base = shared_dir() / "tokenizers";
  QR_NEED_FILE(base / "expected/mistral-common");
  const auto v1 = load(base / "spm/mistral-v1.model"), v3 = load(base / "spm/mistral-v3.model");
  ASSERT_TRUE(v1 != nullptr && v3 != nullptr);
  for (const auto& entry : std::filesystem::directory_iterator(base / "expected/mistral-common")) {
    const std::string file = entry.path().filename().string();
    const Tokenizer& t = file.ends_with("_v1.json") ? *v1 : *v3;  // the second version's ids are the third's
    const Ids ids = ids_of(*read_json(entry.path()).find("tokens"));
    std::string text;
    Ids in_pieces, piece;
    const auto end_piece = [&] {
      const std::string words = t.decode(piece, false);
      t.encode(words, {}, in_pieces);
      text += words;
      piece.clear();
    };
    for (const Token id : ids) {
      if (t.spec().types[static_cast<size_t>(id)] != TokenType::control) {
        piece.push_back(id);
        continue;
      }
      end_piece();
      in_pieces.push_back(id);
      t.append_bytes(id, true, text);
    }
    end_piece();
    expect_golden("expected/mistral-common/*.json: tokens", file, in_pieces, ids, "in pieces");
    expect_golden("expected/mistral-common/*.json: tokens", file, encode(t, text, {.parse_special = true}), ids, text);
  }
}

TEST(Tiktoken, SourceFileInO200k) {
  const auto base = shared_dir() / "tokenizers/tiktoken";
  QR_NEED_FILE(base / "tokens_gpt4o.json");
  const auto t = load(base / "o200k_base.tiktoken");
  ASSERT_NE(t, nullptr);
  expect_golden("tiktoken/tokens_gpt4o.json", "lib.rs.txt", encode(*t, read_file(base / "lib.rs.txt")),
                ids_of(read_json(base / "tokens_gpt4o.json")), "a source file");
}

// ---- nothing is passed over ----

TEST(GoldenFiles, EveryFileIsInOneOfTheLists) {
  const auto base = shared_dir() / "tokenizers";
  QR_NEED_FILE(base);
  std::vector<std::string> found, known = {kTransformersJsFile};
  for (const auto& entry : std::filesystem::directory_iterator(base / "expected")) {
    if (entry.is_regular_file()) found.push_back(entry.path().filename().string());
  }
  for (const auto& entry : std::filesystem::directory_iterator(base / "gguf-vocab")) {
    if (entry.path().extension() == ".inp") found.push_back(entry.path().filename().string());
  }
  for (const Golden& g : kExpected) known.push_back(std::string(g.name) + ".json");
  for (const Golden& g : kSwift) known.push_back(std::string(g.name) + ".json");
  for (const char* name : kPairs) known.push_back("ggml-vocab-" + std::string(name) + ".gguf.inp");
  std::sort(found.begin(), found.end());
  std::sort(known.begin(), known.end());
  EXPECT_EQ(found, known);
  std::vector<std::string> lists, named;
  const Json js = read_json(base / "expected" / kTransformersJsFile);
  for (const Json::Member& m : *js.as_object()) lists.push_back(m.first);
  for (const Golden& g : kTransformersJs) named.emplace_back(g.name);
  std::sort(lists.begin(), lists.end());
  std::sort(named.begin(), named.end());
  EXPECT_EQ(lists, named);
}

}  // namespace
}  // namespace quire
