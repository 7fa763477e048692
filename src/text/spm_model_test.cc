// tokenizer.model by hand: what the reader takes and what it refuses.
#include "text/spm_model.h"

#include <gtest/gtest.h>

#include "text/test_support.h"
#include "text/tiktoken.h"

namespace quire {
namespace {

using Ids = std::vector<Token>;

std::string varint(uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7) out.push_back(static_cast<char>(static_cast<uint8_t>(n | 0x80)));
  out.push_back(static_cast<char>(n));
  return out;
}
std::string bytes_field(uint32_t field, const std::string& bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string number_field(uint32_t field, uint64_t n) { return varint(field << 3) + varint(n); }
std::string float_field(uint32_t field, float f) {
  std::string out = varint(field << 3 | 5);
  return out.append(reinterpret_cast<const char*>(&f), 4);
}
std::string piece(const std::string& text, float score, uint64_t type) {
  return bytes_field(1, bytes_field(1, text) + float_field(2, score) + number_field(3, type));
}

// <unk> <s> </s> ▁ a b ab <tool>
std::string small_model(uint64_t model_type) {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\u2581", -3, 1) + piece("a", -2, 1) +
         piece("b", -2, 1) + piece("ab", -1, 1) + piece("<tool>", 0, 4) + bytes_field(2, number_field(3, model_type)) +
         bytes_field(99, "a field of the future");
}

TEST(SpmModel, ReadsBothKinds) {
  for (const uint64_t type : {uint64_t{1}, uint64_t{2}}) {
    const auto t = make_spm_model(small_model(type), {});
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_EQ(encode(**t, " ab  a", {.add_special = true}), (Ids{1, 3, 6, 3, 4}));
    EXPECT_EQ(encode(**t, "a<tool>b"), (Ids{3, 4, 7, 5}));  // a user-defined symbol, found inside the text
    EXPECT_EQ(encode(**t, "<s>", {.parse_special = true}), (Ids{1}));
    EXPECT_EQ((*t)->decode(Ids{3, 6, 3, 4}, false), "ab a");
  }
}

TEST(SpmModel, TheFolderMaySayTheFrame) {
  const auto t = make_spm_model(small_model(2), {.add_bos = 0, .add_eos = 1, .chat_template = "x"});
  ASSERT_TRUE(t);
  EXPECT_EQ(encode(**t, "a", {.add_special = true}), (Ids{3, 4, 2}));
  EXPECT_EQ((*t)->spec().chat_template, "x");
}

TEST(SpmModel, EveryTruncationIsRefusedOrWhole) {
  const std::string whole = small_model(2);
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto t = make_spm_model(std::string_view(whole).substr(0, n), {});  // never reads beyond (sanitizers)
    EXPECT_TRUE(t || t.error().code == Code::corrupt || t.error().code == Code::unsupported) << n;
  }
}

TEST(SpmModel, BrokenFilesAreRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "tokens is empty"},
      {"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", "beyond the end"},
      {std::string(12, '\xFF'), "more than 64 bits"},
      {"\x0B", "wire type"},
      {piece("a", 0, 9), "piece type 9"},
      {piece("a", std::numeric_limits<float>::quiet_NaN(), 1), "NaN"},
      {piece("<0x41>", 0, 6) + bytes_field(2, number_field(3, 2)), "1 of 256"},
  };
  for (const auto& [file, part] : cases) {
    const auto t = make_spm_model(file, {});
    ASSERT_FALSE(t) << part;
    EXPECT_EQ(t.error().code, Code::corrupt);
    EXPECT_NE(t.error().message.find(part), std::string::npos) << t.error().message;
  }
  EXPECT_EQ(make_spm_model(small_model(3), {}).error().code, Code::unsupported);
}

TEST(Tiktoken, BrokenFilesNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {{"YQ== 0\nYg== x\n", "line 2"}, {"YQ== 0\nYQ\n", "line 2"},
                                                       {"YQ== 0\nYg== 0\n", "twice"},  {"*** 0\n", "base64"},
                                                       {"YQ== 99999999\n", "limit"},   {"YQ== -1\n", "line 1"}};
  for (const auto& [file, part] : cases) {
    const auto t = make_tiktoken(file, {});
    ASSERT_FALSE(t) << file;
    EXPECT_EQ(t.error().code, Code::corrupt) << t.error().message;
    EXPECT_NE(t.error().message.find(part), std::string::npos) << t.error().message;
  }
  EXPECT_EQ(make_tiktoken("YQ== 0\nYg== 1\n", {}).error().code, Code::unsupported);
  EXPECT_TRUE(looks_like_tiktoken("YQ== 0\n"));
  EXPECT_FALSE(looks_like_tiktoken("hello world\n"));
}

}  // namespace
}  // namespace quire
