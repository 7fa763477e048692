// Real vocabularies: the sources of one model agree, hard texts take linear time, bytes come back.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/test_support.h"
#include "text/tokenizer_files.h"

namespace quire {
namespace {

// Both sources of one model's tokenizer must agree on a whole chat.
TEST(GgufAndJson, AgreeOnChatText) {
  const auto base = shared_dir() / "tokenizers";
  const std::pair<const char*, const char*> pairs[] = {{"gguf-vocab/ggml-vocab-phi-3.gguf", "hf/phi-3-mini"},
                                                       {"gguf-vocab/ggml-vocab-qwen2.gguf", "hf/qwen2.5"},
                                                       {"gguf-vocab/ggml-vocab-llama-bpe.gguf", "hf/llama-3"}};
  const std::string chat =
      "<|user|>\nCafe\u0301 at 12:30?<|end|>\n<|assistant|>\n<|im_start|>user\nhi <|im_end|>\n<|eot_id|>\n\nsure";
  for (const auto& [gguf, folder] : pairs) {
    QR_NEED_FILE(base / gguf);
    QR_NEED_FILE(base / folder);
    const auto a = load_gguf_tokenizer(base / gguf);
    const auto b = load_tokenizer((base / folder).string());
    ASSERT_TRUE(b) << b.error().message;
    for (const bool parse : {false, true}) {
      EXPECT_EQ(encode(*a, chat, {.parse_special = parse}), encode(**b, chat, {.parse_special = parse})) << gguf;
    }
  }
}

std::string bytes_of(const Tokenizer& t, const std::vector<Token>& ids) {
  std::string out;
  for (const Token id : ids) t.append_bytes(id, false, out);
  return out;
}

class RoundTrip : public testing::TestWithParam<const char*> {};

// The hard texts of the catalogue (T1): quadratic code would not come back from this test.
TEST_P(RoundTrip, AMillionEqualCharacters) {
  const auto path = shared_dir() / "tokenizers/gguf-vocab" / ("ggml-vocab-" + std::string(GetParam()) + ".gguf");
  QR_NEED_FILE(path);
  const auto t = load_gguf_tokenizer(path);
  for (const char c : {'A', ' ', '\n', '7', '.', '\xCC', '\0'}) {
    const std::string text(1'000'000, c);
    const std::string prefix = t->strips_leading_space() ? " " : "";
    EXPECT_TRUE(bytes_of(*t, encode(*t, text)) == prefix + text) << static_cast<int>(c);
  }
  std::string tower = "a";  // T2: 100 000 combining marks
  for (int i = 0; i < 100'000; ++i) tower += i % 2 == 0 ? "\u0301" : "\u0323";
  EXPECT_FALSE(encode(*t, tower).empty());
}

class RoundTripBytes : public testing::TestWithParam<const char*> {};

// Any bytes come back, valid UTF-8 or not (T2). (Falcon's and DeepSeek's vocabularies lack some control bytes.)
TEST_P(RoundTripBytes, RandomBytes) {
  const auto path = shared_dir() / "tokenizers/gguf-vocab" / ("ggml-vocab-" + std::string(GetParam()) + ".gguf");
  QR_NEED_FILE(path);
  const auto t = load_gguf_tokenizer(path);
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    std::string text(1 + random() % 200, '\0');
    for (char& c : text) c = static_cast<char>(random() % 4 == 0 ? random() % 128 : random());
    const std::string prefix = t->strips_leading_space() ? " " : "";
    EXPECT_EQ(bytes_of(*t, encode(*t, text)), prefix + text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundTrip, testing::Values("gpt-2", "llama-bpe", "deepseek-llm", "falcon", "llama-spm"));
INSTANTIATE_TEST_SUITE_P(All, RoundTripBytes, testing::Values("gpt-2", "llama-bpe", "qwen2", "llama-spm"));

}  // namespace
}  // namespace quire
