// A conversation as every chat dialect gives it to the model: messages checked and brought into the one form that
// templates take, then rendered and tokenised so that text of the user never becomes a control token. A last message of
// the assistant's is an answer that the client has begun: the prompt ends in it.
#pragma once
#include <optional>

#include "serve/api.h"
#include "serve/tools.h"
#include "text/chat_prompt.h"

namespace quire {

// "messages": roles system, developer (becomes system), user, assistant; content a string or text parts, which are
// joined by line breaks; "tool_calls" of the assistant's, and role tool with "tool_call_id". What is not supported yet
// (images, audio) is refused by its path.
ApiResult<Json> read_messages(const Json* messages, const Reading& reading);

// The content parts of a dialect, each {"type": one of `types`, "text": …}.
struct TextParts {
  std::span<const std::string_view> types;
  std::string_view note;  // ends the refusal of another type: "only text is"
  const Schema& schema;   // of a part
};
// A message's content: a string, or text parts joined by line breaks. Other kinds of parts are refused by their path.
ApiResult<std::string> read_content(const Json& content,
                                    const std::string& path,
                                    const Reading& reading,
                                    const TextParts& taken);
// With parts of type "text".
ApiResult<std::string> read_content(const Json& content, const std::string& path, const Reading& reading);

struct ChatOptions {
  const Json* kwargs = nullptr;  // further variables of the template
  bool add_generation_prompt = true;
  UserText user_text = UserText::plain;
  std::optional<bool> think;       // the template's enable_thinking and thinking
  std::string_view effort{};       // its reasoning_effort; empty: not given
  bool separate_reasoning = true;  // out of the answer's text
  const Tools* tools = nullptr;    // null: none; lives as long
  std::string begun{};             // the path of the last message, an answer that is begun; empty: it is none
};
// ChatOptions::begun. Of the OpenAI dialect from "continue_final_message" and "add_generation_prompt", and where
// neither is given, from whose the last message is; of others from that alone. `messages`: as templates take them.
ApiResult<std::string> read_begun(const Args& args, const Json& messages);
std::string find_begun(const Args& args, const Json& messages);
std::span<const Field> begun_fields();
// From "chat_template_kwargs", "add_generation_prompt", "parse_special", "reasoning_effort", "separate_reasoning" and
// "reasoning_format". A view of `args`. Refuses an effort or format that it does not know.
ApiResult<ChatOptions> read_chat_options(const Args& args);
std::span<const Field> chat_fields();
// "none" turns thinking off; the others are for the template.
ApiResult<void> read_effort(std::string_view effort, std::string_view path, ChatOptions& options);
// Thinking was asked for: refuses where this model does none.
ApiResult<void> check_thinks(const ServeEnv& env, std::string_view path);
// The prompt: text and tokens. Refuses (field "tools") where tools are given and the model has none. BOS is put in
// front of the tokens where the tokenizer wants one and the template has not written it. Refuses (field "messages")
// with the template's own words.
ApiResult<ChatPrompt> render_chat(Json messages, const ChatOptions& options, const ServeEnv& env);

// render_chat into the job's next prompt, and what follows from it for reading the answer: reasoning is taken out, the
// plain template's stop string added. Returns that string, empty where none was.
ApiResult<std::string_view> add_chat(Json messages, const ChatOptions& options, const ServeEnv& env, Job& job);

// What a body of OpenAI's chat says of its prompt. `options` points to `tools`, so it stays where it was made.
struct ChatInput {
  ChatInput() = default;
  ChatInput(const ChatInput&) = delete;
  ChatInput& operator=(const ChatInput&) = delete;
  Json messages;
  ChatOptions options;
  Tools tools;
};
// From "messages", "tools", "tool_choice" and the chat_fields(). `out.options`: a view of the request.
ApiResult<void> read_chat_input(const ApiRequest& request, ChatInput& out);

// Jinja source for models whose file has no template: "User: …", "Assistant: …".
std::string_view plain_template();

}  // namespace quire
