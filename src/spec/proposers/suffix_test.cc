// What the suffix proposer drafts, against looking through everything every time, and what it keeps of answers.
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "spec/proposer.h"

namespace quire {
namespace {

using Tokens = std::vector<Token>;

std::unique_ptr<Proposer> make_suffix(int max_draft) {
  auto made = Registry<ProposerEntry>::get().find("suffix")->make({max_draft}, {});
  EXPECT_TRUE(made);
  return std::move(*made);
}

struct Asked {
  SeqId id = 1;
  uint64_t salt = 0;
  int n_prompt = 0;
};

Draft asking(const Tokens& context, int max_tokens, Asked who) {
  Draft draft;
  draft.seq = who.id;
  draft.salt = who.salt;
  draft.n_prompt = who.n_prompt;
  draft.context = context;
  draft.max_tokens = max_tokens;
  return draft;
}

Tokens draft_of(Proposer& proposer, const Tokens& context, int max_tokens, Asked who = {}) {
  Draft draft = asking(context, max_tokens, who);
  proposer.propose(std::span(&draft, 1));
  return draft.tokens;
}

// How many of the last tokens before `end` are the context's last, 32 at most.
size_t agreed(const Tokens& context, size_t end) {
  size_t n = 0;
  while (n < 32 && n < end && context[end - 1 - n] == context[context.size() - 1 - n]) ++n;
  return n;
}

// The definition, of one text: places that agree longest or in 8 tokens; what most of those have that agreed so far, as
// long as three in ten of all do, in twice as many tokens as the longest agrees in.
Tokens by_definition(const Tokens& context, size_t max_tokens) {
  size_t longest = 0;
  for (size_t end = 3; end < context.size(); ++end) longest = std::max(longest, agreed(context, end));
  if (longest < 3) return {};
  std::vector<size_t> places;  // the latest first
  for (size_t end = context.size() - 1; end >= 3; --end) {
    if (agreed(context, end) >= std::min<size_t>(longest, 8)) places.push_back(end);
  }
  Tokens all = context;
  const double n_all = static_cast<double>(places.size());
  while (all.size() < context.size() + std::min(max_tokens, 2 * longest)) {
    std::map<Token, int> votes;
    for (const size_t at : places) ++votes[all[at]];
    Token best = all[places[0]];
    for (const size_t at : places) best = votes[all[at]] > votes[best] ? all[at] : best;
    if (votes[best] < 0.3 * n_all) break;
    std::erase_if(places, [&](size_t at) { return all[at] != best; });
    for (size_t& at : places) ++at;
    all.push_back(best);
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(context.size()), all.end()};
}

TEST(Suffix, DraftsWhatMostPlacesHave) {
  const auto proposer = make_suffix(16);
  EXPECT_EQ(draft_of(*proposer, {5}, 8, {1}), Tokens());
  EXPECT_EQ(draft_of(*proposer, {1, 2, 3, 7, 8, 1, 2, 3, 7, 9, 1, 2, 3, 4, 1, 2, 3}, 1, {2}), (Tokens{7}));
  EXPECT_EQ(draft_of(*proposer, {1, 2, 3, 7, 0, 1, 2, 3, 4, 0, 1, 2, 3}, 1, {3}), (Tokens{4})) << "the latest of two";
  EXPECT_EQ(draft_of(*proposer, {6, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, 16, {4}), (Tokens{4, 5, 6, 7, 8, 9}))
      << "twice what led to it";
  EXPECT_EQ(draft_of(*proposer, {1, 2, 3, 1, 2, 3}, 7, {5}), (Tokens{1, 2, 3, 1, 2, 3})) << "round and round";
}

TEST(Suffix, IsItsDefinitionHoweverTheContextGrows) {
  int n_drafts = 0, n_short = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    const auto proposer = make_suffix(12);
    Tokens context;
    const int n_ids = 6 + static_cast<int>(seed % 6);
    while (context.size() < 300) {
      const bool again = context.size() > 30 && rng.between(0, 3) == 0;
      const auto from = static_cast<size_t>(again ? rng.between(0, 20) : 0);
      for (int64_t n = 0; n < rng.between(1, 12); ++n) {
        context.push_back(again ? context[from + static_cast<size_t>(n)] : static_cast<Token>(rng.between(0, n_ids)));
      }
      const auto most = static_cast<int>(rng.between(1, 12));
      Draft asked = asking(context, most, {});
      const Tokens draft = draft_of(*proposer, context, most);
      ASSERT_EQ(draft, by_definition(context, static_cast<size_t>(most)))
          << "seed " << seed << " at " << context.size();
      ASSERT_EQ(proposer->most(asked), static_cast<int>(draft.size()));
      n_drafts += draft.empty() ? 0 : 1;
      n_short += !draft.empty() && static_cast<int>(draft.size()) < most ? 1 : 0;
    }
  }
  EXPECT_GT(n_drafts, 300);
  EXPECT_GT(n_short, 30);
}

TEST(Suffix, KnowsEarlierAnswersUnderTheSameSaltAlone) {
  const auto proposer = make_suffix(16);
  const Tokens answered{50, 51, 52, 1, 2, 3, 4, 5, 6, 7};
  draft_of(*proposer, answered, 8, {.id = 1, .salt = 7, .n_prompt = 3});
  EXPECT_EQ(draft_of(*proposer, {60, 1, 2, 3}, 8, {.id = 2, .salt = 7}), Tokens()) << "it has not ended";
  proposer->forget(1);
  EXPECT_EQ(draft_of(*proposer, {60, 1, 2, 3}, 8, {.id = 2, .salt = 7}), (Tokens{4, 5, 6, 7})) << "to its end";
  EXPECT_EQ(draft_of(*proposer, {60, 1, 2, 3}, 8, {.id = 3, .salt = 8}), Tokens());
  EXPECT_EQ(draft_of(*proposer, {50, 51, 52}, 3, {.id = 4, .salt = 7}), (Tokens{1, 2, 3})) << "from its prompt's end";
  EXPECT_EQ(draft_of(*proposer, {5, 6, 7}, 3, {.id = 5, .salt = 7}), Tokens()) << "no answer follows another";
}

TEST(Suffix, APromptThatWasNotAnsweredIsForgotten) {
  const auto proposer = make_suffix(8);
  draft_of(*proposer, {1, 2, 3, 4, 5}, 8, {.id = 1, .n_prompt = 5});
  proposer->forget(1);
  EXPECT_EQ(draft_of(*proposer, {1, 2, 3}, 8, {.id = 2}), Tokens());
}

TEST(Suffix, OfSixteenSaltsAnswersAreKept) {
  const auto proposer = make_suffix(8);
  for (uint64_t salt = 1; salt <= 17; ++salt) {
    draft_of(*proposer, {1, 2, 3, static_cast<Token>(100 + salt)}, 8, {.id = salt, .salt = salt});
    proposer->forget(salt);
    EXPECT_EQ(draft_of(*proposer, {1, 2, 3}, 8, {.id = 100 + salt, .salt = 1}), (Tokens{101}))
        << "asked of all the time";
  }
  EXPECT_EQ(draft_of(*proposer, {1, 2, 3}, 8, {.id = 200, .salt = 2}), Tokens()) << "not asked of for longest";
  EXPECT_EQ(draft_of(*proposer, {1, 2, 3}, 8, {.id = 201, .salt = 3}), (Tokens{103}));
}

TEST(Suffix, TheLatestAnswersAreKept) {
  const auto proposer = make_suffix(8);
  Rng rng(1);
  SeqId id = 0;
  for (Token i = 0; i < 40; ++i) {
    Tokens answer{1000 + i, 2000 + i, 3000 + i, 4000 + i};
    while (answer.size() < 4000) answer.push_back(static_cast<Token>(rng.between(0, 900)));
    draft_of(*proposer, answer, 1, {.id = ++id});
    proposer->forget(id);
  }
  for (Token i = 0; i < 40; ++i) {
    const Tokens found = draft_of(*proposer, {1000 + i, 2000 + i, 3000 + i}, 1, {.id = ++id});
    EXPECT_EQ(found, i < 24 ? Tokens() : Tokens{4000 + i}) << i;  // 65,536 tokens are 16.4 of these
  }
}

// Tokens that somebody chose: all alike, and never the same run.
TEST(Suffix, NobodyCanMakeItSlow) {
  const auto proposer = make_suffix(4);
  Tokens same, other;
  for (Token id = 0; id < 3000; ++id) {
    same.push_back(7);
    other.push_back(id);
    const Tokens draft = draft_of(*proposer, same, 4, {.id = 1});
    ASSERT_EQ(draft.size(), id < 3 ? 0 : 4) << id;
    ASSERT_TRUE(draft_of(*proposer, other, 4, {.id = 2}).empty());
  }
}

TEST(Suffix, ALongPromptIsTakenInOverSeveralSteps) {
  Tokens context;
  for (Token i = 0; i < 40'000; ++i) context.push_back(i % 20'000);
  const auto proposer = make_suffix(2);
  EXPECT_TRUE(draft_of(*proposer, context, 2).empty());
  EXPECT_TRUE(draft_of(*proposer, context, 2).empty());
  EXPECT_EQ(draft_of(*proposer, context, 2), (Tokens{0, 1}));
}

}  // namespace
}  // namespace quire
