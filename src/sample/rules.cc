#include "sample/rules.h"

#include <algorithm>
#include <cmath>

#include "sample/constraint.h"
#include "sample/thinking_budget.h"

namespace quire {

std::vector<std::unique_ptr<LogitsRule>> make_rules(const RuleContext& context) {
  std::vector<const LogitsRuleEntry*> entries;
  const auto& registry = Registry<LogitsRuleEntry>::get();
  for (const std::string& name : registry.names()) entries.push_back(registry.find(name));
  std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->rank < b->rank; });
  std::vector<std::unique_ptr<LogitsRule>> out;
  for (const LogitsRuleEntry* entry : entries) {
    if (auto rule = entry->make(context)) out.push_back(std::move(rule));
  }
  return out;
}

bool has_grammar(const SamplingParams& sampling) {
  return sampling.constraint != nullptr && sampling.constraint->grammar != nullptr;
}

std::string forbidding_fields(const SamplingParams& s) {
  std::string out;
  const auto name = [&out](bool forbids, std::string_view field) {
    if (!forbids) return;
    if (!out.empty()) out += ", ";
    out += field;
  };
  if (has_grammar(s)) name(true, s.constraint->field);
  if (s.thinking != nullptr) name(true, s.thinking->field);
  name(!s.allowed_ids.empty(), "allowed_token_ids");
  name(!s.bad_words.empty(), "bad_words");
  name(s.no_repeat_ngram_size > 0, "no_repeat_ngram_size");
  name(s.min_tokens > 0 && !has_grammar(s), "min_tokens");
  return out;
}

bool forbid_everything(std::span<const std::unique_ptr<LogitsRule>> rules) {
  LogitEdits edits;
  for (const auto& rule : rules) rule->edits(edits);
  if (edits.bitmask.empty()) return false;
  for (const Edit& edit : edits.sparse) {
    const auto i = static_cast<size_t>(edit.id);
    if (std::isinf(edit.add) && i / 32 < edits.bitmask.size()) edits.bitmask[i / 32] &= ~(1U << (i % 32));
  }
  return std::all_of(edits.bitmask.begin(), edits.bitmask.end(), [](uint32_t word) { return word == 0; });
}

std::vector<uint32_t> mask_of(std::span<const Token> ids, int n_vocab) {
  std::vector<uint32_t> out((static_cast<size_t>(n_vocab) + 31) / 32, 0U);
  for (const Token id : ids) out[static_cast<size_t>(id) / 32] |= 1U << (id % 32);
  return out;
}

void allow_only(std::span<const uint32_t> mask, LogitEdits& edits) {
  if (edits.bitmask.empty()) return edits.bitmask.assign(mask.begin(), mask.end());
  edits.bitmask.resize(std::min(edits.bitmask.size(), mask.size()));
  for (size_t i = 0; i < edits.bitmask.size(); ++i) edits.bitmask[i] &= mask[i];
}

void suffix_matches(std::span<const Token> history, int longest, std::vector<int>& out) {
  const auto n = static_cast<int>(history.size());
  out.assign(history.size(), 0);
  const auto back = [&](int i) { return history[static_cast<size_t>(n - 1 - i)]; };
  const auto z = [&](int i) -> int& { return out[static_cast<size_t>(n - 1 - i)]; };
  // [lo, hi): the match that reaches furthest; inside it what was found at the front holds again.
  int lo = 0, hi = 0;
  for (int i = 1; i < n; ++i) {
    int length = i < hi ? std::min(hi - i, z(i - lo)) : 0;
    while (length < longest && i + length < n && back(length) == back(i + length)) ++length;
    z(i) = length;
    if (i + length > hi) {
      lo = i;
      hi = i + length;
    }
  }
}

}  // namespace quire
