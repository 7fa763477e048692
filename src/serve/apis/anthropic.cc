// POST /v1/messages and /v1/messages/count_tokens: Anthropic's dialect. Text and tools; what is cached is read and
// written by itself, so cache_control marks change nothing.
#include <utility>

#include "http/error_form.h"
#include "serve/api.h"
#include "serve/job.h"
#include "serve/messages.h"
#include "serve/openai.h"
#include "serve/thinking.h"

namespace quire {
namespace {

constexpr Field kPrompt[] = {
    field_of("model", kString, &ServeLimits::name_bytes),
    field_of("messages", kArray, &ServeLimits::n_messages),
    field_of("system", kString | kArray),
    field_of("tools", kArray, &ServeLimits::n_tools),
    field_of("tool_choice", kObject),
    field_of("thinking", kObject),
    unsupported("mcp_servers", "[]"),
    field_of("output_config", kObject),
    field_of("output_format", kObject),
    ignored_field("cache_control"),
};
constexpr Field kCall[] = {
    flag_field("stream"),           other_name("stop_sequences", "stop"),
    unsupported("container"),       field_of("context_management", kObject),
    ignored_field("metadata"),      ignored_field("service_tier"),
    ignored_field("inference_geo"),
};
constexpr Field kThinking[] = {field_of("type", kString), integer_field("budget_tokens", 1, kNoMax),
                               ignored_field("display")};
constexpr Field kMessage[] = {field_of("role", kString), field_of("content", kString | kArray)};
constexpr Field kOutputConfig[] = {field_of("format", kObject), unsupported("effort")};
constexpr Field kChoice[] = {field_of("type", kString), field_of("name", kString),
                             flag_field("disable_parallel_tool_use")};
constexpr Field kBlock[] = {field_of("type", kString),
                            field_of("text", kString),
                            field_of("id", kString),
                            field_of("name", kString),
                            field_of("input", kObject),
                            field_of("tool_use_id", kString),
                            field_of("content", kString | kArray),
                            flag_field("is_error"),
                            field_of("thinking", kString),
                            ignored_field("signature"),
                            ignored_field("cache_control"),
                            ignored_field("citations"),
                            ignored_field("caller")};
const Schema kMessages({kPrompt, kCall, sampling_fields(), foreign_fields(), no_progress_fields(), handover_fields()});
const Schema kCount({kPrompt});
const Schema kMessageSchema({kMessage});
const Schema kThinkingSchema({kThinking});
const Schema kOutputConfigSchema({kOutputConfig});
const Schema kChoiceSchema({kChoice});
const Schema kBlockSchema({kBlock});

// What counts as input is what was not cached; the two add up to the prompt.
void append_usage(std::string& out, const UsageTotals& usage) {
  out += "{\"input_tokens\":" + std::to_string(usage.n_prompt - usage.n_cached) +
         ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":" + std::to_string(usage.n_cached) +
         ",\"output_tokens\":" + std::to_string(usage.n_generated) + "}";
}

void append_stop(std::string& out, const Ending& ending) {
  const bool by_string = !ending.stop_string.empty();
  out += "\"stop_reason\":";
  out += ending.reason == FinishReason::length       ? "\"max_tokens\""
         : by_string                                 ? "\"stop_sequence\""
         : ending.reason == FinishReason::tool_calls ? "\"tool_use\""
                                                     : "\"end_turn\"";
  out += ",\"stop_sequence\":";
  if (by_string)
    append_json_string(out, ending.stop_string);
  else
    out += "null";
}

class Writer final : public ReplyWriter {
 public:
  // `own_stop`: a stop string that the server added and the client knows nothing of.
  Writer(const ServeEnv& env, const Job& job, std::string_view own_stop) : own_stop_(own_stop), ids_(job.name.calls) {
    head_ = "{\"id\":\"msg_" + job.name.id + "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":";
    append_json_string(head_, answering_model(env, job.generation));
    head_ += ",\"content\":[";
  }

  void begin(int64_t n_prompt, std::string& out) override {
    std::string data =
        "{\"type\":\"message_start\",\"message\":" + head_ + "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":";
    append_usage(data, {.n_prompt = n_prompt});
    append_sse_event(out, "message_start", "", data + "}}");
  }
  void delta(int, const Delta& delta, std::string& out) override {
    for (const AnswerPart& part : delta.parts) {
      switch (part.kind) {
        case PartKind::reasoning:
          append_delta(out, Block::thinking, R"({"type":"thinking_delta","thinking":)", part.text);
          break;
        case PartKind::text: append_delta(out, Block::text, R"({"type":"text_delta","text":)", part.text); break;
        case PartKind::call: open(Block::call, begin_call(part) + "{}}", out); break;
        case PartKind::arguments:
          append_delta(out, Block::call, R"({"type":"input_json_delta","partial_json":)", part.text);
          break;
      }
    }
  }
  void finish(int, const Ending& ending, std::string& out) override {
    if (n_blocks_ == 0) open(Block::text, kEmptyText, out);
    close(out);
    ending_ = seen(ending);
  }
  void end(const UsageTotals& usage, std::string& out) override {
    std::string data = R"({"type":"message_delta","delta":{)";
    append_stop(data, ending_);
    data += "},\"usage\":";
    append_usage(data, usage);
    append_sse_event(out, "message_delta", "", data + "}");
    append_sse_event(out, "message_stop", "", R"({"type":"message_stop"})");
  }
  void error(const HttpError& error, std::string& out) override {
    append_sse_event(out, "error", "", anthropic_error(error));
  }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override {
    const auto choice = std::make_shared<const ChoiceResult>(std::move(choices[0]));
    Pieces out;
    out.add(head_);
    add_blocks(choice, out);
    std::string tail = "],";
    append_stop(tail, seen(choice->ending));
    tail += ",\"usage\":";
    append_usage(tail, usage);
    out.add(tail + "}");
    return out;
  }

 private:
  enum class Block : uint8_t { none, thinking, text, call };
  static constexpr std::string_view kEmptyText = R"({"type":"text","text":""})";
  static constexpr std::string_view kEmptyThinking = R"({"type":"thinking","thinking":"","signature":""})";

  // Up to its input.
  std::string begin_call(const AnswerPart& part) const {
    std::string out = R"({"type":"tool_use","id":")" + call_id(ids_, 0, part.call) + R"(","name":)";
    append_json_string(out, part.text);
    return out + ",\"input\":";
  }

  // The parts in order; an empty text where the answer says nothing.
  void add_blocks(const std::shared_ptr<const ChoiceResult>& choice, Pieces& out) const {
    const AnswerParts& parts = choice->whole.parts;
    bool first = true;
    for (const AnswerPart& part : parts) {
      if (part.kind == PartKind::arguments) continue;
      if (!std::exchange(first, false)) out.add(",");
      if (part.kind == PartKind::call) {
        const std::string input = whole_arguments(parts, part.call);
        out.add(begin_call(part) + (input.empty() ? "{}" : input) + "}");
        continue;
      }
      const bool text = part.kind == PartKind::text;
      out.add(text ? R"({"type":"text","text":)" : R"({"type":"thinking","thinking":)");
      out.add_json_string(part.text, choice).add(text ? "}" : R"(,"signature":""})");
    }
    if (parts.has(PartKind::text) || parts.has(PartKind::call)) return;
    if (!first) out.add(",");
    out.add(kEmptyText);
  }

  // A block of the kind, unless one is open; calls have one each.
  void open(Block block, std::string_view content, std::string& out) {
    if (block == block_ && block != Block::call) return;
    if (n_blocks_ > 0) close(out);
    block_ = block;
    append_sse_event(out, "content_block_start", "",
                     R"({"type":"content_block_start","index":)" + std::to_string(n_blocks_++) +
                         R"(,"content_block":)" + std::string(content) + "}");
  }
  void close(std::string& out) const {
    append_sse_event(out, "content_block_stop", "",
                     R"({"type":"content_block_stop","index":)" + std::to_string(n_blocks_ - 1) + "}");
  }
  void append_delta(std::string& out, Block block, std::string_view form, std::string_view text) {
    if (block != Block::call) open(block, block == Block::text ? kEmptyText : kEmptyThinking, out);
    std::string data = R"({"type":"content_block_delta","index":)" + std::to_string(n_blocks_ - 1) + R"(,"delta":)" +
                       std::string(form);
    append_json_string(data, text);
    append_sse_event(out, "content_block_delta", "", data + "}}");
  }
  Ending seen(Ending ending) const {
    if (ending.stop_string == own_stop_) ending.stop_string.clear();
    return ending;
  }

  const std::string own_stop_;
  const uint64_t ids_;  // of the calls
  std::string head_;    // up to the content
  Ending ending_;
  Block block_ = Block::none;  // that is open
  int n_blocks_ = 0;
};

// What a block of a message adds to the turn's message, or before it: results of calls are messages of their own.
struct Turn {
  std::string_view role;
  std::string text, thinking;
  Json::Array calls, results;
  bool has_text = false;
};

ApiResult<void> read_result(const Args& block, const std::string& path, const Reading& reading, Turn& turn) {
  if (turn.role != "user") return refuse(bad_field(at_key(path, "type"), "is 'tool_result', which is the user's"));
  if (!block.has("tool_use_id")) return refuse(missing_field(at_key(path, "tool_use_id")));
  std::string text;
  if (const Json* content = block.find("content")) {
    QR_TRY(text, read_content(*content, at_key(path, "content"), reading));
  }
  turn.results.push_back(
      Json::Object{{"role", "tool"}, {"content", std::move(text)}, {"tool_call_id", block.text("tool_use_id")}});
  return {};
}

ApiResult<void> read_block(const Json& json, const std::string& path, const Reading& reading, Turn& turn) {
  const Json* kind = json.find("type");
  const std::string type = kind != nullptr && kind->as_string() != nullptr ? *kind->as_string() : "";
  const bool known = type == "text" || type == "thinking" || type == "redacted_thinking" || type == "tool_use" ||
                     type == "tool_result";
  if (!type.empty() && !known)
    return refuse(unsupported_field(at_key(path, "type"), "'" + shown(type) + "'; text, tool_use and tool_result are"));
  QR_TRY(const Args block, kBlockSchema.check(json, reading, path));
  if (type.empty()) return refuse(missing_field(at_key(path, "type")));
  if (type == "tool_result") return read_result(block, path, reading, turn);
  if (type == "text") {
    if (!block.has("text")) return refuse(missing_field(at_key(path, "text")));
    if (turn.has_text) turn.text += '\n';
    turn.text += block.text("text");
    turn.has_text = true;
    return {};
  }
  if (turn.role != "assistant")
    return refuse(bad_field(at_key(path, "type"), "is '" + shown(type) + "', which is the assistant's"));
  if (type == "thinking") turn.thinking += block.text("thinking");
  if (type != "tool_use") return {};
  for (const char* name : {"id", "name", "input"})
    if (!block.has(name)) return refuse(missing_field(at_key(path, name)));
  QR_TRY(Json call, call_message(block.text("id"), block.text("name"), block.find("input")->dump(), path));
  turn.calls.push_back(std::move(call));
  return {};
}

// Appends the messages that a message is: results first.
ApiResult<void> read_message(const Json& message, const std::string& path, const Reading& reading, Json::Array& out) {
  QR_TRY(const Args args, kMessageSchema.check(message, reading, path));
  if (!args.has("role")) return refuse(missing_field(at_key(path, "role")));
  Turn turn{.role = args.text("role"), .text = {}, .thinking = {}, .calls = {}, .results = {}};
  if (turn.role != "user" && turn.role != "assistant")
    return refuse(bad_field(at_key(path, "role"), "is '" + shown(turn.role) + "': it must be user or assistant"));
  const Json* content = args.find("content");
  const std::string at = at_key(path, "content");
  if (content == nullptr) return refuse(missing_field(at));
  if (content->as_string() != nullptr) {
    turn.text = *content->as_string();
    turn.has_text = true;
  } else {
    const Json::Array& blocks = *content->as_array();
    const auto n = static_cast<int64_t>(blocks.size());
    if (n > reading.limits.n_parts)
      return refuse(over_limit(at, "parts", n, reading.limits.n_parts, limit_note(&ServeLimits::n_parts)));
    for (int64_t i = 0; i < n; ++i)
      QR_TRY_VOID(read_block(blocks[static_cast<size_t>(i)], at_index(at, i), reading, turn));
  }
  for (Json& result : turn.results) out.push_back(std::move(result));
  if (!turn.results.empty() && !turn.has_text) return {};
  Json made = Json::Object{{"role", turn.role}, {"content", std::move(turn.text)}};
  if (!turn.calls.empty()) made.set("tool_calls", std::move(turn.calls));
  out.push_back(std::move(made));
  return {};
}

ApiResult<Tools> read_tools(const ApiRequest& request) {
  const Args& args = request.args;
  QR_TRY(Tools tools, read_tools(args.find("tools"), {false, "input_schema"}, request.reading));
  const Json* choice = args.find("tool_choice");
  if (choice == nullptr) return tools;
  QR_TRY(const Args inner, kChoiceSchema.check(*choice, request.reading, "tool_choice"));
  const std::string_view type = inner.text("type");
  if (type != "auto" && type != "any" && type != "tool" && type != "none")
    return refuse(bad_field("tool_choice.type", "is '" + shown(type) + "': it must be auto, any, tool or none"));
  if (tools.list.is_null() && (type == "any" || type == "tool")) return refuse(bad_field("tool_choice", "needs tools"));
  tools.only_one = inner.flag("disable_parallel_tool_use", false);
  tools.none = type == "none";
  if (type == "tool") {
    if (!inner.has("name")) return refuse(missing_field("tool_choice.name"));
    QR_TRY_VOID(choose_tools({std::string(inner.text("name"))}, "tool_choice.name", tools));
  }
  tools.required = type == "any" || type == "tool";
  return tools;
}

// Without the field a model does not think; one that cannot help it is heard all the same.
ApiResult<ChatOptions> read_thinking(const ApiRequest& request, const ServeEnv& env) {
  ChatOptions options;
  options.think = false;
  const Json* thinking = request.args.find("thinking");
  if (thinking == nullptr) return options;
  QR_TRY(const Args args, kThinkingSchema.check(*thinking, request.reading, "thinking"));
  const std::string_view type = args.text("type");
  if (type != "enabled" && type != "disabled" && type != "adaptive")
    return refuse(bad_field("thinking.type", "is '" + shown(type) + "': it must be enabled, adaptive or disabled"));
  options.think = type != "disabled";
  if (*options.think && env.reasoning.kind == ReasoningForm::Kind::none)
    request.reading.warnings.add("thinking has no effect: the model does not think");
  return options;
}

// The protocol demands a budget of whoever asks for thinking; a thinking_token_budget beside it counts instead.
void read_budget(const ApiRequest& request, const ServeEnv& env, Generation& g) {
  const Json* thinking = request.args.find("thinking");
  const Json* budget = thinking == nullptr ? nullptr : thinking->find("budget_tokens");
  const Json* type = thinking == nullptr ? nullptr : thinking->find("type");
  int64_t n = -1;
  if (budget == nullptr || *type->as_string() != "enabled" || !read_integer(*budget, n) || g.thinking_tokens >= 0)
    return;
  if (env.reasoning.kind == ReasoningForm::Kind::none) return;  // read_thinking has warned
  if (!one_mark_ends(env.reasoning))
    return request.reading.warnings.add(
        "thinking.budget_tokens has no effect: no single mark ends the model's thinking");
  g.thinking_tokens = n;
  g.thinking_field = "thinking.budget_tokens";
}

// "output_config", and "output_format" as its clients sent the same before.
ApiResult<void> read_output(const ApiRequest& request, MaybeGrammar& grammar) {
  const auto add = [&](const Json* format, const std::string& path) -> ApiResult<void> {
    if (format == nullptr) return {};
    QR_TRY(MaybeGrammar wanted, read_format(*format, path, request.reading));
    return add_grammar(std::move(wanted), grammar);
  };
  QR_TRY_VOID(add(request.args.find("output_format"), "output_format"));
  const Json* config = request.args.find("output_config");
  if (config == nullptr) return {};
  QR_TRY(const Args args, kOutputConfigSchema.check(*config, request.reading, "output_config"));
  return add(args.find("format"), "output_config.format");
}

// The conversation of either endpoint.
ApiResult<Json> read_conversation(const ApiRequest& request) {
  const Args& args = request.args;
  const Json* messages = args.find("messages");
  if (messages == nullptr) return refuse(missing_field("messages"));
  const auto& list = *messages->as_array();
  if (list.empty()) return refuse(bad_field("messages", "is empty"));
  Json::Array conversation;
  conversation.reserve(list.size() + 1);
  if (const Json* system = args.find("system")) {
    QR_TRY(std::string text, read_content(*system, "system", request.reading));
    conversation.push_back(Json::Object{{"role", "system"}, {"content", std::move(text)}});
  }
  for (size_t i = 0; i < list.size(); ++i) {
    QR_TRY_VOID(read_message(list[i], at_index("messages", static_cast<int64_t>(i)), request.reading, conversation));
  }
  return Json(std::move(conversation));
}

ApiResult<Call> messages(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Job job, begin_answer(request, env));
  QR_TRY_VOID(read_handover(request, env, job));
  if (!args.has("max_tokens")) return refuse(missing_field("max_tokens"));
  if (args.has("context_management"))
    request.reading.warnings.add("context_management has no effect: the whole conversation is read");
  if (job.generation.n != 1) return refuse(unsupported_field("n", "an answer has one choice here"));
  QR_TRY(Json conversation, read_conversation(request));
  QR_TRY(ChatOptions options, read_thinking(request, env));
  read_budget(request, env, job.generation);
  options.begun = find_begun(request.args, conversation);
  QR_TRY_VOID(read_output(request, job.generation.grammar));
  QR_TRY(const Tools tools, read_tools(request));
  options.tools = &tools;
  QR_TRY(const std::string_view own_stop, add_chat(std::move(conversation), options, env, job));
  job.writer = std::make_unique<Writer>(env, job, own_stop);
  return Call(std::move(job));
}

ApiResult<Call> count_tokens(const ApiRequest& request, const ServeEnv& env) {
  QR_TRY_VOID(check_model(request.args.text("model"), env, request.reading.warnings));
  QR_TRY(Json conversation, read_conversation(request));
  QR_TRY(ChatOptions options, read_thinking(request, env));
  options.begun = find_begun(request.args, conversation);
  QR_TRY(const Tools tools, read_tools(request));
  options.tools = &tools;
  QR_TRY(const ChatPrompt prompt, render_chat(std::move(conversation), options, env));
  return Call(Answer{.body = "{\"input_tokens\":" + std::to_string(prompt.tokens.size()) + "}"});
}

const Api kApi{{
    {.method = "POST",
     .path = "/v1/messages",
     .schema = &kMessages,
     .parse = &messages,
     .error_text = &anthropic_error,
     .summary = "Anthropic: the next message of a conversation"},
    {.method = "POST",
     .path = "/v1/messages/count_tokens",
     .schema = &kCount,
     .parse = &count_tokens,
     .error_text = &anthropic_error,
     .summary = "Anthropic: the tokens of a conversation"},
}};
QR_REGISTER(Api, "anthropic", kApi);

}  // namespace
}  // namespace quire
