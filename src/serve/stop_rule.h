// Ends a sequence in the engine with the token that completes a stop string, so that nothing is computed behind it. The
// io thread cuts the text by the same automaton (text_stream.h) and is the one that decides what is shown.
#pragma once
#include <memory>

#include "sample/logits_rule.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace quire {

// `show_special`: control tokens count with their text. `tokenizer` outlives the rule. An id that the tokenizer does
// not know has no text. The first min_tokens tokens neither end nor begin a stop string.
std::unique_ptr<EndRule> make_stop_rule(std::shared_ptr<const StopStrings> stops,
                                        const Tokenizer& tokenizer,
                                        bool show_special,
                                        int min_tokens);

}  // namespace quire
