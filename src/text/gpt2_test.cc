// BPE with listed merges from a spec: what the pre-tokenizer's name decides, and vocabularies of characters.
#include <gtest/gtest.h>

#include "text/spm_pieces.h"
#include "text/test_support.h"
#include "text/tokenizer_files.h"

namespace quire {
namespace {

using Ids = std::vector<Token>;

std::unique_ptr<Tokenizer> make(TokenizerSpec spec) {
  auto made = make_tokenizer(std::move(spec));
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return made ? std::move(*made) : nullptr;
}

TokenizerSpec byte_spec(const char* pre) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = pre;
  spec.tokens = {"a", "b", "ab", "<bos>"};
  spec.types.assign(4, TokenType::normal);
  spec.types[3] = TokenType::control;
  spec.merges = {"a b"};
  spec.bos = 3;
  return spec;
}

TEST(ListedBpe, TheFamilyDecidesOnBosWhereTheFileDoesNot) {
  const auto begins = [](const char* pre, bool says, bool by_name) {
    TokenizerSpec spec = byte_spec(pre);
    spec.add_bos = says;
    spec.bos_by_name = by_name;
    const auto t = make(std::move(spec));
    EXPECT_EQ(t->spec().add_bos, encode(*t, "ab", {.add_special = true}).size() == 2);
    return t->spec().add_bos;
  };
  for (const char* pre : {"llama-bpe", "tekken", "chameleon", "gemma4"}) EXPECT_TRUE(begins(pre, false, true)) << pre;
  for (const char* pre : {"", "gpt-2", "qwen2"}) EXPECT_FALSE(begins(pre, false, true)) << pre;
  EXPECT_FALSE(begins("llama-bpe", false, false));
  EXPECT_TRUE(begins("gpt-2", true, false));
}

TEST(ListedBpe, RefusesMergesOfWhatDoesNotExist) {
  for (const char* merge : {"ab", "a c", "b a", "a "}) {
    TokenizerSpec spec = byte_spec("gpt-2");
    spec.merges.emplace_back(merge);
    const auto made = make_tokenizer(std::move(spec));
    ASSERT_FALSE(made) << merge;
    EXPECT_EQ(made.error().code, Code::corrupt);
    EXPECT_NE(made.error().message.find("merge 1"), std::string::npos) << made.error().message;
  }
}

// Byte tokens 0 … 255, then pieces.
TokenizerSpec character_spec() {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gemma4";
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) {
    spec.tokens.push_back(std::string("<0x") + kHex[b >> 4] + kHex[b & 15] + ">");
    spec.types.push_back(TokenType::byte);
  }
  for (const char* piece : {"\u2581", "a", "b", "\u2581a", "ab", "\u2581ab", "\n", "\n\n", "\u00e9", "<turn>"}) {
    spec.tokens.emplace_back(piece);
    spec.types.push_back(TokenType::normal);
  }
  spec.types.back() = TokenType::control;
  spec.merges = {"a b", "\u2581 a", "\u2581 ab", "\n \n"};
  return spec;
}

TEST(ListedBpe, VocabulariesOfCharacters) {
  const auto t = make(character_spec());
  const Token space = 256, a = 257, space_ab = 261, two_lines = 263, e_acute = 264, turn = 265;
  EXPECT_EQ(encode(*t, "a ab"), (Ids{a, space_ab}));
  EXPECT_EQ(encode(*t, " \n\na"), (Ids{space, two_lines, a}));
  EXPECT_EQ(encode(*t, "\u00e9\u00e8"), (Ids{e_acute, 0xC3, 0xA8}));  // not in the vocabulary: its bytes
  EXPECT_EQ(encode(*t, "<turn>", {.parse_special = true}), (Ids{turn}));
  EXPECT_EQ(encode(*t, "<").size(), 1u);
  for (const std::string text : {"a ab", " \n\na", "\u00e9\u00e8 \xff b", "<turn>"}) {
    std::string bytes;
    for (const Token id : encode(*t, text)) t->append_bytes(id, false, bytes);
    EXPECT_EQ(bytes, text);
  }
}

// The same vocabulary and merges from tokenizer.json, whose normaliser puts one space in front. Lines are apart in the
// named pre-tokenizer, so texts of one line must agree to the token.
TEST(ListedBpe, CharactersAgreeWithTokenizerJson) {
  const auto folder = shared_dir() / "tokenizers/hf/llama-2";
  QR_NEED_FILE(folder / "tokenizer.json");
  const auto json = Json::parse(read_file(folder / "tokenizer.json"));
  ASSERT_TRUE(json);
  const Json& model = *json->find("model");
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "sarvam-moe";
  spec.unk = 0;
  spec.tokens.resize(32000);
  spec.types.assign(32000, TokenType::normal);
  for (const Json::Member& m : *model.find("vocab")->as_object()) {
    const auto id = static_cast<size_t>(*m.second.as_int());
    spec.tokens[id] = m.first;
    if (byte_of_piece(m.first) >= 0) spec.types[id] = TokenType::byte;
    if (id < 3) spec.types[id] = TokenType::control;
  }
  for (const Json& merge : *model.find("merges")->as_array()) {
    spec.merges.push_back(merge.as_string()
                              ? *merge.as_string()
                              : *(*merge.as_array())[0].as_string() + " " + *(*merge.as_array())[1].as_string());
  }
  const auto t = make(std::move(spec));
  ASSERT_NE(t, nullptr);
  const auto reference = load_tokenizer(folder.string());
  ASSERT_TRUE(reference) << reference.error().message;
  const auto inputs = Json::parse(read_file("tests/golden/tokenizers/inputs.json"));
  ASSERT_TRUE(inputs);
  int n_compared = 0;
  for (const Json& input : *inputs->as_array()) {
    const std::string& text = *input.as_string();
    if (text.empty() || text.find('\n') != std::string::npos) continue;
    EXPECT_EQ(encode(*t, " " + text), encode(**reference, text)) << text;
    ++n_compared;
  }
  EXPECT_GT(n_compared, 500);
}

}  // namespace
}  // namespace quire
