#include "app/tokenizer_hash.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace quire {
namespace {

TokenizerSpec some_spec() {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.tokens = {"a", "b", "ab"};
  spec.merges = {"a b"};
  return spec;
}

TEST(TokenizerHash, EveryFieldOfASpecCounts) {
  const std::vector<std::function<void(TokenizerSpec&)>> edits = {
      [](auto&) {},
      [](auto& s) { s.model = "llama"; },
      [](auto& s) { s.pre = "qwen2"; },
      [](auto& s) { s.tokens = {"a", "ba", "b"}; },
      [](auto& s) { s.scores = {0.0F, -1.0F, -2.0F}; },
      [](auto& s) { s.types = {TokenType::normal, TokenType::control, TokenType::normal}; },
      [](auto& s) { s.merges = {"a  b"}; },
      [](auto& s) { s.merges = {"a", " b"}; },
      [](auto& s) { s.bos = 1; },
      [](auto& s) { s.eos = 1; },
      [](auto& s) { s.eot = 1; },
      [](auto& s) { s.unk = 1; },
      [](auto& s) { s.sep = 1; },
      [](auto& s) { s.pad = 1; },
      [](auto& s) { s.cls = 1; },
      [](auto& s) { s.mask = 1; },
      [](auto& s) { s.add_bos = true; },
      [](auto& s) { s.add_eos = true; },
      [](auto& s) { s.bos_by_name = true; },
      [](auto& s) { s.add_space_prefix = false; },
      [](auto& s) { s.remove_extra_whitespaces = true; },
      [](auto& s) { s.precompiled_charsmap = "x"; },
      [](auto& s) { s.unk_surface = "x"; },
      [](auto& s) { s.chat_template = "x"; },
  };
  std::set<Hash128> seen;
  for (size_t i = 0; i < edits.size(); ++i) {
    TokenizerSpec spec = some_spec();
    edits[i](spec);
    EXPECT_TRUE(seen.insert(tokenizer_hash(spec, {})).second) << "edit " << i;
  }
  const Token ends[] = {2};
  EXPECT_TRUE(seen.insert(tokenizer_hash(some_spec(), ends)).second);
}

TEST(TokenizerHash, EveryByteOfAFolderCounts) {
  const TokenizerFiles files = {{"tokenizer.json", "{}"}, {"vocab.json", "[]"}};
  const Hash128 plain = tokenizer_hash(files, {});
  EXPECT_EQ(tokenizer_hash(TokenizerFiles(files), {}), plain);
  EXPECT_NE(tokenizer_hash(TokenizerFiles{{"tokenizer.json", "{ }"}, {"vocab.json", "[]"}}, {}), plain);
  EXPECT_NE(tokenizer_hash(TokenizerFiles{{"tokenizer.json", "{}"}, {"vocab.jsonl", "[]"}}, {}), plain);
  EXPECT_NE(tokenizer_hash(TokenizerFiles{{"tokenizer.json", "{}"}}, {}), plain);
  const Token ends[] = {2};
  EXPECT_NE(tokenizer_hash(files, ends), plain);
}

}  // namespace
}  // namespace quire
