// What an operator declares to be no secret: system prompts that all tenants' requests begin with. Requests share its
// cached past whatever their salts; what follows stays their own. Immutable once made: any thread.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "serve/api.h"

namespace quire {

class PublicPrompts {
 public:
  PublicPrompts() = default;
  // Tokenises each of `texts` as it stands at the beginning of a plain prompt and as the system message of a chat. A
  // text that the chat template refuses is logged and counts for plain prompts only. `env` as dialects see it.
  PublicPrompts(std::span<const std::string> texts, const ServeEnv& env);

  // A prompt that is public as a whole. Before requests come.
  void add(std::vector<Token> prompt) { beginnings_.push_back(std::move(prompt)); }

  // Leading tokens of `prompt` that are public: the longest beginning in common with any of them.
  int n_public(std::span<const Token> prompt) const;

 private:
  std::vector<std::vector<Token>> beginnings_;
};

}  // namespace quire
