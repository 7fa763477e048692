#include "io/tokenizer_meta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "io/gguf_test_file.h"

namespace quire {
namespace {

using testing::HasSubstr;
const std::string kPrefix = "tokenizer.ggml.";

Metadata vocabulary(std::string model, size_t n_tokens) {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < n_tokens; ++i) tokens.push_back("t" + std::to_string(i));
  Metadata meta;
  meta.values[kPrefix + "model"] = std::move(model);
  meta.values[kPrefix + "tokens"] = std::move(tokens);
  return meta;
}

TEST(TokenizerMeta, SentencePieceDefaults) {
  Metadata meta = vocabulary("llama", 10);
  const auto spec = read_tokenizer(meta);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->bos, 1);
  EXPECT_EQ(spec->eos, 2);
  EXPECT_EQ(spec->unk, 0);
  EXPECT_EQ(spec->pad, -1);
  EXPECT_EQ(spec->eot, -1);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_FALSE(spec->add_eos);
  EXPECT_TRUE(spec->add_space_prefix);
  EXPECT_EQ(meta.find(kPrefix + "tokens"), nullptr);  // moved
}

TEST(TokenizerMeta, ByteLevelDefaultsFollowThePreTokenizer) {
  Metadata plain = vocabulary("gpt2", 10);
  const auto gpt2 = read_tokenizer(plain);
  ASSERT_TRUE(gpt2);
  EXPECT_EQ(gpt2->bos, -1);
  EXPECT_EQ(gpt2->eos, -1);
  EXPECT_FALSE(gpt2->add_bos);
  EXPECT_TRUE(gpt2->bos_by_name);
  EXPECT_FALSE(gpt2->add_space_prefix);
  Metadata llama3 = vocabulary("gpt2", 10);
  llama3.values[kPrefix + "pre"] = std::string("llama-bpe");
  EXPECT_TRUE(read_tokenizer(llama3)->bos_by_name);
  Metadata silent = vocabulary("gpt2", 10);
  silent.values[kPrefix + "pre"] = std::string("llama-bpe");
  silent.values[kPrefix + "add_bos_token"] = false;
  const auto told = read_tokenizer(silent);
  EXPECT_FALSE(told->add_bos || told->bos_by_name);
}

TEST(TokenizerMeta, UnigramAndWordPieceDefaults) {
  Metadata t5 = vocabulary("t5", 10);
  const auto unigram = read_tokenizer(t5);
  ASSERT_TRUE(unigram);
  EXPECT_EQ(unigram->eos, 1);
  EXPECT_EQ(unigram->unk, 2);
  EXPECT_EQ(unigram->pad, 0);
  EXPECT_TRUE(unigram->add_eos);
  EXPECT_FALSE(unigram->add_bos);
  Metadata bert = vocabulary("bert", 200);
  const auto pieces = read_tokenizer(bert);
  ASSERT_TRUE(pieces);
  EXPECT_EQ(pieces->cls, 101);
  EXPECT_EQ(pieces->sep, 102);
  EXPECT_EQ(pieces->unk, 100);
  EXPECT_EQ(pieces->mask, 103);
  Metadata small = vocabulary("bert", 50);  // the defaults lie outside
  EXPECT_EQ(read_tokenizer(small)->cls, -1);
  EXPECT_EQ(read_tokenizer(small).error().code, Code::not_found);  // its tokens were moved out above
}

TEST(TokenizerMeta, IdsAreTakenAndNoneIsNone) {
  Metadata meta = vocabulary("llama", 10);
  meta.values[kPrefix + "bos_token_id"] = int64_t{5};
  meta.values[kPrefix + "eos_token_id"] = int64_t{9};
  meta.values[kPrefix + "unknown_token_id"] = int64_t{-1};
  meta.values[kPrefix + "seperator_token_id"] = int64_t{4294967295};
  meta.values[kPrefix + "padding_token_id"] = int64_t{0};
  meta.values[kPrefix + "eot_token_id"] = int64_t{3};
  const auto spec = read_tokenizer(meta);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->bos, 5);
  EXPECT_EQ(spec->eos, 9);
  EXPECT_EQ(spec->unk, -1);
  EXPECT_EQ(spec->sep, -1);
  EXPECT_EQ(spec->pad, 0);
  EXPECT_EQ(spec->eot, 3);
}

TEST(TokenizerMeta, FindsTheEndOfTurnByItsSpelling) {
  const auto eot_of = [](std::vector<std::string> tokens) {
    Metadata meta = vocabulary("gpt2", 1);
    meta.values[kPrefix + "tokens"] = std::move(tokens);
    return read_tokenizer(meta)->eot;
  };
  EXPECT_EQ(eot_of({"a", "<|im_end|>", "<|eot_id|>"}), 2);  // by preference, not by place
  EXPECT_EQ(eot_of({"a", "<|end|>"}), 1);
  EXPECT_EQ(eot_of({"<|return|>", "<|end|>"}), -1);
  EXPECT_EQ(eot_of({"<|return|>", "<|end|>", "<|call|>"}), 2) << "a call ends the turn";
  EXPECT_EQ(eot_of({"<|end|>", "<|call|>"}), 0);
  EXPECT_EQ(eot_of({"a", "b"}), -1);
}

TEST(TokenizerMeta, TablesAreTaken) {
  Metadata meta = vocabulary("t5", 3);
  meta.values[kPrefix + "scores"] = std::vector<double>{0, -1.5, -2};
  meta.values[kPrefix + "token_type"] = std::vector<int64_t>{2, 3, 0};
  meta.values[kPrefix + "merges"] = std::vector<std::string>{"a b", "  b"};
  meta.values[kPrefix + "precompiled_charsmap"] = std::vector<int64_t>{0, 255, -1, 65};
  meta.values["tokenizer.chat_template"] = std::string("{{ x }}");
  meta.values[kPrefix + "remove_extra_whitespaces"] = true;
  const auto spec = read_tokenizer(meta);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->scores, (std::vector<float>{0, -1.5F, -2}));
  EXPECT_EQ(spec->types, (std::vector<TokenType>{TokenType::unknown, TokenType::control, TokenType::unused}));
  EXPECT_EQ(spec->merges.size(), 2U);
  EXPECT_EQ(spec->precompiled_charsmap, std::string("\0\xff\xff\x41", 4));
  EXPECT_EQ(spec->chat_template, "{{ x }}");
  EXPECT_TRUE(spec->remove_extra_whitespaces);
}

TEST(TokenizerMeta, WholeNumbersAreScoresToo) {
  Metadata meta = vocabulary("llama", 2);
  meta.values[kPrefix + "scores"] = std::vector<int64_t>{0, -3};
  EXPECT_EQ(read_tokenizer(meta)->scores, (std::vector<float>{0, -3}));
}

struct BadVocabulary {
  const char* name;
  std::function<void(Metadata&)> spoil;
  const char* message;
};

class BadVocabularies : public testing::TestWithParam<BadVocabulary> {};

TEST_P(BadVocabularies, AreRefusedByKey) {
  Metadata meta = vocabulary("llama", 4);
  GetParam().spoil(meta);
  const auto spec = read_tokenizer(meta);
  ASSERT_FALSE(spec);
  EXPECT_THAT(spec.error().message, HasSubstr(GetParam().message));
}

const BadVocabulary kBad[] = {
    {"no_tokens", [](Metadata& m) { m.values.erase(kPrefix + "tokens"); }, "tokens\": is missing"},
    {"empty", [](Metadata& m) { m.values[kPrefix + "tokens"] = std::vector<std::string>{}; }, "must have 1 to"},
    {"numbers", [](Metadata& m) { m.values[kPrefix + "tokens"] = std::vector<int64_t>{1}; },
     "must be an array of strings"},
    {"model", [](Metadata& m) { m.values[kPrefix + "model"] = int64_t{1}; }, "model\": must be a string, is 1"},
    {"scores_short", [](Metadata& m) { m.values[kPrefix + "scores"] = std::vector<double>(3); },
     "scores\": has 3 elements, there are 4 tokens"},
    {"scores_long", [](Metadata& m) { m.values[kPrefix + "scores"] = std::vector<double>(5); }, "has 5 elements"},
    {"score_nan", [](Metadata& m) { m.values[kPrefix + "scores"] = std::vector<double>{0, 0, std::nan(""), 0}; },
     "the score of token 2 is NaN"},
    {"types_short", [](Metadata& m) { m.values[kPrefix + "token_type"] = std::vector<int64_t>(3); },
     "token_type\": has 3 elements"},
    {"type_7", [](Metadata& m) { m.values[kPrefix + "token_type"] = std::vector<int64_t>{1, 7, 1, 1}; },
     "token 1 has type 7, must be in [0, 6]"},
    {"merge", [](Metadata& m) { m.values[kPrefix + "merges"] = std::vector<std::string>{"a b", "ab"}; },
     "merge 1 \"ab\" is not two pieces"},
    {"merge_empty", [](Metadata& m) { m.values[kPrefix + "merges"] = std::vector<std::string>{""}; },
     "merge 0 \"\" is not two pieces"},
    {"merge_open", [](Metadata& m) { m.values[kPrefix + "merges"] = std::vector<std::string>{"a "}; },
     "is not two pieces"},
    {"charsmap", [](Metadata& m) { m.values[kPrefix + "precompiled_charsmap"] = std::vector<int64_t>{256}; },
     "256 is no byte"},
    {"id_beyond", [](Metadata& m) { m.values[kPrefix + "eos_token_id"] = int64_t{4}; },
     "eos_token_id\": token 4 is not among the 4 tokens"},
    {"id_negative", [](Metadata& m) { m.values[kPrefix + "bos_token_id"] = int64_t{-2}; }, "token -2 is not among"},
    {"id_text", [](Metadata& m) { m.values[kPrefix + "eot_token_id"] = std::string("2"); }, "must be an integer"},
    {"flag", [](Metadata& m) { m.values[kPrefix + "add_bos_token"] = int64_t{1}; },
     "add_bos_token\": must be true or false, is 1"},
    {"template", [](Metadata& m) { m.values["tokenizer.chat_template"] = int64_t{1}; },
     "chat_template\": must be a string"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadVocabularies, testing::ValuesIn(kBad), [](const auto& row) {
  return row.param.name;
});

struct RealVocabulary {
  const char* file;
  const char* model;
  const char* pre;
  size_t n_tokens, n_merges;
  Token bos, eos, eot;
  bool add_bos;
};

class RealVocabularies : public testing::TestWithParam<RealVocabulary> {};

TEST_P(RealVocabularies, OpenWithoutTensors) {
  const RealVocabulary& wanted = GetParam();
  QR_SHARED_OR_SKIP(path, std::string("data/tokenizers/gguf-vocab/ggml-vocab-") + wanted.file + ".gguf");
  const auto file = open_model(path);  // a file without tensors opens either way
  ASSERT_TRUE(file) << file.error().message;
  const auto facts = open_model_metadata(path);
  ASSERT_TRUE(facts);
  ASSERT_TRUE(file->has_tokenizer && facts->has_tokenizer);
  EXPECT_TRUE(file->tensors.empty());
  const TokenizerSpec& spec = file->tokenizer;
  EXPECT_EQ(spec.tokens, facts->tokenizer.tokens);
  EXPECT_EQ(spec.model, wanted.model);
  EXPECT_EQ(spec.pre, wanted.pre);
  EXPECT_EQ(spec.tokens.size(), wanted.n_tokens);
  EXPECT_EQ(spec.types.size(), wanted.n_tokens);
  EXPECT_EQ(spec.merges.size(), wanted.n_merges);
  EXPECT_EQ(spec.bos, wanted.bos);
  EXPECT_EQ(spec.eos, wanted.eos);
  EXPECT_EQ(spec.eot, wanted.eot);
  EXPECT_EQ(spec.add_bos, wanted.add_bos);
}

INSTANTIATE_TEST_SUITE_P(
    Files,
    RealVocabularies,
    testing::Values(RealVocabulary{"llama-spm", "llama", "default", 32000, 0, 1, 2, -1, true},
                    RealVocabulary{"phi-3", "llama", "default", 32064, 0, 1, 32000, 32007, true},
                    RealVocabulary{"llama-bpe", "gpt2", "llama-bpe", 128256, 280147, 128000, 128009, 128009, true},
                    RealVocabulary{"qwen2", "gpt2", "qwen2", 151665, 151387, 151643, 151645, 151645, false},
                    RealVocabulary{"falcon", "gpt2", "falcon", 65024, 64784, 11, 11, -1, false},
                    RealVocabulary{"gpt-2", "gpt2", "gpt-2", 50257, 50000, 50256, 50256, -1, false},
                    RealVocabulary{"starcoder", "gpt2", "starcoder", 49152, 48872, 0, 0, -1, false},
                    RealVocabulary{"deepseek-llm", "gpt2", "deepseek-llm", 102400, 99757, 100000, 100001, -1, true},
                    RealVocabulary{"bert-bge", "bert", "bert-bge", 30522, 0, 101, -1, -1, true}),
    [](const auto& row) {
      std::string name = row.param.file;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace quire
