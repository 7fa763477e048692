// Why a prompt is not cached as a whole, for whoever sent it: what the engine found of its tokens, and what their text
// and the chat template tell beside that. Plain values; any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/explanation.h"
#include "serve/earlier_turns.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

namespace quire {

// One of ExplainWish::others, in words.
struct OtherRoot {
  bool is_adapter = false;   // else it is another salt
  std::string adapter = {};  // its name; empty: the model without one
  bool unsalted = false;
};

struct MissContext {
  const Tokenizer* tokenizer = nullptr;
  ReasoningForm::Kind reasoning = ReasoningForm::Kind::none;
  std::vector<OtherRoot> others;
  EarlierChat chat;
};

inline constexpr int kToldTokens = 8;       // of each text that is shown
inline constexpr int kComparedTokens = 32;  // of two texts that may be the same

struct Miss {
  std::string_view cause;  // a constant
  std::string reason;      // a sentence
};
Miss name_miss(const Explanation& found, const MissContext& context);

// The place where the paths part and the message in which it lies, null where there is none.
Json first_difference(const Explanation& found, const MissContext& context);

}  // namespace quire
