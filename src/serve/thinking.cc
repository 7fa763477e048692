#include "serve/thinking.h"

#include <algorithm>
#include <limits>

#include "sample/thinking_budget.h"
#include "serve/grammar_cache.h"
#include "serve/messages.h"

namespace quire {
namespace {

// The control token of this text; -1: there is none.
Token control_token(const Tokenizer& tokenizer, std::string_view text) {
  const TokenizerSpec& spec = tokenizer.spec();
  for (size_t i = 0; i < spec.types.size(); ++i) {
    if (spec.types[i] == TokenType::control && spec.tokens[i] == text) return static_cast<Token>(i);
  }
  return -1;
}

// Of an opening mark, of which a word may follow the token: <|channel>thought.
Token opening_token(const Tokenizer& tokenizer, std::string_view mark) {
  return control_token(tokenizer, mark.substr(0, mark.find_first_of(">]") + 1));
}

}  // namespace

bool one_mark_ends(const ReasoningForm& form) {
  const bool sections = form.kind == ReasoningForm::Kind::kimi && form.hidden;
  return !sections && !reasoning_marks(form.kind).close.empty();
}

ApiResult<void> limit_thinking(const ServeEnv& env, Job& job) {
  Generation& g = job.generation;
  const ReasoningMarks marks = reasoning_marks(env.reasoning.kind);
  const bool is_chat = job.reasoning != ReasoningForm::Kind::none || job.thinks != ReasoningForm::Kind::none;
  if (g.thinking_tokens < 0 && env.chat_defaults.thinking_tokens >= 0 && is_chat && one_mark_ends(env.reasoning)) {
    g.thinking_tokens = env.chat_defaults.thinking_tokens;
    g.thinking_field = "thinking_token_budget";
  }
  if (g.thinking_tokens < 0) return {};
  QR_TRY_VOID(check_thinks(env, g.thinking_field));
  if (!one_mark_ends(env.reasoning))
    return refuse(unsupported_field(
        g.thinking_field,
        "the model '" + env.models[0] + "' thinks in messages or sections, which no single mark ends"));
  auto budget = std::make_shared<ThinkingBudget>();
  budget->n_tokens = static_cast<int>(std::min<int64_t>(g.thinking_tokens, std::numeric_limits<int>::max()));
  budget->field = g.thinking_field;
  budget->open = marks.open;
  budget->close = marks.close;
  budget->open_id = opening_token(*env.tokenizer, marks.open);
  budget->close_id = control_token(*env.tokenizer, marks.close);
  const EncodeOptions as_mark{.add_special = false, .parse_special = true};
  QR_TRY_VOID(encode_text(*env.tokenizer, marks.close, as_mark, g.thinking_field, budget->closing));
  budget->vocabulary = env.grammars->vocabulary();
  g.sampling.thinking = std::move(budget);
  return {};
}

}  // namespace quire
