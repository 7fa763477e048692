// Steps that rewrite text before it is split: what tokenizer.json calls normalizers, and SentencePiece's own rules.
// Immutable; any thread may call apply().
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex/matcher.h"
#include "text/text_budget.h"

namespace quire {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Writes the rewritten text to `out` (cleared first). Linear in in.size() and the result. False where that would have
  // more than max_bytes: then `out` holds not much more, and nothing of use.
  virtual bool apply(std::string_view in, size_t max_bytes, std::string& out) const = 0;
};
using NormalizerChain = std::vector<std::unique_ptr<Normalizer>>;

// `prefix` in front of a text that is not empty.
std::unique_ptr<Normalizer> make_prepend(std::string prefix);
// Every `from` becomes `to`, left to right. REQUIRES !from.empty().
std::unique_ptr<Normalizer> make_replace(std::string from, std::string to);

// Every match of `matcher` becomes `to`.
std::unique_ptr<Normalizer> make_regex_replace(std::unique_ptr<RegexMatcher> matcher, std::string to);
// White space away from the ends.
std::unique_ptr<Normalizer> make_strip(bool left, bool right);
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_strip_accents();
// SentencePiece's "nmt" rules: control characters vanish, exotic spaces become plain.
std::unique_ptr<Normalizer> make_nmt();
// Bytes become GPT-2's byte characters.
std::unique_ptr<Normalizer> make_byte_characters();

struct BertRules {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};
std::unique_ptr<Normalizer> make_bert(BertRules rules);

// Runs the chain. The result views `text` (empty chain) or `scratch`; nothing where the budget did not suffice.
std::optional<std::string_view> normalize(const NormalizerChain& chain,
                                          std::string_view text,
                                          TextBudget& budget,
                                          std::string& scratch);

}  // namespace quire
