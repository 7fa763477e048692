// What the proposer of grammars drafts: forced text behind the answer so far, nothing where there is a choice.
#include <gtest/gtest.h>

#include "sample/constraint.h"
#include "spec/proposer.h"
#include "text/grammar/regex_grammar.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

// Letters, and some words of them; 0 ends.
const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out = {"</s>"};
    for (char c = 'a'; c <= 'z'; ++c) out.emplace_back(1, c);
    for (const char* word : {"red", "green", "blue", "bl"}) out.emplace_back(word);
    return out;
  }();
  return all;
}

class Words final : public Tokenizer {
 public:
  Words() : Tokenizer(TokenizerSpec{}) {}
  Status encode(std::string_view text, EncodeOptions, std::vector<Token>& out) const override {
    while (!text.empty()) {
      size_t best = texts().size();
      for (size_t i = 1; i < texts().size(); ++i) {
        if (text.starts_with(texts()[i]) && (best == texts().size() || texts()[i].size() > texts()[best].size()))
          best = i;
      }
      if (best == texts().size()) return fail(Code::invalid, "no token begins so");
      out.push_back(static_cast<Token>(best));
      text.remove_prefix(texts()[best].size());
    }
    return {};
  }
  void append_bytes(Token id, bool, std::string& out) const override { out += texts()[static_cast<size_t>(id)]; }
  std::string decode(std::span<const Token>, bool) const override { return ""; }
  bool strips_leading_space() const override { return false; }
};

class GrammarProposer : public ::testing::Test {
 protected:
  GrammarProposer() {
    auto made = Registry<ProposerEntry>::get().find("grammar")->make({8}, {.tokenizer = &words_});
    EXPECT_TRUE(made);
    proposer_ = std::move(*made);
    set("(green|red)blue(red)?");
  }
  void set(std::string_view regex) {
    auto grammar = compile_regex(regex, {});
    EXPECT_TRUE(grammar);
    sampling_.constraint = std::make_shared<const Constraint>(Constraint{"", "regex", *grammar, vocabulary_});
  }
  // Of a prompt of two tokens and this answer.
  std::string draft(SeqId seq, std::string_view answer, int most = 8) {
    std::vector<Token> context = {1, 2};
    EXPECT_TRUE(words_.encode(answer, {}, context));
    Draft draft;
    draft.seq = seq;
    draft.context = context;
    draft.n_prompt = 2;
    draft.max_tokens = most;
    draft.sampling = &sampling_;
    const int n = proposer_->most(draft);
    proposer_->propose(std::span(&draft, 1));
    EXPECT_EQ(static_cast<size_t>(n), draft.tokens.size());
    std::string out;
    for (const Token id : draft.tokens) out += "[" + texts()[static_cast<size_t>(id)] + "]";
    return out;
  }

  const Words words_;
  const std::shared_ptr<const TokenTrie> vocabulary_ =
      std::make_shared<const TokenTrie>(texts(), std::vector<Token>{0}, texts().size());
  SamplingParams sampling_;
  std::unique_ptr<Proposer> proposer_;
};

TEST_F(GrammarProposer, DraftsWhatIsForcedBehindTheAnswer) {
  EXPECT_EQ(draft(1, ""), "");
  EXPECT_EQ(draft(1, "g"), "[r][e][e][n][blue]");
  EXPECT_EQ(draft(1, "gr", 3), "[e][e][n]");
  EXPECT_EQ(draft(1, "gre"), "[e][n][blue]") << "more than was looked for before";
  EXPECT_EQ(draft(3, "greenblue"), "") << "the end may come";
  EXPECT_EQ(draft(4, "greenbluer"), "[e][d]");
  EXPECT_EQ(draft(2, "red"), "[blue]") << "another sequence knows nothing of it";
}

TEST_F(GrammarProposer, WithoutAGrammarThereIsNothing) {
  sampling_.constraint = nullptr;
  EXPECT_EQ(draft(1, "green"), "");
  sampling_.constraint = std::make_shared<const Constraint>();
  EXPECT_EQ(draft(2, "green"), "") << "read from a recording and not compiled";
}

TEST_F(GrammarProposer, AnAnswerOfAnotherGrammarIsGivenUp) {
  EXPECT_EQ(draft(1, "yellow"), "");
  EXPECT_EQ(draft(1, "g"), "");
  proposer_->forget(1);
  EXPECT_EQ(draft(1, "g"), "[r][e][e][n][blue]");
}

}  // namespace
}  // namespace quire
