// Real folders' tokenizers as GGUF's tables: the pre-tokenizer's name is found, and other texts than the probe come out
// the same.
#include "text/ggml_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/test_support.h"

namespace quire {
namespace {

using testing::HasSubstr;

struct Case {
  const char* folder;
  const char* model;
  const char* pre;
};

class GgmlTables : public testing::TestWithParam<Case> {};

TEST_P(GgmlTables, SayTheSame) {
  const auto path = shared_dir() / "tokenizers/hf" / GetParam().folder;
  QR_NEED_FILE(path);
  const auto files = read_tokenizer_files(path.string());
  ASSERT_TRUE(files) << files.error().message;
  const auto known = load_tokenizer(*files);
  ASSERT_TRUE(known) << known.error().message;
  const int n_vocab = (*known)->n_vocab() + 7;  // embeddings are often longer than the vocabulary
  const auto tables = ggml_tables(*files, **known, n_vocab);
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(tables->model, GetParam().model);
  EXPECT_EQ(tables->pre, GetParam().pre);
  ASSERT_EQ(tables->tokens.size(), static_cast<size_t>(n_vocab));
  EXPECT_EQ(tables->tokens.back(), "[PAD" + std::to_string(n_vocab - 1) + "]");
  EXPECT_EQ(tables->types.back(), TokenType::unused);
  const auto made = make_tokenizer(*tables);
  ASSERT_TRUE(made) << made.error().message;
  const auto prompts = shared_dir() / "prompts/mt_bench.jsonl";
  QR_NEED_FILE(prompts);
  const std::string text = read_file(prompts).substr(0, 20000);
  EXPECT_EQ(encode(**made, text, {.add_special = true}), encode(**known, text, {.add_special = true}));
}

INSTANTIATE_TEST_SUITE_P(All,
                         GgmlTables,
                         testing::Values(Case{"llama-3", "gpt2", "llama3"},
                                         Case{"qwen2.5", "gpt2", "qwen2"},
                                         Case{"phi-2", "gpt2", "gpt-2"},
                                         Case{"llama-2", "llama", ""},
                                         Case{"phi-3-mini", "llama", ""}));

TEST(GgmlTablesOf, WhatTheyCannotSayIsSaid) {
  const auto path = shared_dir() / "tokenizers/hf/t5-small";
  QR_NEED_FILE(path);
  const auto files = read_tokenizer_files(path.string());
  const auto known = load_tokenizer(*files);
  ASSERT_TRUE(known);
  EXPECT_THAT(ggml_tables(*files, **known, 40000).error().message, HasSubstr("is no BPE"));
  EXPECT_THAT(ggml_tables(*files, **known, 10).error().message, HasSubstr("tokens, the model 10"));
}

}  // namespace
}  // namespace quire
