// What the sequences of a request came to, once all of them are settled. Io thread.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "serve/api.h"
#include "serve/choice.h"

namespace quire {

// Of each prompt's candidates the n with the highest mean logprob, best first; all of them in order where none is left
// out. Moves out of the choices.
std::vector<ChoiceResult> take_results(const Job& job,
                                       std::span<const std::unique_ptr<Choice>> choices,
                                       const Tokenizer& tokenizer);
UsageTotals usage_of(const Job& job, std::span<const std::unique_ptr<Choice>> choices);
int64_t n_prompt_tokens(const Job& job);
// Bytes that a request holds itself until its answer is over: its prompts and its choices.
int64_t own_bytes(const Job& job, size_t n_choices);
// Tokens that another server is said to have told of all choices, and what one takes while the text is found again:
// itself, in lists that grow, and its text.
int64_t told_tokens(const Job& job);
inline constexpr int64_t kToldTokenBytes = 3 * sizeof(TokenText);
// Bytes of its answer's text and tokens that may be held at a time.
int64_t answer_limit(const ServeLimits& limits, const Job& job);

}  // namespace quire
