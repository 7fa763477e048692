// The rules that requests name: one file each in rules/, registered by name. A rule knows the sequence's history and
// turns it into edits or numbers; what acts on the distribution alone is a filter (ops/filters.h).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"
#include "sample/logits_rule.h"
#include "sample/sampling_params.h"

namespace quire {

struct RuleContext {
  const SamplingParams& sampling;
  std::span<const Token> prompt;
  std::span<const Token> end_ids;  // what ends the sequence: stop ids, the model's end tokens
  int n_vocab = 0;
};

struct LogitsRuleEntry {
  int rank;  // edits are made in this order, then by name
  // Null where the request asks for nothing of it. The rule keeps what it needs, the long of it shared.
  std::unique_ptr<LogitsRule> (*make)(const RuleContext&);
};

// The rules of a request, in their order.
std::vector<std::unique_ptr<LogitsRule>> make_rules(const RuleContext& context);

// What the error of an answer begins with that ends because of what its own request asks for: what a rule throws that
// cannot go on, and what is said where all rules together forbid everything.
inline constexpr std::string_view kEndedByRules = "the request's own rules end the answer";

// Whether a grammar says what may come: then it decides about ends, min_tokens included.
bool has_grammar(const SamplingParams& sampling);
// The request's fields that may forbid tokens, as errors name them: "response_format, bad_words"; empty: there are
// none.
std::string forbidding_fields(const SamplingParams& sampling);

// Whether the rules of a request forbid every token that could come next; false where only the model knows. Throws what
// they throw.
bool forbid_everything(std::span<const std::unique_ptr<LogitsRule>> rules);

// Of the ids that are allowed, in any order, as LogitEdits has it.
std::vector<uint32_t> mask_of(std::span<const Token> ids, int n_vocab);
// Forbids what the mask does not allow, beside what is forbidden already.
void allow_only(std::span<const uint32_t> mask, LogitEdits& edits);

inline Edit forbid(Token id) { return {id, -std::numeric_limits<float>::infinity(), 1.0F}; }

// out[i] = how many tokens before and at i equal those at the end of `history`, at most `longest`; out[last] is not of
// interest. Linear time (Z-algorithm over the reversed history: Gusfield 1997).
void suffix_matches(std::span<const Token> history, int longest, std::vector<int>& out);

}  // namespace quire
