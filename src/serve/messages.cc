#include "serve/messages.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "serve/call_plans.h"
#include "serve/document_edges.h"
#include "text/chat_messages.h"
#include "text/chat_prompt.h"
#include "text/stop_strings.h"
#include "text/told_tools.h"

namespace quire {
namespace {

constexpr Field kMessage[] = {
    field_of("role", kString),
    field_of("content", kString | kArray),
    field_of("name", kString, &ServeLimits::name_bytes),
    field_of("reasoning_content", kString),
    field_of("tool_calls", kArray, &ServeLimits::n_calls),
    field_of("tool_call_id", kString, &ServeLimits::name_bytes),
    unsupported("function_call"),
    unsupported("audio"),
    ignored_field("refusal"),
    ignored_field("annotations"),
};
constexpr Field kChatFields[] = {
    flag_field("add_generation_prompt"),
    flag_field("parse_special"),
    field_of("chat_template_kwargs", kObject, &ServeLimits::n_template_kwargs),
    field_of("reasoning_effort", kString),
    flag_field("separate_reasoning"),
    other_name("include_reasoning", "separate_reasoning"),
    field_of("reasoning_format", kString),
};
constexpr Field kBegunFields[] = {flag_field("continue_final_message")};
constexpr Field kPart[] = {field_of("type", kString), field_of("text", kString), ignored_field("annotations"),
                           ignored_field("cache_control"), ignored_field("citations")};
const Schema kMessageSchema({kMessage});
const Schema kPartSchema({kPart});
constexpr std::string_view kPartTypes[] = {"text"};
const TextParts kTextParts{kPartTypes, "only text is", kPartSchema};

constexpr std::string_view kPlainTemplate =
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] }}\n\n"
    "{% else %}{{ message['role'] | capitalize }}: {{ message['content'] | trim }}\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}";

ApiResult<std::string> read_role(const Args& message, const std::string& path) {
  static constexpr std::array<std::string_view, 4> kRoles{"system", "user", "assistant", "tool"};
  if (!message.has("role")) return refuse(missing_field(at_key(path, "role")));
  const std::string_view role = message.text("role");
  if (role == "function") return refuse(unsupported_field(at_key(path, "role"), "'function'; tool is"));
  if (role == "developer") return std::string("system");  // what templates know it as
  for (const std::string_view known : kRoles)
    if (role == known) return std::string(role);
  return refuse(bad_field(at_key(path, "role"),
                          "is '" + shown(role) + "': it must be system, developer, user, assistant or tool"));
}

}  // namespace

ApiResult<std::string> read_content(const Json& content,
                                    const std::string& path,
                                    const Reading& reading,
                                    const TextParts& taken) {
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
    const std::string* kind = type != nullptr ? type->as_string() : nullptr;
    if (kind != nullptr && std::find(taken.types.begin(), taken.types.end(), *kind) == taken.types.end())
      return refuse(unsupported_field(at_key(at, "type"), "'" + shown(*kind) + "'; " + std::string(taken.note)));
    QR_TRY(const Args args, taken.schema.check(part, reading, at));
    if (!args.has("type")) return refuse(missing_field(at_key(at, "type")));
    if (!args.has("text")) return refuse(missing_field(at_key(at, "text")));
    if (i > 0) text += '\n';
    text += args.text("text");
  }
  return text;
}

ApiResult<std::string> read_content(const Json& content, const std::string& path, const Reading& reading) {
  return read_content(content, path, reading, kTextParts);
}

namespace {

ApiResult<Json> read_message(const Json& message, const std::string& path, const Reading& reading) {
  QR_TRY(const Args args, kMessageSchema.check(message, reading, path));
  QR_TRY(std::string role, read_role(args, path));
  const Json* content = args.find("content");
  const Json* calls = args.find("tool_calls");
  const bool called = calls != nullptr && !calls->as_array()->empty();
  if (content == nullptr && role != "assistant") return refuse(missing_field(at_key(path, "content")));
  if (called && role != "assistant")
    return refuse(bad_field(at_key(path, "tool_calls"), "is the assistant's, and role is '" + role + "'"));
  if (role == "tool" && !args.has("tool_call_id")) return refuse(missing_field(at_key(path, "tool_call_id")));
  Json out;
  std::string text;
  if (content != nullptr) {
    QR_TRY(text, read_content(*content, at_key(path, "content"), reading));
  }
  out.set("role", std::move(role));
  out.set("content", std::move(text));
  for (const std::string_view more : {"name", "reasoning_content", "tool_call_id"})
    if (args.has(more)) out.set(std::string(more), args.text(more));
  if (called) {
    QR_TRY(Json::Array list, read_calls(*calls, at_key(path, "tool_calls"), reading));
    out.set("tool_calls", std::move(list));
  }
  return out;
}

}  // namespace

std::string_view plain_template() { return kPlainTemplate; }

// An answer under the plain template ends before the user's next line, for which it has no token.
static std::string_view add_plain_stop(const ServeEnv& env, Generation& generation) {
  constexpr std::string_view kStop = "\nUser:";
  if (!env.plain_chat || generation.grammar || generation.stops.size() >= StopStrings::kMaxStrings) return {};
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

std::span<const Field> chat_fields() { return kChatFields; }

ApiResult<void> read_effort(std::string_view effort, std::string_view path, ChatOptions& options) {
  static constexpr std::array<std::string_view, 6> kEfforts{"none", "minimal", "low", "medium", "high", "xhigh"};
  if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end())
    return refuse(bad_field(path, "is '" + shown(effort) + "': it must be none, minimal, low, medium, high or xhigh"));
  if (effort == "none")
    options.think = false;
  else
    options.effort = effort;
  return {};
}

ApiResult<void> check_thinks(const ServeEnv& env, std::string_view path) {
  if (env.reasoning.kind != ReasoningForm::Kind::none) return {};
  return refuse(unsupported_field(path, "the model '" + env.models[0] + "' does not think"));
}

ApiResult<ChatOptions> read_chat_options(const Args& args) {
  ChatOptions options;
  options.kwargs = args.find("chat_template_kwargs");
  options.add_generation_prompt = args.flag("add_generation_prompt", true);
  options.user_text = args.flag("parse_special", false) ? UserText::parsed : UserText::plain;
  if (args.has("reasoning_effort"))
    QR_TRY_VOID(read_effort(args.text("reasoning_effort"), "reasoning_effort", options));
  options.separate_reasoning = args.flag("separate_reasoning", true);
  if (const std::string_view form = args.text("reasoning_format"); args.has("reasoning_format")) {
    if (form != "none" && form != "auto" && form != "deepseek")
      return refuse(bad_field("reasoning_format", "is '" + shown(form) + "': it must be none, auto or deepseek"));
    options.separate_reasoning = options.separate_reasoning && form != "none";
  }
  return options;
}

std::span<const Field> begun_fields() { return kBegunFields; }

// Whether the last message, of several, is text of the assistant's, without calls: an answer may go on from it.
static bool ends_in_answer(const Json& messages) {
  const Json& last = messages.as_array()->back();
  return messages.as_array()->size() > 1 && *last.find("role")->as_string() == "assistant" &&
         last.find("tool_calls") == nullptr;
}

static std::string last_message(const Args& args) {
  return at_index("messages", static_cast<int64_t>(args.find("messages")->as_array()->size()) - 1);
}

std::string find_begun(const Args& args, const Json& messages) {
  return ends_in_answer(messages) ? last_message(args) : std::string();
}

ApiResult<std::string> read_begun(const Args& args, const Json& messages) {
  const bool can = ends_in_answer(messages);
  const bool unsaid = !args.has("continue_final_message");
  const bool wanted = unsaid ? can && !args.has("add_generation_prompt") : args.flag("continue_final_message", false);
  if (wanted && !can)
    return refuse(bad_field("continue_final_message",
                            "needs a last message of the assistant's, behind another and without tool_calls"));
  if (wanted && args.flag("add_generation_prompt", false))
    return refuse(bad_field("continue_final_message", "and add_generation_prompt cannot both be true"));
  return wanted ? last_message(args) : std::string();
}

// The request's word, else the server's; none: as the template does.
static std::optional<bool> asked_to_think(const ChatOptions& options, const ServeEnv& env) {
  if (options.think) return options.think;
  return options.effort.empty() ? env.chat_defaults.think : std::nullopt;
}

// A variable of the template, of the request's or else of the server's; null: neither says.
static const Json* find_kwarg(const ChatOptions& options, const ServeEnv& env, const char* name) {
  const Json* given = options.kwargs != nullptr ? options.kwargs->find(name) : nullptr;
  return given != nullptr ? given : env.chat_defaults.kwargs.find(name);
}

ApiResult<ChatPrompt> render_chat(Json messages, const ChatOptions& options, const ServeEnv& env) {
  TemplateInput input;
  std::function<Begun(std::string_view)> begin;
  // Behind the mark that some prompts end with: without tools an answer is text.
  const std::string said(env.tools.form != nullptr ? env.tools.form->said : "");
  if (!options.begun.empty()) {
    begin = [&env, said, text = *messages.as_array()->back().find("content")->as_string()](std::string_view prompt) {
      std::string lead(answer_lead(env.reasoning.kind, prompt));
      if (!said.empty() && prompt.ends_with(env.tools.form->lead)) lead = said;
      if (env.plain_chat && !text.empty() && text.front() != ' ') lead += ' ';
      return Begun{std::move(lead), text};
    };
    messages.as_array()->pop_back();
  } else if (!said.empty() && (options.tools == nullptr || !options.tools->given())) {
    begin = [&env, said](std::string_view prompt) {
      return Begun{prompt.ends_with(env.tools.form->lead) ? said : std::string(), ""};
    };
  }
  name_results(*messages.as_array());
  Json tools;
  if (options.tools != nullptr && options.tools->given()) {
    QR_TRY_VOID(check_tools(*options.tools, env));
    tools = options.tools->list;
  }
  if (env.tools.told) tell_tools(*messages.as_array(), std::exchange(tools, Json()), *env.tools.form);
  input.messages = std::move(messages);
  input.arguments = env.tools.arguments;
  input.tools = std::move(tools);
  input.add_generation_prompt = options.add_generation_prompt || !options.begun.empty();
  input.now = local_time_text(std::time(nullptr));
  if (options.kwargs != nullptr) input.extra = *options.kwargs;
  const auto preset = [&](std::string_view name, Json value) {
    if (input.extra.find(name) == nullptr) input.extra.set(std::string(name), std::move(value));
  };
  for (const auto& [name, value] : *env.chat_defaults.kwargs.as_object()) preset(name, value);
  const std::optional<bool> think = asked_to_think(options, env);
  for (const char* name : {"enable_thinking", "thinking"})
    if (think) preset(name, *think);
  if (!options.effort.empty()) preset("reasoning_effort", options.effort);
  Result<ChatPrompt> prompt = chat_prompt(*env.chat, *env.tokenizer, std::move(input), options.user_text, begin);
  if (!prompt) return refuse(to_http_error(prompt.error(), "messages"));
  if (prompt->tokens.empty()) return refuse(bad_field("messages", "rendered by the chat template hold no tokens"));
  return std::move(*prompt);
}

// Whether a model whose prompt says nothing of thinking may begin with it all the same. Where a grammar lets it choose
// between thinking and an answer of a form that it would not have written, one that hardly thinks may begin to: so it
// has to be asked for, or be the model's habit, which a switch in its template shows.
static bool may_begin_to_think(const ChatOptions& options, const ServeEnv& env) {
  if (thinks_in_messages(env.reasoning.kind)) return true;
  for (const char* name : {"enable_thinking", "thinking"}) {
    const Json* given = find_kwarg(options, env, name);
    if (given != nullptr && given->as_bool() != nullptr) return *given->as_bool();
  }
  if (const std::optional<bool> think = asked_to_think(options, env)) return *think;
  return !options.effort.empty() || env.chat_source.find("enable_thinking") != std::string::npos;
}

// A grammar describes an answer from its first byte; that of calls in channels says which channels there are, that
// behind a mark of the prompt's to whom it speaks.
static ApiResult<void> check_begun(const ChatOptions& options, const ServeEnv& env, const Job& job) {
  const bool calls = options.tools != nullptr && options.tools->given() && env.tools.form != nullptr;
  const bool whole = job.generation.grammar.has_value() ||
                     (calls && (options.tools->required || env.tools.form->channels || !env.tools.form->said.empty()));
  if (options.begun.empty() || !whole) return {};
  return refuse(unsupported_field(options.begun,
                                  "an answer that is begun, where its form is prescribed (a response format, or "
                                  "a tool that has to be called)"));
}

// Of a document: it is read as its grammar has it. Where thoughts stay in the text, nobody sees where it begins.
static void read_document(const ServeEnv& env, bool splits, Job& job) {
  const bool in_channels = job.calls != nullptr && job.calls->form->channels;  // whose grammar has all of them
  const ReasoningForm::Kind before = in_channels ? env.reasoning.kind : job.thinks;
  job.document = splits || before == ReasoningForm::Kind::none;
  if (splits) job.reasoning = before;
}

ApiResult<std::string_view> add_chat(Json messages, const ChatOptions& options, const ServeEnv& env, Job& job) {
  QR_TRY_VOID(check_begun(options, env, job));
  const bool wants_document = job.generation.grammar.has_value();
  QR_TRY(ChatPrompt prompt, render_chat(std::move(messages), options, env));
  const bool is_begun = !options.begun.empty();
  job.thinks_open = !is_begun && opens_reasoning(env.reasoning.kind, prompt.text);
  const bool shut = is_begun || closes_reasoning(env.reasoning.kind, prompt.text);
  job.thinks_over = shut;
  // Command R's answer has marks of its own, also where it does not think.
  const bool marked = !response_marks(env.reasoning.kind).open.empty() && !is_begun;
  if (job.thinks_open || marked || (!shut && may_begin_to_think(options, env))) job.thinks = env.reasoning.kind;
  // Kimi K3's marks are words between tokens: nobody else could tell these from text, also behind a begun answer.
  const bool sections = env.reasoning.kind == ReasoningForm::Kind::kimi;
  const bool splits =
      (!is_begun || sections) && options.separate_reasoning && env.reasoning.kind != ReasoningForm::Kind::none;
  if (splits) {
    job.reasoning = env.reasoning.kind;
    job.reasoning_open = job.thinks_open;
  }
  if (env.reasoning.hidden && (splits || sections)) job.generation.skip_special = false;
  const bool calls = options.tools != nullptr && options.tools->given();
  if (wants_document)
    QR_TRY_VOID(keep_from_marks(job.thinks, calls ? env.tools.form : nullptr, *job.generation.grammar));
  if (calls) {
    QR_TRY(const std::shared_ptr<const CallPlan> plan,
           env.call_plans->get(*options.tools, env.tools, std::move(job.generation.grammar)));
    job.generation.grammar = plan->wanted;
    if (env.tools.form->channels)
      job.thinks = ReasoningForm::Kind::none;  // the grammar of its calls has all of its channels
    else if (job.generation.grammar->free_text && !shut)
      job.thinks = env.reasoning.kind;
    job.calls = plan->rules;
    if (env.hidden_calls) job.generation.skip_special = false;
  }
  if (wants_document && (job.calls == nullptr || job.calls->or_document)) read_document(env, splits, job);
  job.prompts.push_back(std::move(prompt.tokens));
  job.prompt_field = "messages";
  return add_plain_stop(env, job.generation);
}

ApiResult<void> read_chat_input(const ApiRequest& request, ChatInput& out) {
  const Args& args = request.args;
  QR_TRY(out.messages, read_messages(args.find("messages"), request.reading));
  QR_TRY(out.options, read_chat_options(args));
  QR_TRY(out.options.begun, read_begun(args, out.messages));
  const ToolSyntax syntax{.custom = true};
  QR_TRY(out.tools, read_tools(args.find("tools"), syntax, request.reading));
  QR_TRY_VOID(read_tool_choice(args, syntax, request.reading, out.tools));
  out.options.tools = &out.tools;
  return {};
}

}  // namespace quire
