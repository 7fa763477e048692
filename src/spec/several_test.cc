// Proposers beside each other: who is asked, in which order, and that nothing gets lost where one fails.
#include "spec/several.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace quire {
namespace {

// Guesses its own number for sequences that it divides.
class Numbered final : public Proposer {
 public:
  explicit Numbered(int number) : number_(number) {}
  int max_draft() const override { return 2 + number_; }
  int most(const Draft& draft) override { return draft.seq % static_cast<SeqId>(number_) == 0 ? draft.max_tokens : 0; }
  void propose(std::span<Draft> drafts) override {
    for (Draft& draft : drafts) {
      if (draft.seq == 12) throw std::runtime_error("twelve");
      draft.tokens.assign(static_cast<size_t>(draft.max_tokens), number_);
    }
  }

 private:
  const int number_;
};

template <int kNumber>
Result<std::unique_ptr<Proposer>> make(const ProposerOptions&, const ProposerEnv&) {
  return std::make_unique<Numbered>(kNumber);
}
QR_REGISTER(ProposerEntry, "test_three", {make<3>});
QR_REGISTER(ProposerEntry, "test_two", {make<2>});

// What is drafted for these sequences, those that nobody has anything for left out.
std::vector<Draft> drafts_of(Proposer& proposer, std::vector<SeqId> seqs, int most) {
  std::vector<Draft> out;
  for (const SeqId seq : seqs) {
    Draft draft;
    draft.seq = seq;
    draft.max_tokens = most;
    draft.max_tokens = proposer.most(draft);
    if (draft.max_tokens > 0) out.push_back(std::move(draft));
  }
  proposer.propose(out);
  return out;
}

TEST(Several, TheFirstThatHasSomethingIsAsked) {
  const auto both = make_proposers("test_three,test_two", {8}, {});
  ASSERT_TRUE(both);
  EXPECT_EQ((*both)->max_draft(), 5);
  const std::vector<Draft> drafts = drafts_of(**both, {1, 2, 3, 4, 6, 9}, 3);
  ASSERT_EQ(drafts.size(), 5U);
  const SeqId seqs[] = {2, 3, 4, 6, 9};
  const int by[] = {1, 0, 1, 0, 0};
  for (size_t i = 0; i < drafts.size(); ++i) {
    EXPECT_EQ(drafts[i].seq, seqs[i]);
    EXPECT_EQ(drafts[i].by, by[i]);
    EXPECT_EQ(drafts[i].tokens, std::vector<Token>(3, by[i] == 0 ? 3 : 2));
  }
}

TEST(Several, NobodyIsAskedForMoreThanItDrafts) {
  const auto both = make_proposers("test_three,test_two", {8}, {});
  const std::vector<Draft> drafts = drafts_of(**both, {2, 3}, 9);
  ASSERT_EQ(drafts.size(), 2U);
  EXPECT_EQ(drafts[0].tokens.size(), 4U);
  EXPECT_EQ(drafts[1].tokens.size(), 5U);
}

TEST(Several, WhereOneThrowsAllDraftsComeBack) {
  const auto both = make_proposers("test_three,test_two", {8}, {});
  std::vector<Draft> drafts(3);
  for (size_t i = 0; i < drafts.size(); ++i) {
    drafts[i].seq = 10 + i * 2;  // 12 is three's
    drafts[i].max_tokens = (*both)->most(drafts[i]) > 0 ? 1 : 0;
  }
  EXPECT_THROW((*both)->propose(drafts), std::runtime_error);
  for (size_t i = 0; i < drafts.size(); ++i) EXPECT_EQ(drafts[i].seq, 10 + i * 2);
}

TEST(Several, ListsThatCannotBeAreNamed) {
  const auto error = [](std::string_view list) { return make_proposers(list, {4}, {}).error().message; };
  EXPECT_EQ(
      error("ngram,fast"),
      "proposer \"fast\" is unknown; there are: draft eagle exit grammar medusa mtp ngram suffix test_three test_two");
  EXPECT_EQ(error("ngram,test_two,ngram"), "proposer \"ngram\" is named twice");
  EXPECT_EQ(error("a,b,c,d,e"), "at most 4 proposers, got 5");
  EXPECT_EQ(error("grammar"), "the proposer \"grammar\" needs the model's tokenizer, which is not there");
  EXPECT_EQ(proposer_names(""), std::vector<std::string>());
  EXPECT_EQ(proposer_names("grammar,draft"), (std::vector<std::string>{"grammar", "draft"}));
}

}  // namespace
}  // namespace quire
