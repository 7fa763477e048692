// /v1/responses: one turn of a conversation that the server may keep, so that the next one names it instead of sending
// everything again. Text only; an answer is a list of items, the reasoning first where the model thinks.
#include <ctime>

#include "serve/api.h"
#include "serve/logprobs.h"
#include "serve/messages.h"
#include "serve/openai.h"
#include "serve/response_store.h"
#include "serve/seeds.h"

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
    unsupported("tools", "[]"),
    unsupported("tool_choice", "\"none\"", "\"auto\""),
    unsupported("truncation", "\"disabled\""),
    unsupported("background", "false"),
    unsupported("conversation"),
    unsupported("prompt"),
    unsupported("max_tool_calls"),
    unsupported("context_management", "[]"),
    ignored_field("stream_options"),
    ignored_field("parallel_tool_calls"),
    ignored_field("user"),
    ignored_field("safety_identifier"),
    ignored_field("service_tier"),
    ignored_field("prompt_cache_key"),
    ignored_field("prompt_cache_retention"),
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
};
constexpr Field kPart[] = {field_of("type", kString), field_of("text", kString), ignored_field("annotations"),
                           ignored_field("logprobs")};
const Schema kSchema({kFields, chat_fields(), sampling_fields()});
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

struct Keep {  // null store: the answer is not kept
  ResponseStore* store = nullptr;
  Asker asker{};
  Json::Array input, conversation;
};

class Writer final : public ReplyWriter {
 public:
  // `echo`: what of the request the answer repeats.
  Writer(const ServeEnv& env, Json::Object echo, Keep keep)
      : tokenizer_(*env.tokenizer),
        echo_(std::move(echo)),
        keep_(std::move(keep)),
        number_(env.seeds->id()),
        created_(std::time(nullptr)) {}

  void begin(int64_t, std::string& out) override {
    for (const char* type : {"response.created", "response.in_progress"})
      event(out, type, ",\"response\":" + begin_response("in_progress") + end_response(nullptr));
  }
  void delta(int, const Delta& delta, std::string& out) override {
    for (const AnswerPart& part : delta.parts) {
      if (part.kind != PartKind::reasoning) continue;
      open(Kind::reasoning, out);
      append_delta(part.text, {}, out);
    }
    if (!delta.parts.has(PartKind::text) && delta.tokens.empty()) return;
    open(Kind::message, out);
    append_delta(delta.parts.joined(PartKind::text), delta.tokens, out);
  }
  void finish(int, const Ending& ending, std::string& out) override {
    reason_ = ending.reason;
    open(Kind::message, out);  // even where nothing was said: whoever sends the items back sends the turn that is kept
    close(out);
  }
  void end(const UsageTotals& usage, std::string& out) override {
    std::string body = begin_response(end_status()) + items_ + end_response(usage_object(usage));
    event(out, "response." + std::string(end_status()), ",\"response\":" + body);
    if (keep_.store != nullptr) keep(std::move(body));
  }
  void error(const HttpError& error, std::string& out) override {
    const std::string body = error_body(error);
    std::string rest = ",\"code\":";
    append_json_string(rest, error.code);
    rest += ",\"message\":";
    append_json_string(rest, error.message);
    rest += ",\"param\":null,";
    event(out, "error", rest + body.substr(1, body.size() - 2));
  }
  bool keeps_all() const override { return true; }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override {
    const auto choice = std::make_shared<const ChoiceResult>(std::move(choices[0]));
    reason_ = choice->ending.reason;
    Pieces out;
    out.add(begin_response(end_status()));
    const AnswerParts& parts = choice->whole.parts;
    if (parts.has(PartKind::reasoning)) {
      kind_ = Kind::reasoning;
      out.add(begin_item(end_status()) + begin_part());
      add_joined(out, parts, PartKind::reasoning, choice);
      out.add("}]},");
    }
    kind_ = Kind::message;
    out.add(begin_item(end_status()) + begin_part());
    add_joined(out, parts, PartKind::text, choice);
    out.add(",\"annotations\":[],\"logprobs\":[");
    add_logprob_list(out, choice, tokenizer_);
    out.add("]}]}" + end_response(usage_object(usage)));
    if (keep_.store == nullptr) return out;
    out.when_written(keep_.store->max_bytes(), [this, choice](std::string body) {
      answer_ = choice->whole.parts.joined(PartKind::text);
      keep(std::move(body));
    });
    return out;
  }

 private:
  enum class Kind : uint8_t { none, reasoning, message };

  void event(std::string& out, std::string_view type, std::string_view rest) {
    append_sse_event(out, type, "",
                     "{\"type\":\"" + std::string(type) + "\",\"sequence_number\":" + std::to_string(n_events_++) +
                         std::string(rest) + "}");
  }
  std::string at_item() const {
    return ",\"item_id\":\"" + item_id() + "\",\"output_index\":" + std::to_string(n_items_);
  }
  std::string item_id() const { return (kind_ == Kind::message ? "msg_" : "rs_") + number_; }
  std::string_view end_status() const { return reason_ == FinishReason::length ? "incomplete" : "completed"; }

  // Of the item that is open: up to its content, up to its part's text, and the part as far as it came.
  std::string begin_item(std::string_view status) const {
    const bool message = kind_ == Kind::message;
    return "{\"id\":\"" + item_id() + "\",\"type\":\"" + (message ? "message" : "reasoning") + "\",\"status\":\"" +
           std::string(status) + (message ? "\",\"role\":\"assistant\"" : "\",\"summary\":[]") + ",\"content\":[";
  }
  std::string begin_part() const {
    return std::string("{\"type\":\"") + (kind_ == Kind::message ? "output_text" : "reasoning_text") + "\",\"text\":";
  }
  std::string part() const {
    std::string out = begin_part();
    append_json_string(out, text_);
    if (kind_ == Kind::message) out += ",\"annotations\":[],\"logprobs\":[" + logprobs_ + "]";
    return out + "}";
  }

  void open(Kind kind, std::string& out) {
    if (kind == kind_) return;
    close(out);
    kind_ = kind;
    event(out, "response.output_item.added",
          ",\"output_index\":" + std::to_string(n_items_) + ",\"item\":" + begin_item("in_progress") + "]}");
    event(out, "response.content_part.added", at_item() + ",\"content_index\":0,\"part\":" + part());
  }
  void append_delta(const std::string& text, const std::vector<TokenText>& tokens, std::string& out) {
    text_ += text;
    std::string rest = at_item() + ",\"content_index\":0,\"delta\":";
    append_json_string(rest, text);
    if (kind_ == Kind::message) {
      std::string list;
      append_logprob_list(list, tokens, tokenizer_);
      rest += ",\"logprobs\":" + list;
      if (!logprobs_.empty() && !tokens.empty()) logprobs_ += ',';
      logprobs_ += std::string_view(list).substr(1, list.size() - 2);
    }
    event(out, kind_ == Kind::message ? "response.output_text.delta" : "response.reasoning_text.delta", rest);
  }
  void close(std::string& out) {
    if (kind_ == Kind::none) return;
    std::string rest = at_item() + ",\"content_index\":0,\"text\":";
    append_json_string(rest, text_);
    if (kind_ == Kind::message) rest += ",\"logprobs\":[" + logprobs_ + "]";
    event(out, kind_ == Kind::message ? "response.output_text.done" : "response.reasoning_text.done", rest);
    const std::string whole_part = part();
    event(out, "response.content_part.done", at_item() + ",\"content_index\":0,\"part\":" + whole_part);
    const std::string whole = begin_item(end_status()) + whole_part + "]}";
    event(out, "response.output_item.done", ",\"output_index\":" + std::to_string(n_items_) + ",\"item\":" + whole);
    if (n_items_++ > 0) items_ += ',';
    items_ += whole;
    if (kind_ == Kind::message) answer_ = std::move(text_);
    text_.clear();
    logprobs_.clear();
    kind_ = Kind::none;
  }

  // The response up to its items, and what comes behind them.
  std::string begin_response(std::string_view status) const {
    Json out = Json::Object{{"id", "resp_" + number_}, {"object", "response"}, {"created_at", created_}};
    out.set("status", status);
    out.set("error", nullptr);
    const bool cut = status == "incomplete";
    out.set("incomplete_details", cut ? Json(Json::Object{{"reason", "max_output_tokens"}}) : Json());
    std::string text = out.dump();
    text.pop_back();
    return text + ",\"output\":[";
  }
  std::string end_response(Json usage) const {
    Json out = echo_;
    out.set("usage", std::move(usage));
    return "]," + out.dump().substr(1);
  }
  static Json usage_object(const UsageTotals& u) {
    return Json::Object{
        {"input_tokens", u.n_prompt},
        {"input_tokens_details",
         Json::Object{{"cached_tokens", u.n_cached},
                      {"cached_tokens_by_tier", Json::Object{{"memory", u.n_cached - u.n_disk}, {"disk", u.n_disk}}}}},
        {"output_tokens", u.n_generated},
        {"output_tokens_details", Json::Object{{"reasoning_tokens", u.n_reasoning}}},
        {"total_tokens", u.n_prompt + u.n_generated}};
  }
  // REQUIRES answer_.
  void keep(std::string body) {
    keep_.conversation.push_back(Json::Object{{"role", "assistant"}, {"content", std::move(answer_)}});
    keep_.store->put(
        "resp_" + number_, {keep_.asker.owner, keep_.asker.tenant},
        {std::move(body), Json(std::move(keep_.input)).dump(), Json(std::move(keep_.conversation)).dump()});
  }

  const Tokenizer& tokenizer_;
  const Json::Object echo_;
  Keep keep_;
  const std::string number_;
  const int64_t created_;
  int64_t n_events_ = 0;
  Kind kind_ = Kind::none;       // of the item that is open
  std::string text_, logprobs_;  // of it; the entries of a list
  std::string items_;            // that are closed, likewise
  int n_items_ = 0;
  std::string answer_;
  FinishReason reason_ = FinishReason::stop;
};

// Appends the item's message; reasoning that comes back is left out, as templates have it of earlier turns.
ApiResult<void> read_item(const Json& item, const std::string& path, const Reading& reading, Json::Array& out) {
  const Json* kind = item.find("type");
  if (kind != nullptr && kind->as_string() != nullptr && *kind->as_string() == "reasoning") return {};
  if (kind != nullptr && kind->as_string() != nullptr && *kind->as_string() != "message")
    return refuse(unsupported_field(at_key(path, "type"), "'" + shown(*kind->as_string()) + "'; only message is"));
  QR_TRY(const Args args, kItemSchema.check(item, reading, path));
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

// What was said before, of an answer that is kept.
ApiResult<Json::Array> read_previous(const ApiRequest& request, const ServeEnv& env) {
  if (!request.args.has("previous_response_id")) return Json::Array{};
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
  return {{"model", env.models[0]},
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
          {"tools", Json::Array{}},
          {"tool_choice", "auto"},
          {"parallel_tool_calls", false},
          {"background", false}};
}

ApiResult<Call> create(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Job job, begin_answer(request, env));
  if (job.generation.n != 1) return refuse(unsupported_field("n", "an answer has one choice here"));
  QR_TRY_VOID(read_logprobs(args, job.generation.sampling.n_logprobs));
  QR_TRY(const ChatOptions options, read_options(request, job.generation.grammar));
  Keep keep;
  QR_TRY(keep.conversation, read_previous(request, env));
  QR_TRY(keep.input, read_input(args, request.reading));
  keep.conversation.insert(keep.conversation.end(), keep.input.begin(), keep.input.end());
  Json::Array messages = keep.conversation;
  if (args.has("instructions"))
    messages.insert(messages.begin(), Json::Object{{"role", "system"}, {"content", args.text("instructions")}});
  QR_TRY_VOID(add_chat(Json(std::move(messages)), options, env, job));
  job.prompt_field = "input";
  keep.asker = request.asker;
  if (args.flag("store", true)) keep.store = env.responses;
  job.writer = std::make_unique<Writer>(env, echo_of(args, env, job.generation), std::move(keep));
  return Call(std::move(job));
}

// The messages as the items that they were.
std::string input_items(const StoredResponse& stored) {
  Json::Array data;
  const auto input = Json::parse(stored.input);
  QR_CHECK(input.has_value() && input->as_array() != nullptr);
  data.reserve(input->as_array()->size());
  for (const Json& message : *input->as_array()) {
    const bool answer = *message.find("role")->as_string() == "assistant";
    Json part = Json::Object{{"type", answer ? "output_text" : "input_text"}, {"text", *message.find("content")}};
    data.push_back(Json::Object{{"id", "item_" + std::to_string(data.size())},
                                {"type", "message"},
                                {"role", *message.find("role")},
                                {"status", "completed"},
                                {"content", Json::Array{std::move(part)}}});
  }
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
     .schema = &kSchema,
     .parse = &create,
     .summary = "OpenAI: one turn of a conversation that may be kept"},
    {.method = "GET", .path = "/v1/responses/*", .quick = true, .parse = &retrieve, .summary = "A kept response"},
    {.method = "DELETE", .path = "/v1/responses/*", .quick = true, .parse = &erase, .summary = "Forgets a response"},
}};
QR_REGISTER(Api, "openai_responses", kApi);

}  // namespace
}  // namespace quire
