// What a chat template does with tools, found by rendering it with and without tools and calls.
#pragma once
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/parse/call_form.h"

namespace quire {

struct ToolFormat {
  bool takes_tools = false;                     // the template shows them to the model
  const CallForm* form = nullptr;               // null: it writes no calls, or none that a family here writes
  std::string name{};                           // of the family
  bool told = false;                            // messages tell the tools (text/told_tools.h), the template does not
  ArgumentsAs arguments = ArgumentsAs::object;  // how it wants the arguments of earlier calls
};
// By which family's parser a call that the template writes is read back; where it writes none, whose mark it tells the
// model. Any thread.
ToolFormat find_tool_format(const ChatTemplate& chat, const Json& special_tokens);

// What a template wrote behind a prompt that has its first `same_bytes`, for the family to read.
std::string_view answer_behind(const CallForm& form, std::string_view text, size_t same_bytes);
// Tells every family by its name; null where there is none of that name.
const CallForm* find_call_form(std::string_view name);

}  // namespace quire
