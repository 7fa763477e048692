// A conversation as every chat dialect gives it to the model: messages checked and brought into the one form that
// templates take, then rendered and tokenised so that text of the user never becomes a control token.
#pragma once
#include "serve/api.h"
#include "text/chat_prompt.h"

namespace quire {

// "messages": roles system, developer (becomes system), user, assistant; content a string or text parts, which are
// joined by line breaks. What is not supported yet (tool calls, images, audio) is refused by its path.
ApiResult<Json> read_messages(const Json* messages, const Reading& reading);

// A message's content: a string, or text parts joined by line breaks. Other kinds of parts are refused by their path.
ApiResult<std::string> read_content(const Json& content, const std::string& path, const Reading& reading);

struct ChatOptions {
  const Json* kwargs = nullptr;  // further variables of the template
  bool add_generation_prompt = true;
  UserText user_text = UserText::plain;
};
// From "chat_template_kwargs", "add_generation_prompt" and "parse_special". A view of `args`.
ChatOptions read_chat_options(const Args& args);
// The prompt: text and tokens. BOS is put in front of the tokens where the tokenizer wants one and the template has not
// written it. Refuses (field "messages") with the template's own words.
ApiResult<ChatPrompt> render_chat(Json messages, const ChatOptions& options, const ServeEnv& env);

// Jinja source for models whose file has no template: "User: …", "Assistant: …".
std::string_view plain_template();
// An answer under the plain template ends before the user's next line, for which it has no token: adds that stop string
// where one more fits. Returns it; empty where none was added.
std::string_view add_plain_stop(const ServeEnv& env, Generation& generation);

}  // namespace quire
