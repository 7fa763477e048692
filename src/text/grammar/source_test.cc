#include "text/grammar/source.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Notation = GrammarSource::Notation;
using Kind = ReasoningForm::Kind;

// Bytes, and a few control tokens.
std::unique_ptr<Tokenizer> tokenizer(std::vector<std::string> controls) {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>"};
  spec.types = {TokenType::unknown, TokenType::control, TokenType::control};
  for (int b = 0; b < 256; ++b) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    spec.tokens.push_back(std::string("<0x") + kHex[b >> 4] + kHex[b & 15] + ">");
    spec.types.push_back(TokenType::byte);
  }
  for (std::string& text : controls) {
    spec.tokens.push_back(std::move(text));
    spec.types.push_back(TokenType::control);
  }
  spec.scores.assign(spec.tokens.size(), -1.0F);
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  spec.add_space_prefix = false;
  auto made = make_tokenizer(std::move(spec));
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return std::move(*made);
}

class Answers {
 public:
  explicit Answers(const GrammarSource& source, std::vector<std::string> controls = {})
      : tokenizer_(tokenizer(std::move(controls))), trie_(TokenTrie::of(*tokenizer_, 0)) {
    auto made = compile_grammar(source, *tokenizer_, {});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    grammar_ = made ? *made : nullptr;
  }
  // Whether `text`, with control tokens by their names, is a whole answer.
  bool take(std::string_view text) const {
    std::vector<Token> ids;
    EXPECT_TRUE(tokenizer_->encode(text, {.parse_special = true}, ids));
    Matcher matcher(grammar_, trie_);
    for (const Token id : ids) {
      if (!matcher.accept(id)) return false;
    }
    return matcher.may_end();
  }
  // The same of its bytes.
  bool take_text(std::string_view text) const {
    Matcher matcher(grammar_, trie_);
    return matcher.accept_text(text) && matcher.may_end();
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::shared_ptr<const TokenTrie> trie_;
  std::shared_ptr<const Grammar> grammar_;
};

TEST(GrammarSource, EveryNotationIsCompiled) {
  EXPECT_TRUE(Answers({Notation::json_object}).take(R"({"a":[1]})"));
  EXPECT_FALSE(Answers({Notation::json_object}).take("[1]"));
  EXPECT_TRUE(Answers({Notation::json_schema, R"({"type":"integer"})"}).take("12"));
  EXPECT_TRUE(Answers({Notation::regex, "a+b"}).take("aab"));
  EXPECT_FALSE(Answers({Notation::regex, "a+b"}).take("aabb"));
  EXPECT_TRUE(Answers({Notation::choice, R"(["yes","no\n"])"}).take("no\n"));
  EXPECT_FALSE(Answers({Notation::choice, R"(["yes","no\n"])"}).take("no"));
  EXPECT_TRUE(Answers({Notation::gbnf, R"(root ::= "x" [0-9]+)"}).take("x12"));
  EXPECT_TRUE(Answers({Notation::ebnf, "root ::= 'x' | 'y'"}).take("y"));
  EXPECT_TRUE(Answers({Notation::lark, "start: \"x\" NUMBER\n%import common.NUMBER"}).take("x12"));
  const Answers tag({Notation::structural_tag, R"({"format":{"type":"tag","begin":"<call>","content":
      {"type":"regex","pattern":"a*"},"end":"</call>"}})"},
                    {"<call>"});
  EXPECT_TRUE(tag.take("<call>aa</call>"));
}

TEST(GrammarSource, ReasoningComesFirst) {
  const GrammarSource open{Notation::json_schema, R"({"type":"integer"})", Kind::think, true};
  EXPECT_TRUE(Answers(open).take("Well, 3 < 4.</think>\n\n12"));
  EXPECT_FALSE(Answers(open).take("12")) << "all of it is reasoning";
  GrammarSource may = open;
  may.reasoning_open = false;
  EXPECT_TRUE(Answers(may).take("12"));
  EXPECT_TRUE(Answers(may).take("<think>hm</think>12"));
  EXPECT_TRUE(Answers(may, {"<think>", "</think>"}).take("<think>hm</think>\n\n12"));
  EXPECT_FALSE(Answers(may, {"<think>", "</think>"}).take("<think>hm</think>\n\nx"));
  EXPECT_FALSE(Answers(may).take("<think>12"));
}

TEST(GrammarSource, MiniMaxMayBeginBehindItsThoughts) {
  const Answers answers({Notation::choice, R"(["yes","no"])", Kind::minimax});
  for (const char* text : {"no", "</mm:think>no", "<mm:think>hm</mm:think>yes"})
    EXPECT_TRUE(answers.take(text)) << text;
  EXPECT_FALSE(answers.take("</mm:think></mm:think>no"));
  EXPECT_FALSE(Answers({Notation::choice, R"(["yes"])", Kind::think}).take("</think>yes"));
}

TEST(GrammarSource, ChannelsBeforeTheLastAreReasoning) {
  const GrammarSource source{Notation::choice, R"(["yes","no"])", Kind::channels};
  const Answers answers(source, {"<|channel|>", "<|message|>", "<|end|>", "<|start|>"});
  EXPECT_TRUE(answers.take("<|channel|>final<|message|>no"));
  EXPECT_TRUE(
      answers.take("<|channel|>analysis<|message|>so so<|end|><|start|>assistant<|channel|>final<|message|>yes"));
  EXPECT_FALSE(answers.take("<|channel|>final<|message|>so"));
  EXPECT_FALSE(answers.take("no"));
}

TEST(GrammarSource, CommandRMarksThoughtsAndAnswer) {
  const GrammarSource source{Notation::choice, R"(["yes","no"])", Kind::command};
  const Answers answers(source, {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"});
  EXPECT_TRUE(answers.take("no"));
  EXPECT_TRUE(answers.take("<|START_RESPONSE|>no<|END_RESPONSE|>"));
  EXPECT_TRUE(answers.take("<|START_THINKING|>so so<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>"));
  EXPECT_FALSE(answers.take("<|START_RESPONSE|>so<|END_RESPONSE|>"));
  GrammarSource over = source;
  over.reasoning_over = true;
  const Answers at_once(over, {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"});
  EXPECT_TRUE(at_once.take("no"));
  EXPECT_TRUE(at_once.take("<|START_RESPONSE|>no<|END_RESPONSE|>"));
  EXPECT_FALSE(at_once.take("<|START_THINKING|>so so<|END_THINKING|>no"));
}

TEST(GrammarSource, MuseWritesToItselfFirst) {
  const Answers answers({Notation::choice, R"(["yes","no"])", Kind::muse});
  const std::string thought = " to=self<|message|>so so<|eom|><|start|>assistant", said = " to=user<|message|>";
  for (const std::string& text : {said + "no", thought + said + "yes", thought + thought + said + "no"})
    EXPECT_TRUE(answers.take_text(text)) << text;
  for (const std::string& text : {std::string("no"), thought + "no", said + "so", thought})
    EXPECT_FALSE(answers.take_text(text)) << text;
}

TEST(GrammarSource, KimiAnswersInSections) {
  const GrammarSource open{Notation::choice, R"(["yes","no"])", Kind::kimi, true};
  for (const auto& controls : {std::vector<std::string>{}, {"<|open|>", "<|close|>", "<|sep|>"}}) {
    const Answers answers(open, controls);
    const std::string thought = "so so<|close|>think<|sep|>", begin = thought + "<|open|>response<|sep|>";
    for (const std::string& text : {thought + "no", begin + "no", begin + "yes<|close|>response<|sep|>",
                                    begin + "yes<|close|>response<|sep|><|close|>message<|sep|>"})
      EXPECT_TRUE(answers.take(text)) << text;
    for (const std::string& text : {begin + "so", begin + "<|close|>response<|sep|>yes", std::string("yes")})
      EXPECT_FALSE(answers.take(text)) << text;
  }
}

TEST(GrammarSource, GemmaThinksInAChannel) {
  const GrammarSource may{Notation::choice, R"(["yes","no"])", Kind::gemma};
  for (const auto& controls : {std::vector<std::string>{}, {"<|channel>", "<channel|>"}}) {
    EXPECT_TRUE(Answers(may, controls).take("no"));
    EXPECT_TRUE(Answers(may, controls).take("<|channel>thought\nso so\n<channel|>no"));
    EXPECT_FALSE(Answers(may, controls).take("<|channel>thought\nno"));
  }
}

TEST(GrammarSource, ErrorsNameNotationAndPlace) {
  const auto error = [](Notation notation, std::string text) {
    const auto t = tokenizer({});
    const auto made = compile_grammar({notation, std::move(text)}, *t, {});
    return made ? "compiled" : made.error().message;
  };
  EXPECT_EQ(error(Notation::json_schema, R"({"properties":{"a":{"type":5}}})").substr(0, 35),
            "json_schema: #/properties/a/type: m");
  EXPECT_EQ(error(Notation::json_schema, "false"), "json_schema: #: grammar: nothing can match it");
  EXPECT_EQ(error(Notation::choice, R"(["a",3])"), "choice: #/1: must be a string");
  EXPECT_EQ(error(Notation::choice, "[]"), "choice: must be a list of strings that is not empty");
  EXPECT_EQ(error(Notation::regex, std::string(size_t{300} << 10, 'a')), "regex: 307200 bytes, the limit is 262144");
  EXPECT_NE(error(Notation::regex, "(a"), "compiled");
  EXPECT_NE(error(Notation::structural_tag, "{}"), "compiled");
}

TEST(GrammarSource, WhatIsWrittenIsRead) {
  for (const Notation notation : {Notation::json_object, Notation::lark, Notation::structural_tag}) {
    for (const Kind kind :
         {Kind::none, Kind::think, Kind::channels, Kind::command, Kind::gemma, Kind::kimi, Kind::muse}) {
      for (const auto& [open, over] : {std::pair{false, false}, {true, false}, {false, true}}) {
        const GrammarSource source{notation, "a\nb open\n", kind, open, over};
        const auto back = GrammarSource::read(source.written());
        ASSERT_TRUE(back);
        EXPECT_EQ(back->written(), source.written());
        EXPECT_EQ(back->text, source.text);
        EXPECT_EQ(back->reasoning_open, open);
        EXPECT_EQ(back->reasoning_over, over);
      }
    }
  }
  for (const char* bad : {"", "\n", "regex\n", "regex none", "regex some\n", "rex none\n", "regex none x\n"})
    EXPECT_FALSE(GrammarSource::read(bad)) << bad;
}

}  // namespace
}  // namespace quire
