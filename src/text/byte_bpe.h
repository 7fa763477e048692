// BPE that starts from bytes: GPT-2 and its children (merges are listed) and tiktoken (merges follow from the ranks).
// Words come cut by a pre-tokenizer, already as plain bytes; most of them are tokens and cost one look-up.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "text/merge.h"
#include "text/subword.h"
#include "text/token_index.h"

namespace quire {

struct ByteBpeSpec {
  std::vector<std::string> tokens;  // bytes of each token
  std::vector<bool> mergeable;      // may be found as a word or be a byte; control tokens are not
  std::vector<MergeRule> rules;
  Token unk = -1;           // for bytes that are no token; -1: such bytes vanish, as in the reference
  bool whole_word = false;  // a word that is a token is that token, whatever the merges say
};

class ByteBpe final : public SubwordModel {
 public:
  explicit ByteBpe(const ByteBpeSpec& spec);
  void encode(std::string_view word, std::vector<Token>& out) const override;

 private:
  void encode_by_merges(std::string_view word, std::vector<Token>& out) const;
  bool encodes_to_itself(Token token) const;

  TokenIndex index_;
  MergeTable merges_;
  std::array<Symbol, 256> bytes_{};
  Token unk_;
  bool whole_word_;
  // Per token: 0 not known yet, 1 merging its bytes gives the token itself, 2 something else. Filled lazily by any
  // thread; every thread computes the same value.
  std::unique_ptr<std::atomic<uint8_t>[]> self_;
};

// The merges that ranks imply: two tokens merge when their concatenation is a token, in the order of its id's rank.
// `ranks` by id, Merge::kNever: no merge makes this token.
std::vector<MergeRule> rules_from_ranks(const TokenIndex& index, const std::vector<uint32_t>& ranks);

}  // namespace quire
