#include "serve/public_prompts.h"

#include <algorithm>

#include "base/log.h"
#include "serve/messages.h"

namespace quire {
namespace {

int n_common(std::span<const Token> a, std::span<const Token> b) {
  return static_cast<int>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

ApiResult<std::vector<Token>> chat_tokens(const std::string& system, const char* user, const ServeEnv& env) {
  Json::Array messages;
  messages.push_back(Json::Object{{"role", "system"}, {"content", system}});
  messages.push_back(Json::Object{{"role", "user"}, {"content", user}});
  QR_TRY(ChatPrompt prompt, render_chat(Json(std::move(messages)), {}, env));
  return std::move(prompt.tokens);
}

}  // namespace

// Of a chat all is public that two users' prompts have in common: the template's own words around the text too.
PublicPrompts::PublicPrompts(std::span<const std::string> texts, const ServeEnv& env) {
  for (const std::string& text : texts) {
    const EncodeOptions options{.add_special = true, .parse_special = true};
    if (const Status done = env.tokenizer->encode(text, options, beginnings_.emplace_back()); !done) {
      log_warn("a public prompt cannot be shared: " + done.error().message);
      beginnings_.pop_back();
      continue;
    }
    auto one = chat_tokens(text, "1", env);
    const auto other = chat_tokens(text, "A", env);
    if (!one || !other) {
      log_warn("chats cannot share a public prompt: " + (one ? other : one).error().message);
      continue;
    }
    one->resize(static_cast<size_t>(n_common(*one, *other)));
    beginnings_.push_back(std::move(*one));
  }
}

int PublicPrompts::n_public(std::span<const Token> prompt) const {
  int out = 0;
  for (const auto& beginning : beginnings_) out = std::max(out, n_common(prompt, beginning));
  return out;
}

}  // namespace quire
