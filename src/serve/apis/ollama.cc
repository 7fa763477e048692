// Ollama's dialect: /api/chat and /api/generate. Streams are lines of JSON and on by default.
#include "serve/ollama.h"

#include <ctime>

#include "base/utc_time.h"
#include "http/error_form.h"
#include "serve/api.h"
#include "serve/logprobs.h"
#include "serve/messages.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kCommon[] = {
    field_of("model", kString, &ServeLimits::name_bytes),
    flag_field("stream"),
    field_of("options", kObject),
    field_of("format", kString | kObject),
    field_of("think", kBool | kString),
    unsupported("logprobs", "false"),
    unsupported("top_logprobs", "0"),
    ignored_field("keep_alive"),
    foreign_object("sampling_params"),
    foreign_object("parameters"),
};
constexpr Field kChat[] = {
    field_of("messages", kArray, &ServeLimits::n_messages),
    field_of("tools", kArray, &ServeLimits::n_tools),
};
constexpr Field kGenerate[] = {
    field_of("prompt", kString),   field_of("system", kString), flag_field("raw"),
    unsupported("suffix", "\"\""), unsupported("images", "[]"), unsupported("template", "\"\""),
    field_of("context", kArray),
};
constexpr Field kMessage[] = {
    field_of("role", kString),       field_of("content", kString),
    unsupported("images", "[]"),     field_of("tool_calls", kArray, &ServeLimits::n_calls),
    ignored_field("thinking"),       field_of("tool_name", kString, &ServeLimits::name_bytes),
    other_name("name", "tool_name"), field_of("tool_call_id", kString, &ServeLimits::name_bytes),
};
// What only tells the runtime of the reference how to load a model changes nothing here.
constexpr Field kOptions[] = {
    integer_field("num_predict", -2, kNoMax),
    ignored_field("num_ctx"),
    ignored_field("num_keep"),
    ignored_field("num_batch"),
    ignored_field("num_gpu"),
    ignored_field("main_gpu"),
    ignored_field("num_thread"),
    ignored_field("numa"),
    ignored_field("low_vram"),
    ignored_field("use_mmap"),
    ignored_field("use_mlock"),
    ignored_field("vocab_only"),
    ignored_field("penalize_newline"),
    ignored_field("tfs_z"),
    ignored_field("f16_kv"),
};
const Schema kChatSchema({kCommon, kChat, handover_fields()});
const Schema kGenerateSchema({kCommon, kGenerate, handover_fields()});
constexpr Field kCall[] = {field_of("function", kObject), field_of("id", kString, &ServeLimits::name_bytes),
                           ignored_field("type")};
constexpr Field kCalled[] = {field_of("name", kString, &ServeLimits::name_bytes), field_of("arguments", kObject),
                             ignored_field("index")};
const Schema kMessageSchema({kMessage});
const Schema kCallSchema({kCall});
const Schema kCalledSchema({kCalled});
const Schema kOptionsSchema({kOptions, sampling_fields(), foreign_fields(), no_progress_fields()});

constexpr int kRepeatLastN = 64;

class Writer final : public ReplyWriter {
 public:
  // `context`: the prompt's tokens where the answer is told with all tokens so far; empty: it is not.
  Writer(const ServeEnv& env, std::string_view model, bool chat, std::vector<Token> context = {})
      : chat_(chat), end_(env.tokenizer->spec().eos), context_(std::move(context)) {
    head_ = "{\"model\":";
    append_json_string(head_, model);
    head_ += ",\"created_at\":\"";
  }

  HttpHeaders stream_headers() const override { return {{"Content-Type", std::string(kNdjson)}}; }
  void begin(int64_t, std::string&) override {}
  void delta(int, const Delta& delta, std::string& out) override {
    add_context(delta.tokens);
    AnswerParts shown;
    for (const AnswerPart& part : delta.parts) {
      if (part.kind == PartKind::call) tell_calls(out);
      if (part.kind == PartKind::call) calls_.add_call(part.call, part.text);
      if (part.kind == PartKind::arguments) calls_.add_arguments(part.call, part.text);
      if (part.kind == PartKind::text || part.kind == PartKind::reasoning) shown.add(part.kind, part.text);
    }
    if (shown.empty()) return;
    append_parts(out, shown);
    out += ",\"done\":false}\n";
  }
  void finish(int, const Ending& ending, std::string& out) override {
    tell_calls(out);
    reason_ = ending.reason;
  }
  void end(const UsageTotals& usage, std::string& out) override {
    append_parts(out, {});
    out += tail(usage) + "\n";
  }
  void error(const HttpError& error, std::string& out) override { out += ollama_error(error) + "\n"; }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override {
    reason_ = choices[0].ending.reason;
    const auto choice = std::make_shared<const ChoiceResult>(std::move(choices[0]));
    Pieces out;
    add_context(choice->whole.tokens);
    const AnswerParts& parts = choice->whole.parts;
    out.add(begin_text());
    add_joined(out, parts, PartKind::text, choice);
    if (parts.has(PartKind::reasoning)) {
      out.add(",\"thinking\":");
      add_joined(out, parts, PartKind::reasoning, choice);
    }
    out.add(calls_of(parts) + (chat_ ? "}" : "") + tail(usage));
    return out;
  }
  // The answer to a request that only asks whether the model is there.
  std::string loaded() const {
    std::string out;
    append_parts(out, {});
    return out + ",\"done\":true,\"done_reason\":\"load\"}";
  }

 private:
  // A call is told when it is whole.
  void tell_calls(std::string& out) {
    if (calls_.empty()) return;
    append_parts(out, calls_);
    out += ",\"done\":false}\n";
    calls_.clear();
  }
  // ,"tool_calls":[…], nothing where there are none; without those that were cut off.
  static std::string calls_of(const AnswerParts& parts) {
    std::string out;
    for (const AnswerPart& part : parts) {
      const std::string arguments = part.kind == PartKind::call ? whole_arguments(parts, part.call) : "";
      if (arguments.empty()) continue;
      out += out.empty() ? ",\"tool_calls\":[" : ",";
      out += "{\"function\":{\"name\":";
      append_json_string(out, part.text);
      out += ",\"arguments\":" + arguments + "}}";
    }
    return out.empty() ? out : out + "]";
  }
  std::string begin_text() const {
    return head_ + utc_time(std::time(nullptr)) + "\"," +
           (chat_ ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"response\":");
  }
  void append_parts(std::string& out, const AnswerParts& parts) const {
    out += begin_text();
    append_joined(out, parts, PartKind::text);
    if (parts.has(PartKind::reasoning)) {
      out += ",\"thinking\":";
      append_joined(out, parts, PartKind::reasoning);
    }
    out += calls_of(parts);
    if (chat_) out += '}';
  }
  void add_context(const std::vector<TokenText>& tokens) {
    if (context_.empty()) return;
    for (const TokenText& token : tokens) context_.push_back(token.id);
  }
  // "context":[…],
  std::string told_context() const {
    if (context_.empty()) return {};
    std::string out = ",\"context\":[";
    append_ids(out, context_);
    if (reason_ != FinishReason::length && end_ >= 0) out += "," + std::to_string(end_);
    return out + "]";
  }
  std::string tail(const UsageTotals& usage) const {
    return told_context() + ",\"done\":true,\"done_reason\":\"" +
           std::string(reason_ == FinishReason::length ? "length" : "stop") +
           "\",\"total_duration\":" + std::to_string(usage.total_ns) + ",\"load_duration\":0" +
           ",\"prompt_eval_count\":" + std::to_string(usage.n_prompt) +
           ",\"prompt_eval_duration\":" + std::to_string(usage.first_token_ns - usage.queued_ns) +
           ",\"eval_count\":" + std::to_string(usage.n_generated) +
           ",\"eval_duration\":" + std::to_string(usage.total_ns - usage.first_token_ns) + "}";
  }

  const bool chat_;
  const Token end_;  // -1: none
  std::vector<Token> context_;
  FinishReason reason_ = FinishReason::stop;
  std::string head_;
  AnswerParts calls_;  // not yet told
};

ApiResult<Generation> read_options(const ApiRequest& request, AskedModel asked, const ServeEnv& env) {
  static const Json kNone{Json::Object{}};
  const Json* options = request.args.find("options");
  QR_TRY(const Args args, kOptionsSchema.check(options != nullptr ? *options : kNone, request.reading, "options"));
  if (args.integer("n", 1) != 1) return refuse(unsupported_field("options.n", "an answer has one choice here"));
  QR_TRY(Generation g, read_answer(args, std::move(asked), request.reading, env));
  if (!args.has("repeat_last_n")) g.sampling.repeat_last_n = kRepeatLastN;
  if (args.integer("num_predict", 0) > 0) {
    g.max_tokens = args.integer("num_predict", 0);
    g.max_tokens_field = "options.num_predict";
  }
  return g;
}

// Calls whose arguments are objects.
ApiResult<Json::Array> read_object_calls(const Json& list, const std::string& path, const Reading& reading) {
  Json::Array out;
  for (const Json& call : *list.as_array()) {
    const std::string at = at_index(path, static_cast<int64_t>(out.size()));
    QR_TRY(const Args args, kCallSchema.check(call, reading, at));
    const std::string inner = at_key(at, "function");
    if (!args.has("function")) return refuse(missing_field(inner));
    QR_TRY(const Args called, kCalledSchema.check(*args.find("function"), reading, inner));
    if (called.text("name").empty()) return refuse(missing_field(at_key(inner, "name")));
    const Json* arguments = called.find("arguments");
    QR_TRY(Json message, call_message(args.text("id"), called.text("name"),
                                      arguments != nullptr ? arguments->dump() : "{}", at_key(inner, "arguments")));
    out.push_back(std::move(message));
  }
  return out;
}

ApiResult<Json> read_message(const Json& message, const std::string& path, const Reading& reading) {
  QR_TRY(const Args args, kMessageSchema.check(message, reading, path));
  if (!args.has("role")) return refuse(missing_field(at_key(path, "role")));
  const std::string_view role = args.text("role");
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    return refuse(
        bad_field(at_key(path, "role"), "is '" + shown(role) + "': it must be system, user, assistant or tool"));
  Json out = Json::Object{{"role", role}, {"content", args.text("content")}};
  if (args.has("tool_call_id")) out.set("tool_call_id", args.text("tool_call_id"));
  if (role == "tool" && args.has("tool_name")) out.set("name", args.text("tool_name"));
  const Json* calls = args.find("tool_calls");
  if (calls == nullptr || calls->as_array()->empty()) return out;
  QR_TRY(Json::Array list, read_object_calls(*calls, at_key(path, "tool_calls"), reading));
  out.set("tool_calls", std::move(list));
  return out;
}

// "json", or a schema.
ApiResult<MaybeGrammar> read_ollama_format(const Args& args) {
  const Json* format = args.find("format");
  if (format == nullptr) return MaybeGrammar();
  const std::string* name = format->as_string();
  if (name == nullptr) return MaybeGrammar(wanted_schema(*format, "format"));
  if (name->empty()) return MaybeGrammar();
  if (*name != "json") return refuse(bad_field("format", "is '" + shown(*name) + "': it must be json or a schema"));
  return MaybeGrammar(wanted_object("format"));
}

// A call but for its prompt and writer.
ApiResult<Job> start_job(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  Job job;
  QR_TRY(AskedModel asked, check_model(plain_name(args.text("model")), env, request.reading.warnings));
  QR_TRY(job.generation, read_options(request, std::move(asked), env));
  QR_TRY(MaybeGrammar format, read_ollama_format(args));
  QR_TRY_VOID(add_grammar(std::move(format), job.generation.grammar));
  job.stream = args.flag("stream", true);
  job.prompt_field = "prompt";
  QR_TRY_VOID(read_handover(request, env, job));
  return job;
}

ApiResult<void> add_chat_prompt(
    Json::Array messages, const Args& args, const Tools& tools, const ServeEnv& env, Job& job) {
  ChatOptions options;
  options.tools = &tools;
  Json conversation(std::move(messages));
  if (args.has("messages")) options.begun = find_begun(args, conversation);
  if (const Json* think = args.find("think")) {
    options.think = think->as_bool() == nullptr || *think->as_bool();
    if (think->as_string() != nullptr) QR_TRY_VOID(read_effort(*think->as_string(), "think", options));
    if (*options.think) QR_TRY_VOID(check_thinks(env, "think"));
  }
  QR_TRY_VOID(add_chat(std::move(conversation), options, env, job));
  return {};
}

ApiResult<Call> chat(const ApiRequest& request, const ServeEnv& env) {
  QR_TRY(Job job, start_job(request, env));
  const Json* messages = request.args.find("messages");
  if (messages == nullptr || messages->as_array()->empty())
    return Call(Answer{.body = Writer(env, env.models[0], true).loaded()});
  Json::Array conversation;
  conversation.reserve(messages->as_array()->size());
  for (const Json& message : *messages->as_array()) {
    const std::string path = at_index("messages", static_cast<int64_t>(conversation.size()));
    QR_TRY(Json read, read_message(message, path, request.reading));
    conversation.push_back(std::move(read));
  }
  QR_TRY(const Tools tools, read_tools(request.args.find("tools"), {}, request.reading));
  QR_TRY_VOID(add_chat_prompt(std::move(conversation), request.args, tools, env, job));
  job.writer = std::make_unique<Writer>(env, answering_model(env, job.generation), true);
  return Call(std::move(job));
}

// The tokens of an earlier answer stand before the prompt.
ApiResult<void> add_context(const Json* context, const ServeEnv& env, std::vector<Token>& prompt) {
  if (context == nullptr || context->as_array()->empty()) return {};
  std::vector<Token> all;
  QR_TRY_VOID(read_token_ids(*context, "context", env.tokenizer->n_vocab(), all));
  const Token bos = env.tokenizer->spec().bos;
  const bool twice = bos >= 0 && !prompt.empty() && prompt.front() == bos && all.front() == bos;
  all.insert(all.end(), prompt.begin() + (twice ? 1 : 0), prompt.end());
  prompt = std::move(all);
  return {};
}

ApiResult<Call> generate(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Job job, start_job(request, env));
  const std::string_view prompt = args.text("prompt");
  if (prompt.empty()) return Call(Answer{.body = Writer(env, env.models[0], false).loaded()});
  const bool raw = args.flag("raw", false);
  if (raw) {
    const EncodeOptions options{.add_special = true, .parse_special = true};
    QR_TRY_VOID(encode_text(*env.tokenizer, prompt, options, "prompt", job.prompts.emplace_back()));
    if (job.prompts.back().empty()) return refuse(bad_field("prompt", "holds no tokens"));
  } else {
    Json::Array conversation;
    if (args.has("system")) conversation.push_back(Json::Object{{"role", "system"}, {"content", args.text("system")}});
    conversation.push_back(Json::Object{{"role", "user"}, {"content", prompt}});
    QR_TRY_VOID(add_chat_prompt(std::move(conversation), args, {}, env, job));
    job.prompt_field = "prompt";
    job.want_ids = true;
  }
  QR_TRY_VOID(add_context(args.find("context"), env, job.prompts.back()));
  job.writer = std::make_unique<Writer>(env, answering_model(env, job.generation), false,
                                        raw ? std::vector<Token>() : job.prompts.back());
  return Call(std::move(job));
}

const Api kApi{{
    {.method = "POST",
     .path = "/api/chat",
     .schema = &kChatSchema,
     .parse = &chat,
     .error_text = &ollama_error,
     .summary = "Ollama: the next message of a conversation"},
    {.method = "POST",
     .path = "/api/generate",
     .schema = &kGenerateSchema,
     .parse = &generate,
     .error_text = &ollama_error,
     .summary = "Ollama: the answer to a prompt"},
}};
QR_REGISTER(Api, "ollama", kApi);

}  // namespace
}  // namespace quire
