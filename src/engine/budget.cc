#include "engine/budget.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace quire {

PromptBudget::PromptBudget(int kv_budget, int n_prompt, int block_tokens)
    : n_kept_(kept_blocks(kv_budget, n_prompt, block_tokens)), n_prompt_(n_prompt), block_tokens_(block_tokens) {
  if (!bounds()) return;
  QR_CHECK(kv_budget >= least_budget(block_tokens));
  votes_.resize(static_cast<size_t>((n_prompt + block_tokens - 1) / block_tokens));
  order_.reserve(votes_.size());
}

void PromptBudget::forget() { std::ranges::fill(votes_, 0); }

std::span<const int32_t> PromptBudget::choose() {
  const int first_of_window = first_voting() / block_tokens_;
  order_.resize(votes_.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto rank = [&](int32_t b) {
    return b == 0 || b >= first_of_window ? std::numeric_limits<int64_t>::max() : votes_[static_cast<size_t>(b)];
  };
  std::ranges::nth_element(order_, order_.begin() + n_kept_,
                           [&](int32_t a, int32_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
  order_.resize(static_cast<size_t>(n_kept_));
  std::ranges::sort(order_);
  return order_;
}

}  // namespace quire
