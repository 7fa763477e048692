// See regex_grammar.h.
#include "text/grammar/regex_grammar.h"

#include <algorithm>

#include "text/grammar/finish.h"
#include "text/grammar/pattern.h"
#include "text/grammar/rx_text.h"

namespace quire {

using namespace grammar;

Result<std::shared_ptr<const Grammar>> compile_regex(std::string_view pattern, const GrammarLimits& limits) {
  RxStore rx(limits.memory_bytes, limits.derivatives);
  NetworkBuilder builder(rx, {});
  CharCoder coder(rx, Spelling::utf8);
  builder.wide(coder.any());
  QR_TRY(const Rx whole, compile_pattern(pattern, PatternMeans::whole_text, coder));
  return finish(builder, rx, builder.rule_of(whole), {});
}

Result<std::shared_ptr<const Grammar>> compile_choice(std::span<const std::string> choices,
                                                      const GrammarLimits& limits) {
  if (choices.empty()) return fail(Code::invalid, "choice: it is empty");
  size_t n_bytes = 0;
  for (const std::string& c : choices) n_bytes += c.size();
  if (n_bytes > limits.source_bytes) {
    return fail(Code::invalid,
                "choice: " + std::to_string(n_bytes) + " bytes, the limit is " + std::to_string(limits.source_bytes));
  }
  RxStore rx(limits.memory_bytes, limits.derivatives);
  NetworkBuilder builder(rx, {});
  const Rx whole = one_of_texts(rx, {choices.begin(), choices.end()});
  return finish(builder, rx, builder.rule_of(whole), {});
}

}  // namespace quire
