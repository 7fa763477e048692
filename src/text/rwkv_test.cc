// RWKV's tokenizer: escaped tokens, the longest one at each place.
#include <gtest/gtest.h>

#include "text/chat_template.h"
#include "text/test_support.h"

namespace quire {
namespace {

using Ids = std::vector<Token>;

// A byte as Python writes it.
std::string escaped(int b) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (b) {
    case '\t': return "\\t";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\\': return "\\\\";
    default:
      if (b >= 32 && b <= 126) return std::string(1, static_cast<char>(b));
      return std::string("\\x") + kHex[b >> 4] + kHex[b & 15];
  }
}

// As GGUF writers make it: <s>, the 256 bytes, then tokens of several.
TokenizerSpec world_spec() {
  TokenizerSpec spec;
  spec.model = "rwkv";
  spec.tokens = {"<s>"};
  spec.types = {TokenType::control};
  for (int b = 0; b < 256; ++b) spec.tokens.push_back(escaped(b));
  for (const char* text : {"\\n\\n", "ab", "abcd", "b\\'", "\\xe2\\x80", "\\xe2\\x80\\x99"})
    spec.tokens.emplace_back(text);
  spec.types.resize(spec.tokens.size(), TokenType::normal);
  spec.tokens.emplace_back("[PAD263]");
  spec.types.push_back(TokenType::unused);
  spec.bos = spec.eos = 0;
  spec.eot = 257;
  return spec;
}

constexpr Token kLines = 257, kAb = 258, kAbcd = 259, kBQuote = 260, kHalf = 261, kApostrophe = 262, kPad = 263;
Token byte_token(char c) { return static_cast<Token>(static_cast<uint8_t>(c)) + 1; }

TEST(LongestMatch, TakesTheLongestTokenAtEachPlace) {
  const auto made = make_tokenizer(world_spec());
  ASSERT_TRUE(made) << made.error().message;
  const Tokenizer& t = **made;
  EXPECT_EQ(encode(t, "abcdab"), (Ids{kAbcd, kAb}));
  EXPECT_EQ(encode(t, "abcb'"), (Ids{kAb, byte_token('c'), kBQuote}));
  EXPECT_EQ(encode(t, "ab'"), (Ids{kAb, byte_token('\'')}));  // and not a, b'
  EXPECT_EQ(encode(t, "\n\n\n"), (Ids{kLines, byte_token('\n')}));
  EXPECT_EQ(encode(t, "\u2019"), Ids{kApostrophe});
  EXPECT_EQ(encode(t, "\xe2\x80\xff"), (Ids{kHalf, byte_token('\xff')}));
  EXPECT_EQ(encode(t, "\\"), Ids{byte_token('\\')});
  EXPECT_EQ(encode(t, "[PAD263]").size(), 8U);  // what is not used is never found
  EXPECT_EQ(encode(t, "<s>").size(), 3U);
  EXPECT_EQ(encode(t, "<s>", {.parse_special = true}), Ids{0});
  EXPECT_EQ(encode(t, "a", {.add_special = true}), Ids{byte_token('a')});
  EXPECT_TRUE(t.is_end(kLines) && t.is_end(0));
}

TEST(LongestMatch, EveryTextComesBack) {
  const auto made = make_tokenizer(world_spec());
  ASSERT_TRUE(made) << made.error().message;
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
  for (const std::string& text : {all, std::string("it\u2019s \\n 'ab'\t\n\n"), std::string("\xe2\x80")}) {
    std::string bytes;
    for (const Token id : encode(**made, text)) (*made)->append_bytes(id, false, bytes);
    EXPECT_EQ(bytes, text);
  }
  std::string pad;
  (*made)->append_bytes(kPad, false, pad);
  EXPECT_EQ(pad, "[PAD263]");
}

TEST(LongestMatch, AByteWithoutATokenIsUnknownOrVanishes) {
  TokenizerSpec spec;
  spec.model = "rwkv";
  spec.tokens = {"<unk>", "a", "bc"};
  spec.types = {TokenType::unknown, TokenType::normal, TokenType::normal};
  TokenizerSpec with_unknown = spec;
  with_unknown.unk = 0;
  EXPECT_EQ(encode(**make_tokenizer(with_unknown), "abac"), (Ids{1, 0, 1, 0}));
  EXPECT_EQ(encode(**make_tokenizer(spec), "abac"), (Ids{1, 1}));
}

TEST(LongestMatch, ATemplateByNameIsTurnsOfLines) {
  TokenizerSpec spec = world_spec();
  spec.chat_template = "rwkv-world";
  const auto made = make_tokenizer(std::move(spec));
  ASSERT_TRUE(made) << made.error().message;
  const auto turns = ChatTemplate::parse((*made)->spec().chat_template);
  ASSERT_TRUE(turns) << turns.error().message;
  TemplateInput input;
  input.messages = *Json::parse(
      R"([{"role":"system","content":"Be brief."},{"role":"user","content":" Hi\n"},{"role":"assistant","content":"Ho"}])");
  input.add_generation_prompt = true;
  EXPECT_EQ(turns->render(input), "System: Be brief.\n\nUser: Hi\n\nAssistant: Ho\n\nAssistant:");
}

TEST(LongestMatch, RefusesBrokenEscapes) {
  for (const char* text : {"\\", "a\\", "\\x", "\\x1", "\\xg0", "\\x0g"}) {
    TokenizerSpec spec = world_spec();
    spec.tokens[258] = text;
    const auto made = make_tokenizer(std::move(spec));
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().code, Code::corrupt);
    EXPECT_NE(made.error().message.find("token 258"), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace quire
