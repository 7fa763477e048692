// Does a chat template only append from turn to turn? A prompt that changes text it wrote before makes every cached
// block behind that place useless. The lint renders growing conversations (plain, with system prompt, tools, reasoning)
// as a server would, each prompt with the generation prompt, and compares each with the one before. The conversation
// with reasoning is left out for templates that never show any.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"

namespace quire {

enum class RewriteKind : uint8_t {
  prompt,     // the next prompt does not start with this one
  reply,      // it does, but what the model answered is not there as it was
  inserted,   // it is, behind text that the prompt did not end with: kept only if the model writes that text itself
  reasoning,  // the reasoning of an earlier answer is gone
  time        // the same conversation at another time is another text
};

// The first difference in one conversation.
struct TemplateRewrite {
  RewriteKind kind = RewriteKind::prompt;
  std::string conversation;
  int turn = 0;        // 1 is the first question; the prompt of this turn was not kept by the next
  size_t offset = 0;   // byte where the texts part
  std::string before;  // what stood there, and what stands there now: at most 60 bytes, starting at offset
  std::string after;
};

struct TemplateLint {
  int n_compared = 0;                     // pairs of texts
  std::vector<TemplateRewrite> rewrites;  // at most one a conversation, and one for the time
  std::vector<std::string> refused;       // conversations that the template does not take: "name: error"
  bool appends_only() const;              // nothing worse than `inserted`, and something was compared
};

// `special_tokens` as in TemplateInput. Any thread.
TemplateLint lint_template(const ChatTemplate& tmpl, const Json& special_tokens);

std::string lint_text(const TemplateLint& lint);  // for people, lines with a newline each
Json lint_json(const TemplateLint& lint);         // {"appends_only","n_compared","rewrites":[…],"refused":[…]}

}  // namespace quire
