// Our texts through every vocabulary of the shared data, against what the reference libraries made of them (hashes
// under tests/golden/tokenizers, made by tools/fixtures/make_tokenizer_fixtures.py), and every pre-tokenizer name
// against the reference's regex engine.
#include <gtest/gtest.h>

#include <sstream>

#include "text/golden_tally.h"
#include "text/pretoken_names.h"
#include "text/test_support.h"
#include "text/tokenizer_files.h"

namespace quire {
namespace {

const std::filesystem::path kFixtures = "tests/golden/tokenizers";
constexpr int kShown = 5;  // failures printed in full

std::string fnv(std::string_view bytes) {
  uint64_t h = 0xCBF29CE484222325u;
  for (const char b : bytes) h = (h ^ static_cast<uint8_t>(b)) * 0x100000001B3u;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out.push_back(kHex[h >> shift & 15]);
  return out;
}

std::string hash_ids(const std::vector<Token>& ids) {
  std::string bytes;
  for (const Token id : ids) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(static_cast<uint8_t>(id >> shift)));
  }
  return fnv(bytes);
}

Json read_json(const std::filesystem::path& path) {
  auto json = Json::parse(read_file(path));
  EXPECT_TRUE(json) << path;
  return json ? std::move(*json) : Json(Json::Object{});
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()};
}

std::vector<std::string> inputs() {
  std::vector<std::string> out;
  const Json list = read_json(kFixtures / "inputs.json");
  for (const Json& text : *list.as_array()) out.push_back(*text.as_string());
  return out;
}

class Reference : public testing::TestWithParam<const char*> {};

TEST_P(Reference, MakesTheSameOfEveryText) {
  const Json fixture = read_json(kFixtures / (std::string(GetParam()) + ".json"));
  ASSERT_NE(fixture.find("tokenizer"), nullptr);
  const auto path = shared_dir() / "tokenizers" / *fixture.find("tokenizer")->as_string();
  QR_NEED_FILE(path);
  const auto t = load_tokenizer(path.string());
  ASSERT_TRUE(t) << t.error().message;
  const bool parse_special = std::string_view(GetParam()).starts_with("hf-");
  const std::vector<std::string> texts = inputs();
  const auto ids = words(*fixture.find("ids")->as_string()), decoded = words(*fixture.find("decoded")->as_string());
  ASSERT_EQ(texts.size(), ids.size());
  int n_ids = 0, n_decoded = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Token> got = encode(**t, texts[i], {.parse_special = parse_special});
    const std::string text = (*t)->decode(got, true);
    GoldenTally::get().add("tests/golden/tokenizers: ids", GetParam(), hash_ids(got) == ids[i]);
    GoldenTally::get().add("tests/golden/tokenizers: decoded", GetParam(), fnv(text) == decoded[i]);
    if (hash_ids(got) != ids[i] && ++n_ids <= kShown) {
      ADD_FAILURE() << "text " << i << ": " << texts[i] << "\n gives " << testing::PrintToString(got);
    }
    if (hash_ids(got) == ids[i] && fnv(text) != decoded[i] && ++n_decoded <= kShown) {
      ADD_FAILURE() << "text " << i << ": " << texts[i] << "\n decodes to " << text;
    }
  }
  EXPECT_EQ(n_ids, 0) << "of " << texts.size();
  EXPECT_EQ(n_decoded, 0) << "of " << texts.size();
}

INSTANTIATE_TEST_SUITE_P(All,
                         Reference,
                         testing::Values("hf-gpt-neox-20b",
                                         "hf-llama-2",
                                         "hf-llama-3",
                                         "hf-phi-2",
                                         "hf-phi-3-mini",
                                         "hf-qwen2.5",
                                         "hf-t5-small",
                                         "hf-bert-base-uncased",
                                         "spm-mistral-v1",
                                         "spm-mistral-v3",
                                         "spm-tok105",
                                         "spm-tok512",
                                         "tiktoken-llama-3",
                                         "tiktoken-o200k"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(PreTokenizerNames, CutAsTheReferenceEngineDoes) {
  const Json fixture = read_json(kFixtures / "pre.json");
  const std::vector<std::string> texts = inputs();
  ASSERT_NE(fixture.as_object(), nullptr);
  for (const auto& [name, hashes] : *fixture.as_object()) {
    const auto named = find_pre_tokenizer(name);
    ASSERT_TRUE(named) << name;
    const auto steps = make_pre_tokenizer(**named);
    ASSERT_TRUE(steps) << steps.error().message;
    const std::vector<std::string> want = words(*hashes.as_string());
    int n_wrong = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      PreTokens pieces;
      pieces.text = texts[2 * i];
      if (!pieces.text.empty()) pieces.ranges.push_back({0, pieces.text.size()});
      for (const auto& step : *steps) step->apply(pieces);
      std::string joined;
      for (size_t k = 0; k < pieces.ranges.size(); ++k) {
        if (k > 0) joined.push_back('\0');
        joined += pieces[k];
      }
      GoldenTally::get().add("tests/golden/tokenizers: pre-tokenizer names", name, fnv(joined).starts_with(want[i]));
      if (fnv(joined).substr(0, 8) != want[i] && ++n_wrong <= kShown) ADD_FAILURE() << name << ": " << texts[2 * i];
    }
    EXPECT_EQ(n_wrong, 0) << name << " of " << want.size();
  }
}

TEST(PreTokenizerNames, EveryNameHasPatternsThatCompile) {
  for (const NamedPreTokenizer& named : all_pre_tokenizers()) {
    const auto steps = make_pre_tokenizer(named);
    ASSERT_TRUE(steps) << named.names << ": " << steps.error().message;
    EXPECT_FALSE(steps->empty());
  }
  EXPECT_EQ(find_pre_tokenizer("no such name").error().code, Code::unsupported);
}

}  // namespace
}  // namespace quire
