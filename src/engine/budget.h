// A bound on what a prompt keeps of the cache (Request::kv_budget). The last rows of the prompt vote for the blocks
// that they look at (ops/votes.h), all layers and heads alike; behind the prompt the sequence keeps the first block,
// those of the voting rows, and of the others those with the most votes, and drops the rest. The votes are of rows that
// are always computed, never found in the cache, and what is kept is a function of them: so of the request alone. What
// is generated is kept as it comes. Source: SnapKV (Li et al., 2024). Engine thread only, once its request was
// submitted.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

inline constexpr int kVotingRows = 32;  // of a prompt, its last; their own blocks are kept whatever the votes

// The least kv_budget: the first block and as many as the voting rows may lie in, in tokens.
constexpr int least_budget(int block_tokens) {
  return (2 + (kVotingRows + block_tokens - 2) / block_tokens) * block_tokens;
}

// Blocks that a prompt of n_prompt tokens keeps of a budget; 0: all.
constexpr int kept_blocks(int kv_budget, int n_prompt, int block_tokens) {
  const int n_most = kv_budget / block_tokens;
  return kv_budget > 0 && (n_prompt + block_tokens - 1) / block_tokens > n_most ? n_most : 0;
}

class PromptBudget {
 public:
  PromptBudget() = default;  // bounds nothing
  // Of a prompt of n_prompt tokens; kv_budget 0: nothing is bounded. REQUIRES least_budget otherwise. Takes all memory
  // that it will need.
  PromptBudget(int kv_budget, int n_prompt, int block_tokens);

  // Whether blocks of the prompt will be dropped: it has more of them than the budget.
  bool bounds() const { return n_kept_ > 0; }
  int n_kept() const { return n_kept_; }  // blocks; 0: all
  int n_prompt() const { return n_prompt_; }
  int n_blocks() const { return static_cast<int>(votes_.size()); }  // of the prompt, where some are dropped
  int first_voting() const { return n_prompt_ - kVotingRows; }

  // By block of the prompt; rows that vote add to them.
  int64_t* votes() { return votes_.data(); }
  // No row has voted: none is computed any more.
  void forget();
  // The blocks that are kept, ascending; of those with as many votes the first. Until the next call.
  std::span<const int32_t> choose();

 private:
  int n_kept_ = 0, n_prompt_ = 0, block_tokens_ = 1;
  std::vector<int64_t> votes_;
  std::vector<int32_t> order_;
};

}  // namespace quire
