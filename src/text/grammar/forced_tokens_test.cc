// What is forced, cut into tokens: what the definition says on a vocabulary that can be read at a glance, and on real
// ones over real schemas that the cut is the one of the whole text.
#include "text/grammar/forced_tokens.h"

#include <gtest/gtest.h>

#include "text/grammar/composer.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/source.h"
#include "text/test_support.h"

namespace quire {
namespace {

const Tokenizer* real_tokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = [] {
    const auto path = shared_dir() / "tokenizers" / "gguf-vocab" / "ggml-vocab-llama-bpe.gguf";
    return std::filesystem::exists(path) ? load_gguf_tokenizer(path) : nullptr;
  }();
  return tokenizer.get();
}

std::shared_ptr<const TokenTrie> real_vocabulary() {
  static const auto trie = TokenTrie::of(*real_tokenizer(), static_cast<size_t>(real_tokenizer()->n_vocab()));
  return trie;
}

#define QR_NEED_TOKENIZER() \
  if (real_tokenizer() == nullptr) GTEST_SKIP() << "no test data: ggml-vocab-llama-bpe.gguf"

struct Answer {
  explicit Answer(Result<std::shared_ptr<const Grammar>> grammar) : matcher(grammar.value(), real_vocabulary()) {}

  void say(std::string_view text) {
    for (const Token id : encode(*real_tokenizer(), text)) {
      ASSERT_TRUE(matcher.accept(id)) << text;
      said += real_vocabulary()->bytes(id);
    }
  }
  std::vector<std::string> forced(size_t most = 100) {
    const size_t before = matcher.accepted();
    std::vector<std::string> out;
    for (const Token id : forced_tokens(matcher, *real_vocabulary(), *real_tokenizer(), said, most)) {
      out.push_back(real_tokenizer()->spec().tokens[static_cast<size_t>(id)].starts_with("<|")
                        ? "control"
                        : real_vocabulary()->bytes(id));
    }
    EXPECT_EQ(matcher.accepted(), before);
    return out;
  }

  Matcher matcher;
  std::string said;
};

using Texts = std::vector<std::string>;

std::string joined(const Texts& texts) {
  std::string out;
  for (const std::string& text : texts) out += text;
  return out;
}

TEST(ForcedTokens, AreTheTokenizersOwnCut) {
  QR_NEED_TOKENIZER();
  Answer answer(compile_regex("The quick brown (dogs sit|dog sits down), as they do", {}));
  EXPECT_EQ(answer.forced(), (Texts{"The", " quick", " brown"})) << "\" dog\" is forced, and \" dogs\" is a token";
  EXPECT_EQ(answer.forced(2), (Texts{"The", " quick"}));
  answer.say("The quick brown");
  EXPECT_EQ(answer.forced(), Texts{});
  answer.say(" dog");
  EXPECT_EQ(answer.forced(), Texts{});
  answer.say(" sits");
  EXPECT_EQ(answer.forced(), (Texts{" down", ",", " as", " they", " do"})) << "behind which only the end may come";
}

TEST(ForcedTokens, KeysInTheSchemasOrder) {
  QR_NEED_TOKENIZER();
  Answer answer(compile_json_schema(R"({"type":"object","properties":{"temperature":{"type":"integer"},
      "population":{"type":"string"},"end":{"const":"of it"}},"required":["temperature","population","end"],
      "additionalProperties":false})",
                                    {}, {}));
  EXPECT_EQ(answer.forced(), Texts{}) << "white space may follow the brace, and there are tokens of it and more";
  answer.say("{\"");
  EXPECT_EQ(joined(answer.forced()), "temperature") << "and a quote, but there is \"\\\":\"";
  answer.say("temperature\": 7, \"");
  EXPECT_EQ(joined(answer.forced()), "population");
  answer.say("population\": \"many\", \"");
  EXPECT_EQ(joined(answer.forced()), "end");
  answer.say("end\": \"");
  EXPECT_EQ(joined(answer.forced()), "of it");
}

TEST(ForcedTokens, HalfACodePointIsHeldBack) {
  QR_NEED_TOKENIZER();
  Answer same(compile_regex("Zoë(é|è)", {}));  // é and è begin with the same byte
  EXPECT_EQ(joined(same.forced()), "Zoë") << "where a token holds of both it is not certain";
  Answer whole(compile_regex("日本語の文字", {}));
  EXPECT_EQ(joined(whole.forced()), "日本語の文字");
  for (const std::string& text : whole.forced()) EXPECT_FALSE(text.empty());
}

TEST(ForcedTokens, ControlTokensToo) {
  QR_NEED_TOKENIZER();
  const GrammarSource source{.notation = GrammarSource::Notation::gbnf,
                             .text = "root ::= \"hello\" <[128009]> \"world\" (\"!\" | \"?\")"};
  Answer answer(compile_grammar(source, *real_tokenizer(), {}));
  EXPECT_EQ(answer.forced(), (Texts{"hello", "control", "world"}));
}

TEST(ForcedTokens, NothingWhereThereIsAChoiceOrTheEnd) {
  QR_NEED_TOKENIZER();
  EXPECT_EQ(Answer(compile_regex("(a|b)cde", {})).forced(), Texts{});
  EXPECT_EQ(Answer(compile_regex("(abc)?", {})).forced(), Texts{}) << "the end may come";
  Answer over(compile_regex("abc", {}));
  over.say("abc");
  EXPECT_EQ(over.forced(), Texts{});
}

TEST(ForcedTokens, WhatIsForcedForEverIsBounded) {
  QR_NEED_TOKENIZER();
  Answer answer(compile_regex("(abc ){1000000}", {}));
  EXPECT_EQ(answer.forced(40).size(), 40);
  EXPECT_LE(joined(answer.forced(100'000)).size(), 64 * kForcedBytes);
}

// JSON with a space behind each colon and comma, as grammars write it.
std::string spaced(const std::string& json) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    out += json[i];
    if (json[i] == '\\')
      out += json[++i];
    else if (json[i] == '"')
      in_string = !in_string;
    else if (!in_string && (json[i] == ':' || json[i] == ','))
      out += ' ';
  }
  return out;
}

// Every valid document of real schemas, as the tokenizer cuts it: what is forced is what comes.
TEST(ForcedTokens, AreRightOnRealSchemas) {
  QR_NEED_TOKENIZER();
  for (const char* set : {"Glaiveai2K", "Github_trivial"}) {
    const auto path = shared_dir() / "json-schema" / ("maskbench-" + std::string(set) + ".jsonl");
    QR_NEED_FILE(path);
    std::istringstream lines(read_file(path));
    int64_t n_tokens = 0, n_drafted = 0, n_right = 0, n_documents = 0, i = 0;
    for (std::string line; std::getline(lines, line); ++i) {
      if (i % 10 != 0) continue;
      const auto file = Json::parse(line);
      const Json* schema = file ? file->find("schema") : nullptr;
      if (schema == nullptr) continue;
      auto grammar = compile_json_schema(schema->dump(), {}, {});
      if (!grammar) continue;
      for (const Json& test : *file->find("tests")->as_array()) {
        Matcher matcher(*grammar, real_vocabulary());
        const std::string text = spaced(test.find("data")->dump());
        if (!matcher.accept_text(text) || !matcher.may_end()) continue;
        matcher.rollback(1);
        ++n_documents;
        const std::vector<Token> ids = encode(*real_tokenizer(), text);
        std::string before;
        for (size_t at = 0; at < ids.size(); ++at) {
          ++n_tokens;
          const auto forced = forced_tokens(matcher, *real_vocabulary(), *real_tokenizer(), before, 8);
          n_drafted += static_cast<int64_t>(forced.size());
          for (size_t k = 0; k < forced.size() && at + k < ids.size() && forced[k] == ids[at + k]; ++k) ++n_right;
          ASSERT_TRUE(matcher.accept(ids[at]));
          before += real_vocabulary()->bytes(ids[at]);
          if (before.size() > 48) before.erase(0, before.size() - real_vocabulary()->bytes(ids[at]).size());
        }
      }
    }
    std::cout << set << ": " << n_documents << " documents, " << n_tokens << " tokens, " << n_drafted << " guessed, "
              << n_right << " right\n";
    EXPECT_GT(n_drafted, n_tokens / 20);
    EXPECT_GE(n_right * 100, n_drafted * 99);
  }
}

}  // namespace
}  // namespace quire
