// Texts that a head drafts for which goes on from a model's states, as the fixtures in tests/golden have them, and the
// steps in which a proposer is asked. Test code only.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/ref/ref_ops.h"
#include "base/rng.h"
#include "spec/proposer.h"
#include "tests/support/json_file.h"

namespace quire {

inline constexpr int kHeadGuesses = 4;  // of every text

struct HeadText {
  size_t n = 0;  // tokens at first
  std::vector<Token> tokens, first, second;
  std::vector<std::vector<float>> states;
};

inline std::vector<HeadText> read_head_texts(const std::string& folder) {
  const auto tokens_of = [](const Json& list) {
    std::vector<Token> out;
    for (const Json& v : *list.as_array()) out.push_back(static_cast<Token>(*v.as_int()));
    return out;
  };
  const Json json = read_json(folder + "/expected.json");
  std::vector<HeadText> out;
  for (const Json& item : *json.find("texts")->as_array()) {
    HeadText& text = out.emplace_back();
    text.n = static_cast<size_t>(*item.find("n")->as_int());
    text.tokens = tokens_of(*item.find("tokens"));
    text.first = tokens_of(*item.find("first"));
    text.second = tokens_of(*item.find("second"));
    for (const Json& row : *item.find("states")->as_array()) {
      for (auto& state = text.states.emplace_back(); const Json& v : *row.as_array())
        state.push_back(static_cast<float>(v.number()));
    }
  }
  return out;
}

inline std::vector<std::unique_ptr<Ops>> ops_of_all_kinds() {
  std::vector<std::unique_ptr<Ops>> out;
  out.push_back(make_ref_ops());
  for (const std::string& isa : cpu_isas())
    out.push_back(std::move(*make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false})));
  return out;
}

// A step's rows as the target's pass leaves them, and what is asked for behind them.
class HeadStep {
 public:
  explicit HeadStep(Proposer& proposer) : proposer_(proposer) {}
  // The states of positions [begin, end) of a text, whose first `end` + 1 tokens are there.
  void add(SeqId seq, const HeadText& text, size_t begin, size_t end, int n_wanted) {
    for (size_t p = begin; p < end; ++p) {
      const float* from = text.states[p].data();
      for (const StreamTap& tap : proposer_.all_rows()) {
        std::copy_n(from, tap.out.dim(1), tap.out.row<float>(n_rows_));
        from += tap.out.dim(1);
      }
      ++n_rows_;
    }
    Draft& draft = drafts_.emplace_back();
    draft.seq = seq;
    draft.context = std::span(text.tokens).first(end + 1);
    draft.max_tokens = n_wanted;
    draft.n_rows = static_cast<int>(end - begin);
    draft.first_row = n_rows_ - draft.n_rows;
  }
  std::vector<Draft>& propose() {
    proposer_.propose(drafts_);
    return drafts_;
  }

 private:
  Proposer& proposer_;
  std::vector<Draft> drafts_;
  int n_rows_ = 0;
};

// Everybody's first tokens, then the others of some, then of all.
inline void check_drafts(const std::vector<HeadText>& texts, Proposer& proposer, uint64_t seed) {
  Rng rng(seed);
  std::vector<int> wanted(texts.size());
  for (int& n : wanted) n = static_cast<int>(rng.between(1, kHeadGuesses));
  HeadStep first(proposer);
  for (size_t i = 0; i < texts.size(); ++i) first.add(i + 1, texts[i], 0, texts[i].n - 1, wanted[i]);
  std::vector<Draft>& drafts = first.propose();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(drafts[i].tokens, std::vector(texts[i].first.begin(), texts[i].first.begin() + wanted[i]))
        << "text " << i;
    EXPECT_EQ(drafts[i].n_behind, static_cast<int>(texts[i].n) - 2);
  }
  for (const size_t parity : {seed % 2, (seed + 1) % 2}) {
    HeadStep second(proposer);
    std::vector<size_t> which;
    for (size_t i = parity; i < texts.size(); i += 2) {
      which.push_back(i);
      second.add(i + 1, texts[i], texts[i].n - 1, texts[i].tokens.size() - 1, kHeadGuesses);
    }
    std::vector<Draft>& more = second.propose();
    for (size_t k = 0; k < which.size(); ++k) EXPECT_EQ(more[k].tokens, texts[which[k]].second) << "text " << which[k];
  }
  for (size_t i = 0; i < texts.size(); ++i) proposer.forget(i + 1);
}

}  // namespace quire
