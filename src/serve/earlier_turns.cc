#include "serve/earlier_turns.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace quire {
namespace {

std::string role_of(const Json& message) {
  const Json* role = message.find("role");
  return role != nullptr && role->as_string() != nullptr ? *role->as_string() : "";
}

// As of a request of its own: no answer was begun.
ChatOptions plain(const ChatOptions& options, bool generation) {
  ChatOptions out = options;
  out.begun.clear();
  out.add_generation_prompt = generation;
  return out;
}

}  // namespace

std::vector<EarlierTurn> find_earlier_turns(Json messages,
                                            const ChatOptions& options,
                                            std::span<const Token> prompt,
                                            const ServeEnv& env) {
  const ChatOptions then = plain(options, true);
  std::vector<EarlierTurn> out;
  Json::Array& left = *messages.as_array();
  for (int64_t n = 0; n < env.limits.n_explained_turns && left.size() > 1;) {
    const bool answer = role_of(left.back()) == "assistant";
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

std::vector<MessageEnd> find_message_ends(Json messages,
                                          const ChatOptions& options,
                                          std::span<const Token> prompt,
                                          const ServeEnv& env) {
  const ChatOptions alone = plain(options, false);
  std::vector<MessageEnd> out;
  Json::Array& left = *messages.as_array();
  for (int64_t n = 0; n < 2 * env.limits.n_explained_turns && !left.empty(); ++n) {
    const auto rendered = render_chat(messages, alone, env);
    if (rendered) {
      const std::vector<Token>& tokens = rendered->tokens;
      const auto n_same = std::ranges::mismatch(tokens, prompt).in1 - tokens.begin();
      // The last token may have become one with what follows.
      if (n_same + 1 >= std::ssize(tokens)) {
        out.push_back({static_cast<int>(left.size()) - 1, role_of(left.back()), static_cast<int>(n_same)});
      }
    }
    left.pop_back();
  }
  std::ranges::reverse(out);
  return out;
}

const MessageEnd* message_at(std::span<const MessageEnd> ends, int token) {
  int before = -1;  // the last message that is known to end before
  for (const MessageEnd& end : ends) {
    if (end.n_tokens > token) return end.message == before + 1 ? &end : nullptr;
    before = end.message;
  }
  return nullptr;
}

}  // namespace quire
