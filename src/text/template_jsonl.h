// One rendering as one line of JSON: the contract of `quire template --jsonl`, and of /apply-template's body.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_template.h"

namespace quire {

// {"messages":[…],"tools":[…],"add_generation_prompt":true,"bos_token":"…","eos_token":"…","now":"2026-01-31T12:00:00",…}:
// members that end in "_token" are special tokens, all others are extra variables. Messages are brought into the
// server's form (text/chat_messages.h). What the request does not name comes from `defaults`. Code::invalid names the
// member of the wrong type.
Result<TemplateInput> template_input(const Json& request, const TemplateInput& defaults);

// {"text":"…"} or {"error":"…"}, without a newline.
std::string render_template_line(const ChatTemplate& tmpl, std::string_view line, const TemplateInput& defaults);

}  // namespace quire
