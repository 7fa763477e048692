// /v1/responses: one turn of a conversation that the server may keep, so that the next one names it instead of sending
// everything again. An answer is a list of items: reasoning, messages, calls of tools (response_writer.h).
#include <iterator>

#include "serve/api.h"
#include "serve/custom_tools.h"
#include "serve/messages.h"
#include "serve/openai.h"
#include "serve/response_store.h"
#include "serve/response_writer.h"
#include "text/parse/call_arguments.h"

namespace quire {
namespace {

constexpr std::string_view kPath = "/v1/responses/", kInputItems = "/input_items";
constexpr std::string_view kWithLogprobs = "message.output_text.logprobs";

constexpr Field kFields[] = {
    field_of("model", kString, &ServeLimits::name_bytes),
    field_of("input", kString | kArray),
    field_of("instructions", kString),
    field_of("previous_response_id", kString, &ServeLimits::name_bytes),
    flag_field("store"),
    flag_field("stream"),
    other_name("max_output_tokens", "max_tokens"),
    field_of("metadata", kObject, &ServeLimits::n_metadata),
    field_of("include", kArray, &ServeLimits::n_metadata),
    count_field("top_logprobs", 0, &ServeLimits::n_logprobs),
    field_of("reasoning", kObject),
    field_of("text", kObject),
    field_of("tools", kArray, &ServeLimits::n_tools),
    field_of("tool_choice", kString | kObject),
    flag_field("parallel_tool_calls"),
    unsupported("truncation", "\"disabled\""),
    unsupported("background", "false"),
    unsupported("conversation"),
    unsupported("prompt"),
    unsupported("max_tool_calls"),
    unsupported("context_management", "[]"),
    ignored_field("stream_options"),
    ignored_field("user"),
    ignored_field("safety_identifier"),
    flag_field("return_progress"),
    flag_field("timings_per_token"),
    ignored_field("service_tier"),
    ignored_field("prompt_cache_key"),
    field_of("prompt_cache_retention", kString, &ServeLimits::name_bytes),
    field_of("kv_cache_retention_config", kObject),
};
constexpr Field kReasoning[] = {field_of("effort", kString), unsupported("summary", "\"auto\""),
                                unsupported("generate_summary", "\"auto\"")};
constexpr Field kText[] = {field_of("format", kObject), unsupported("verbosity", "\"medium\"")};
constexpr Field kItem[] = {
    field_of("type", kString),
    field_of("role", kString),
    field_of("content", kString | kArray),
    ignored_field("id"),
    ignored_field("status"),
    ignored_field("phase"),
    ignored_field("summary"),
    ignored_field("encrypted_content"),
    field_of("call_id", kString, &ServeLimits::name_bytes),
    field_of("name", kString, &ServeLimits::name_bytes),
    field_of("arguments", kString),
    field_of("input", kString),
    field_of("output", kString | kArray),
};
constexpr Field kPart[] = {field_of("type", kString), field_of("text", kString), ignored_field("annotations"),
                           ignored_field("logprobs")};
constexpr int64_t kMostPastBytes = 128 << 10;  // of messages that are told to a router; it holds them
constexpr const char* kCustomMark = "custom";  // of the result of a custom tool, in what is kept of an input
const Schema kSchema({kFields, chat_fields(), sampling_fields(), foreign_fields(), handover_fields()});
const Schema kReasoningSchema({kReasoning});
const Schema kTextSchema({kText});
const Schema kItemSchema({kItem});
const Schema kPartSchema({kPart});
constexpr std::string_view kPartTypes[] = {"input_text", "output_text", "text"};
const TextParts kTextParts{kPartTypes, "input_text and output_text are", kPartSchema};

HttpError no_response(std::string_view id) {
  return {404, "no response '" + shown(id) + "' is kept here", "invalid_request_error", "response_id",
          "response_not_found"};
}

// A call joins the assistant's message before it, as templates have it. What is a custom tool's is marked, so that it
// can be shown as the item that it was (plain_messages).
ApiResult<void> read_call_item(const Args& args, const std::string& path, bool custom, Json::Array& out) {
  const char* what = custom ? "input" : "arguments";
  for (const char* name : {"call_id", "name", what})
    if (!args.has(name)) return refuse(missing_field(at_key(path, name)));
  const std::string arguments = custom ? input_arguments(args.text(what)) : std::string(args.text(what));
  QR_TRY(Json call, call_message(args.text("call_id"), args.text("name"), arguments, at_key(path, what)));
  if (custom) call.set("type", "custom");
  if (out.empty() || *out.back().find("role")->as_string() != "assistant")
    out.push_back(Json::Object{{"role", "assistant"}, {"content", ""}});
  const Json* before = out.back().find("tool_calls");
  Json::Array calls = before != nullptr ? *before->as_array() : Json::Array{};
  calls.push_back(std::move(call));
  out.back().set("tool_calls", std::move(calls));
  return {};
}

ApiResult<void> read_output_item(
    const Args& args, const std::string& path, bool custom, const Reading& reading, Json::Array& out) {
  for (const char* name : {"call_id", "output"})
    if (!args.has(name)) return refuse(missing_field(at_key(path, name)));
  QR_TRY(std::string text, read_content(*args.find("output"), at_key(path, "output"), reading, kTextParts));
  out.push_back(Json::Object{{"role", "tool"}, {"content", std::move(text)}, {"tool_call_id", args.text("call_id")}});
  if (custom) out.back().set(kCustomMark, true);
  return {};
}

// Without the marks of custom tools, as templates have them.
Json::Array plain_messages(Json::Array messages) {
  for (Json& message : messages) {
    std::erase_if(*message.as_object(), [](const Json::Member& m) { return m.first == kCustomMark; });
    const Json* calls = message.find("tool_calls");
    if (calls == nullptr) continue;
    Json::Array plain = *calls->as_array();
    for (Json& call : plain) call.set("type", "function");
    message.set("tool_calls", std::move(plain));
  }
  return messages;
}

// Appends the item's message; reasoning that comes back is left out, as templates have it of earlier turns.
ApiResult<void> read_item(const Json& item, const std::string& path, const Reading& reading, Json::Array& out) {
  const Json* kind = item.find("type");
  if (kind != nullptr && kind->as_string() != nullptr && *kind->as_string() == "reasoning") return {};
  const std::string type = kind != nullptr && kind->as_string() != nullptr ? *kind->as_string() : "message";
  const bool custom = type.starts_with("custom_");
  const bool call = type == "function_call" || type == "custom_tool_call";
  const bool output = type == "function_call_output" || type == "custom_tool_call_output";
  if (type != "message" && !call && !output)
    return refuse(unsupported_field(at_key(path, "type"), "'" + shown(type) + "'; message, function_call, " +
                                                              "custom_tool_call and the outputs of both are"));
  QR_TRY(const Args args, kItemSchema.check(item, reading, path));
  if (call) return read_call_item(args, path, custom, out);
  if (output) return read_output_item(args, path, custom, reading, out);
  std::string_view role = args.text("role");
  if (!args.has("role")) return refuse(missing_field(at_key(path, "role")));
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant")
    return refuse(
        bad_field(at_key(path, "role"), "is '" + shown(role) + "': it must be system, developer, user or assistant"));
  const Json* content = args.find("content");
  if (content == nullptr) return refuse(missing_field(at_key(path, "content")));
  QR_TRY(std::string text, read_content(*content, at_key(path, "content"), reading, kTextParts));
  out.push_back(Json::Object{{"role", role}, {"content", std::move(text)}});
  return {};
}

ApiResult<Json::Array> read_input(const Args& args, const Reading& reading) {
  const Json* input = args.find("input");
  if (input == nullptr) return refuse(missing_field("input"));
  Json::Array out;
  if (const std::string* text = input->as_string()) {
    if (text->empty()) return refuse(bad_field("input", "is empty"));
    out.push_back(Json::Object{{"role", "user"}, {"content", *text}});
    return out;
  }
  const auto& list = *input->as_array();
  const auto n = static_cast<int64_t>(list.size());
  if (n > reading.limits.n_messages) return refuse(over_limit("input", "entries", n, reading.limits.n_messages));
  for (int64_t i = 0; i < n; ++i)
    QR_TRY_VOID(read_item(list[static_cast<size_t>(i)], at_index("input", i), reading, out));
  if (out.empty()) return refuse(bad_field("input", "holds no message"));
  return out;
}

// What was said before, of an answer that is kept; or was kept elsewhere, where this one goes on behind what another
// server has told of it.
ApiResult<Json::Array> read_previous(const ApiRequest& request, const ServeEnv& env, const Handover& handover) {
  if (!request.args.has("previous_response_id")) return Json::Array{};
  if (handover.told_past) {
    auto messages = read_messages(&*handover.told_past, request.reading);
    if (!messages) return refuse(bad_field("handover.past", "holds no conversation: " + messages.error().message));
    return std::move(*messages->as_array());
  }
  const std::string_view id = request.args.text("previous_response_id");
  const auto found = env.responses->find(id, request.asker.owner);
  if (found == nullptr)
    return refuse(bad_field("previous_response_id", "is '" + shown(id) + "': no such response is kept here",
                            "previous_response_not_found"));
  auto conversation = Json::parse(found->conversation);
  QR_CHECK(conversation.has_value() && conversation->as_array() != nullptr);
  return std::move(*conversation->as_array());
}

ApiResult<void> read_logprobs(const Args& args, int& n_logprobs) {
  bool wanted = args.integer("top_logprobs", 0) > 0;
  if (const Json* include = args.find("include")) {
    const auto& list = *include->as_array();
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string* name = list[i].as_string();
      const std::string path = at_index("include", static_cast<int64_t>(i));
      if (name == nullptr) return refuse(bad_field(path, "must be a string", "invalid_type"));
      if (*name != kWithLogprobs)
        return refuse(unsupported_field(path, "'" + shown(*name) + "'; only " + std::string(kWithLogprobs) + " is"));
      wanted = true;
    }
  }
  if (wanted) n_logprobs = static_cast<int>(args.integer("top_logprobs", 0));
  return {};
}

ApiResult<ChatOptions> read_options(const ApiRequest& request, MaybeGrammar& grammar) {
  QR_TRY(ChatOptions options, read_chat_options(request.args));
  if (const Json* text = request.args.find("text")) {
    QR_TRY(const Args inner, kTextSchema.check(*text, request.reading, "text"));
    if (const Json* format = inner.find("format")) {
      QR_TRY(MaybeGrammar wanted, read_format(*format, "text.format", request.reading));
      QR_TRY_VOID(add_grammar(std::move(wanted), grammar));
    }
  }
  if (const Json* reasoning = request.args.find("reasoning")) {
    QR_TRY(const Args inner, kReasoningSchema.check(*reasoning, request.reading, "reasoning"));
    if (inner.has("effort")) QR_TRY_VOID(read_effort(inner.text("effort"), "reasoning.effort", options));
  }
  return options;
}

// What was asked of the text, with the format that holds where none was.
Json text_of(const Args& args) {
  const Json* text = args.find("text");
  Json out = text != nullptr ? *text : Json(Json::Object{});
  const Json* format = out.find("format");
  if (format == nullptr || format->is_null()) out.set("format", Json::Object{{"type", "text"}});
  return out;
}

Json::Object echo_of(const Args& args, const ServeEnv& env, const Generation& g) {
  const auto given = [&](std::string_view name, Json otherwise) {
    const Json* v = args.find(name);
    if (v != nullptr) return *v;
    return otherwise;
  };
  const auto decimal = [](float v) { return Json(static_cast<double>(v)); };
  return {{"model", answering_model(env, g)},
          {"instructions", given("instructions", nullptr)},
          {"max_output_tokens", given("max_tokens", nullptr)},
          {"previous_response_id", given("previous_response_id", nullptr)},
          {"store", args.flag("store", true)},
          {"temperature", given("temperature", decimal(g.sampling.temperature))},
          {"top_p", given("top_p", decimal(g.sampling.top_p))},
          {"top_logprobs", args.integer("top_logprobs", 0)},
          {"metadata", given("metadata", Json::Object{})},
          {"reasoning", given("reasoning", Json::Object{{"effort", nullptr}, {"summary", nullptr}})},
          {"text", text_of(args)},
          {"truncation", "disabled"},
          {"tools", given("tools", Json::Array{})},
          {"tool_choice", given("tool_choice", "auto")},
          {"parallel_tool_calls", args.flag("parallel_tool_calls", true)},
          {"background", false}};
}

ApiResult<Call> create(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Job job, begin_answer(request, env));
  if (!args.has("max_tokens")) job.generation.max_tokens_field = "max_output_tokens";
  QR_TRY_VOID(read_handover(request, env, job));
  if (job.generation.n != 1) return refuse(unsupported_field("n", "an answer has one choice here"));
  QR_TRY_VOID(read_logprobs(args, job.generation.sampling.n_logprobs));
  QR_TRY(ChatOptions options, read_options(request, job.generation.grammar));
  const ToolSyntax syntax{.nested = false, .custom = true};
  QR_TRY(Tools tools, read_tools(args.find("tools"), syntax, request.reading));
  QR_TRY_VOID(read_tool_choice(args, syntax, request.reading, tools));
  options.tools = &tools;
  KeepResponse keep;
  QR_TRY(keep.conversation, read_previous(request, env, job.handover));
  if (job.handover.asked && !keep.conversation.empty()) {
    job.handover.past = Json(keep.conversation).dump();
    job.handover.asked = std::ssize(job.handover.past) <= kMostPastBytes;
  }
  QR_TRY(keep.input, read_input(args, request.reading));
  Json::Array said = plain_messages(keep.input);
  keep.conversation.insert(keep.conversation.end(), std::make_move_iterator(said.begin()),
                           std::make_move_iterator(said.end()));
  Json::Array messages = keep.conversation;
  if (args.has("instructions"))
    messages.insert(messages.begin(), Json::Object{{"role", "system"}, {"content", args.text("instructions")}});
  QR_TRY_VOID(add_chat(Json(std::move(messages)), options, env, job));
  job.prompt_field = "input";
  keep.asker = request.asker;
  if (args.flag("store", true)) keep.store = env.responses;
  job.tells_progress = job.stream && args.flag("return_progress", false);
  const bool timings = job.stream && args.flag("timings_per_token", false);
  job.writer = make_response_writer(env, {job.name, echo_of(args, env, job.generation), timings, tools.custom_names()},
                                    std::move(keep));
  return Call(std::move(job));
}

Json message_item(const Json& message) {
  const bool answer = *message.find("role")->as_string() == "assistant";
  Json part = Json::Object{{"type", answer ? "output_text" : "input_text"}, {"text", *message.find("content")}};
  return Json::Object{{"type", "message"},
                      {"role", *message.find("role")},
                      {"status", "completed"},
                      {"content", Json::Array{std::move(part)}}};
}

// Appends the items that a message was.
void add_items(const Json& message, Json::Array& out) {
  if (*message.find("role")->as_string() == "tool") {
    const bool custom = message.find(kCustomMark) != nullptr;
    out.push_back(Json::Object{{"type", custom ? "custom_tool_call_output" : "function_call_output"},
                               {"call_id", *message.find("tool_call_id")},
                               {"status", "completed"},
                               {"output", *message.find("content")}});
    return;
  }
  const Json* calls = message.find("tool_calls");
  if (calls == nullptr || !message.find("content")->as_string()->empty()) out.push_back(message_item(message));
  if (calls == nullptr) return;
  for (const Json& call : *calls->as_array()) {
    const bool custom = *call.find("type")->as_string() == "custom";
    const Json& arguments = *call.find("function")->find("arguments");
    out.push_back(Json::Object{{"type", custom ? "custom_tool_call" : "function_call"},
                               {"call_id", *call.find("id")},
                               {"status", "completed"},
                               {"name", *call.find("function")->find("name")}});
    if (custom)
      out.back().set("input", *Json::parse(*arguments.as_string())->find(kInputName));
    else
      out.back().set("arguments", arguments);
  }
}

// The messages as the items that they were.
std::string input_items(const StoredResponse& stored) {
  Json::Array data;
  const auto input = Json::parse(stored.input);
  QR_CHECK(input.has_value() && input->as_array() != nullptr);
  for (const Json& message : *input->as_array()) add_items(message, data);
  for (size_t i = 0; i < data.size(); ++i) data[i].set("id", "item_" + std::to_string(i));
  Json out = Json::Object{{"object", "list"}, {"first_id", *data.front().find("id")}};
  out.set("last_id", *data.back().find("id"));
  out.set("has_more", false);
  out.set("data", std::move(data));
  return out.dump();
}

ApiResult<Call> retrieve(const ApiRequest& request, const ServeEnv& env) {
  std::string_view id = std::string_view(request.http.path).substr(kPath.size());
  const bool items = id.ends_with(kInputItems);
  if (items) id.remove_suffix(kInputItems.size());
  if (request.http.query_param("stream").value_or("false") != "false")
    return refuse(unsupported_field("stream", "of an answer that is kept"));
  const auto found = env.responses->find(id, request.asker.owner);
  if (found == nullptr) return refuse(no_response(id));
  return Call(Answer{.body = items ? input_items(*found) : found->body});
}

ApiResult<Call> erase(const ApiRequest& request, const ServeEnv& env) {
  const std::string_view id = std::string_view(request.http.path).substr(kPath.size());
  if (!env.responses->erase(id, request.asker.owner)) return refuse(no_response(id));
  std::string out = "{\"id\":";
  append_json_string(out, id);
  return Call(Answer{.body = out + ",\"object\":\"response\",\"deleted\":true}"});
}

const Api kApi{{
    {.method = "POST",
     .path = "/v1/responses",
     .also = "/responses",
     .schema = &kSchema,
     .parse = &create,
     .summary = "OpenAI: one turn of a conversation that may be kept"},
    {.method = "GET", .path = "/v1/responses/*", .quick = true, .parse = &retrieve, .summary = "A kept response"},
    {.method = "DELETE", .path = "/v1/responses/*", .quick = true, .parse = &erase, .summary = "Forgets a response"},
}};
QR_REGISTER(Api, "openai_responses", kApi);

}  // namespace
}  // namespace quire
