// How a text is cut into the words that the subword model sees. A pre-tokenizer is a list of steps, each refining the
// pieces that the one before it left: the form that tokenizer.json gives them, and GGUF names stand for.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"
#include "text/regex/matcher.h"
#include "text/text_budget.h"

namespace quire {

// A text in pieces: ascending, not overlapping, none empty; text between pieces has been dropped.
struct PreTokens {
  std::string_view text;
  std::vector<ByteRange> ranges;
  bool at_start = false;         // the text begins the whole input
  bool in_byte_chars = false;    // the text is in GPT-2's byte characters (byte_chars.h)
  std::string owned;             // what `text` views once a step has rewritten it
  TextBudget* budget = nullptr;  // of what steps may write; null: no limit
  bool too_large = false;        // a step would have written more: nothing here is of use

  std::string_view operator[](size_t i) const { return text.substr(ranges[i].begin, ranges[i].end - ranges[i].begin); }
};

class PreTokenStep {
 public:
  virtual ~PreTokenStep() = default;
  // Total, thread-safe, linear (as far as its pattern is).
  virtual void apply(PreTokens& pieces) const = 0;
};
using PreTokenizer = std::vector<std::unique_ptr<PreTokenStep>>;

// What becomes of the matches of a split: pieces of their own, dropped, joined to a neighbour, or joined to each other.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

// `invert`: what lies between the matches counts as matched.
std::unique_ptr<PreTokenStep> make_split(std::unique_ptr<RegexMatcher> matcher, SplitBehavior behavior, bool invert);
// A space in front of every piece that does not begin with one.
std::unique_ptr<PreTokenStep> make_add_prefix_space();
// From here on the text is in byte characters: what tokenizer.json's ByteLevel does when it is not the last step.
std::unique_ptr<PreTokenStep> make_to_byte_chars();
// Spaces become `replacement`; it is put in front of every piece (or only of the input's first), and may split there.
enum class PrependScheme { always, first, never };
std::unique_ptr<PreTokenStep> make_metaspace(std::string replacement, PrependScheme scheme, bool split);
// PreTokens of n code points, the last may be shorter.
std::unique_ptr<PreTokenStep> make_fixed_length(size_t n);

// One pattern whose matches and gaps all become pieces: the usual step.
Result<std::unique_ptr<PreTokenStep>> make_pattern_split(std::string_view pattern, RegexDialect dialect = {});

// The split of GPT-2, which tokenizer.json calls ByteLevel.
extern const std::string_view kGpt2Pattern;

}  // namespace quire
