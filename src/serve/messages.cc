#include "serve/messages.h"

#include <array>
#include <ctime>

#include "text/chat_prompt.h"
#include "text/stop_strings.h"

namespace quire {
namespace {

constexpr Field kMessage[] = {
    field_of("role", kString),
    field_of("content", kString | kArray),
    field_of("name", kString, &ServeLimits::name_bytes),
    field_of("reasoning_content", kString),
    unsupported("tool_calls", "[]"),
    unsupported("tool_call_id"),
    unsupported("function_call"),
    unsupported("audio"),
    ignored_field("refusal"),
    ignored_field("annotations"),
};
constexpr Field kPart[] = {field_of("type", kString), field_of("text", kString), ignored_field("annotations"),
                           ignored_field("cache_control"), ignored_field("citations")};
const Schema kMessageSchema({kMessage});
const Schema kPartSchema({kPart});

constexpr std::string_view kPlainTemplate =
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] }}\n\n"
    "{% else %}{{ message['role'] | capitalize }}: {{ message['content'] | trim }}\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}";

ApiResult<std::string> read_role(const Args& message, const std::string& path) {
  static constexpr std::array<std::string_view, 4> kRoles{"system", "user", "assistant", "developer"};
  if (!message.has("role")) return refuse(missing_field(at_key(path, "role")));
  const std::string_view role = message.text("role");
  if (role == "tool" || role == "function") return refuse(unsupported_field(at_key(path, "role"), "tools are not"));
  if (role == "developer") return std::string("system");  // what templates know it as
  for (const std::string_view known : kRoles)
    if (role == known) return std::string(role);
  return refuse(
      bad_field(at_key(path, "role"), "is '" + shown(role) + "': it must be system, developer, user or assistant"));
}

}  // namespace

ApiResult<std::string> read_content(const Json& content, const std::string& path, const Reading& reading) {
  if (content.as_string() != nullptr) return *content.as_string();
  const Json::Array& parts = *content.as_array();
  const auto n = static_cast<int64_t>(parts.size());
  if (n > reading.limits.n_parts)
    return refuse(over_limit(path, "parts", n, reading.limits.n_parts, limit_note(&ServeLimits::n_parts)));
  std::string text;
  for (int64_t i = 0; i < n; ++i) {
    const std::string at = at_index(path, i);
    const Json& part = parts[static_cast<size_t>(i)];
    const Json* type = part.find("type");
    if (type != nullptr && type->as_string() != nullptr && *type->as_string() != "text")
      return refuse(unsupported_field(at_key(at, "type"), "'" + shown(*type->as_string()) + "'; only text is"));
    QR_TRY(const Args args, kPartSchema.check(part, reading, at));
    if (!args.has("type")) return refuse(missing_field(at_key(at, "type")));
    if (!args.has("text")) return refuse(missing_field(at_key(at, "text")));
    if (i > 0) text += '\n';
    text += args.text("text");
  }
  return text;
}

namespace {

ApiResult<Json> read_message(const Json& message, const std::string& path, const Reading& reading) {
  QR_TRY(const Args args, kMessageSchema.check(message, reading, path));
  QR_TRY(std::string role, read_role(args, path));
  const Json* content = args.find("content");
  if (content == nullptr) return refuse(missing_field(at_key(path, "content")));
  Json out;
  out.set("role", std::move(role));
  QR_TRY(std::string text, read_content(*content, at_key(path, "content"), reading));
  out.set("content", std::move(text));
  for (const std::string_view more : {"name", "reasoning_content"})
    if (args.has(more)) out.set(std::string(more), args.text(more));
  return out;
}

}  // namespace

std::string_view plain_template() { return kPlainTemplate; }

std::string_view add_plain_stop(const ServeEnv& env, Generation& generation) {
  constexpr std::string_view kStop = "\nUser:";
  if (!env.plain_chat || generation.stops.size() >= StopStrings::kMaxStrings) return {};
  generation.stops.emplace_back(kStop);
  return kStop;
}

ApiResult<Json> read_messages(const Json* messages, const Reading& reading) {
  if (messages == nullptr) return refuse(missing_field("messages"));
  const auto& list = *messages->as_array();
  if (list.empty()) return refuse(bad_field("messages", "is empty"));
  Json::Array out;
  for (size_t i = 0; i < list.size(); ++i) {
    QR_TRY(Json message, read_message(list[i], at_index("messages", static_cast<int64_t>(i)), reading));
    out.push_back(std::move(message));
  }
  return Json(std::move(out));
}

ChatOptions read_chat_options(const Args& args) {
  return {.kwargs = args.find("chat_template_kwargs"),
          .add_generation_prompt = args.flag("add_generation_prompt", true),
          .user_text = args.flag("parse_special", false) ? UserText::parsed : UserText::plain};
}

ApiResult<ChatPrompt> render_chat(Json messages, const ChatOptions& options, const ServeEnv& env) {
  TemplateInput input;
  input.messages = std::move(messages);
  input.add_generation_prompt = options.add_generation_prompt;
  input.now = local_time_text(std::time(nullptr));
  if (options.kwargs != nullptr) input.extra = *options.kwargs;
  Result<ChatPrompt> prompt = chat_prompt(*env.chat, *env.tokenizer, std::move(input), options.user_text);
  if (!prompt) return refuse(to_http_error(prompt.error(), "messages"));
  if (prompt->tokens.empty()) return refuse(bad_field("messages", "rendered by the chat template hold no tokens"));
  return std::move(*prompt);
}

}  // namespace quire
