#include "serve/earlier_turns.h"

#include <algorithm>
#include <cstddef>

namespace quire {
namespace {

bool is_answer(const Json& message) {
  const Json* role = message.find("role");
  return role != nullptr && role->as_string() != nullptr && *role->as_string() == "assistant";
}

}  // namespace

std::vector<EarlierTurn> find_earlier_turns(Json messages,
                                            const ChatOptions& options,
                                            std::span<const Token> prompt,
                                            const ServeEnv& env) {
  ChatOptions then = options;
  then.begun.clear();
  then.add_generation_prompt = true;
  std::vector<EarlierTurn> out;
  Json::Array& left = *messages.as_array();
  for (int64_t n = 0; n < env.limits.n_explained_turns && left.size() > 1;) {
    const bool answer = is_answer(left.back());
    left.pop_back();
    if (!answer) continue;
    ++n;
    const auto rendered = render_chat(messages, then, env);
    if (!rendered) continue;
    const std::vector<Token>& tokens = rendered->tokens;
    const auto parts = std::ranges::mismatch(tokens, prompt).in1;
    if (parts == tokens.end()) continue;  // nothing was rewritten
    EarlierTurn& turn = out.emplace_back();
    turn.message = static_cast<int>(left.size());
    turn.n_same = static_cast<int>(parts - tokens.begin());
    const auto n_then = std::min<std::ptrdiff_t>(tokens.end() - parts, std::ptrdiff_t{kThenTokens});
    turn.then.assign(parts, parts + n_then);
  }
  return out;
}

}  // namespace quire
