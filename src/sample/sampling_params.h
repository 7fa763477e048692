// What a request asks of the sampler. Every value is legal past Api::parse (ranges: serve/sampling_fields.cc).
// Each of its sequences has a copy, so what may be long is shared by the copies.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/shared_list.h"
#include "base/types.h"
#include "ops/ops.h"

namespace quire {

struct Constraint;
struct ThinkingBudget;

// Sources of the meanings: docs/sampling.md. The values here are "off". Of the filters' numbers what no field names is
// the sampler's own.
struct SamplingParams : FilterNumbers {
  int min_keep = 1;
  std::vector<Filter> order{kDefaultOrder.begin(), kDefaultOrder.end()};

  int mirostat = 0;  // 1, 2: this version, in place of the filters that cut
  float mirostat_tau = 5.0F, mirostat_eta = 0.1F;
  float top_p_decay = 1.0F, top_p_min = 1e-6F;
  std::optional<Token> top_p_reset_id;

  float repetition_penalty = 1.0F, presence_penalty = 0.0F, frequency_penalty = 0.0F;
  std::optional<int> repeat_last_n;  // tokens of prompt and answer that the penalties see
  float dry_multiplier = 0.0F, dry_base = 1.75F;
  int dry_allowed_length = 2, dry_last_n = -1;
  SharedList<Token> dry_breakers;  // rising
  int no_repeat_ngram_size = 0;

  SharedList<Edit> logit_bias;
  SharedList<Token> allowed_ids;             // empty: all
  SharedList<uint32_t> allowed_mask;         // of these, as LogitEdits has it; empty: whoever needs it makes its own
  SharedList<std::vector<Token>> bad_words;  // sequences that the answer must not hold, none of them empty
  int min_tokens = 0;
  std::shared_ptr<const Constraint> constraint;    // null: the answer may be anything (sample/constraint.h)
  std::shared_ptr<const ThinkingBudget> thinking;  // null: it may think as long as it likes (sample/thinking_budget.h)

  uint64_t seed = 0;
  int n_logprobs = -1;          // -1: none; n: the chosen token's and the n largest
  bool drawn_logprobs = false;  // these are of the distribution that the token is drawn from, not of the model's own
  int n_prompt_logprobs = -1;   // as n_logprobs, of the prompt's tokens, and always of the model's own
};

// The filter that a list of samplers calls so: "top_k", …; nothing for mirostat, which is not for lists.
std::optional<Filter> find_filter(std::string_view name);

// The op's parameters for the token at `position`: the draws are functions of (seed, position) alone. Views `wanted`.
SampleParams sample_params(const SamplingParams& wanted, int64_t position, const LogitEdits* edits);

}  // namespace quire
