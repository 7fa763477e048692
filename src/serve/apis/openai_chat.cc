// POST /v1/chat/completions: a conversation in, the assistant's next message out.
#include "serve/api.h"
#include "serve/custom_tools.h"
#include "serve/llama.h"
#include "serve/logprobs.h"
#include "serve/messages.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kFields[] = {
    field_of("messages", kArray, &ServeLimits::n_messages),
    flag_field("logprobs"),
    flag_field("verbose"),
    count_field("top_logprobs", 0, &ServeLimits::n_logprobs),
    unsupported("best_of", "1"),
    unsupported("echo", "false"),
    unsupported("chat_template"),
    unsupported("add_special_tokens", "false"),
    unsupported("documents", "[]"),
    field_of("tools", kArray, &ServeLimits::n_tools),
    field_of("tool_choice", kString | kObject),
    flag_field("parallel_tool_calls"),
    unsupported("functions", "[]"),
    unsupported("function_call", "\"none\"", "\"auto\""),
    unsupported("modalities", "[\"text\"]"),
    unsupported("audio"),
    unsupported("prediction"),
    unsupported("web_search_options"),
    unsupported("verbosity", "\"medium\""),
    unsupported("store", "false"),
};
const Schema kSchema({kFields, chat_fields(), begun_fields(), sampling_fields(), foreign_fields(), openai_fields(),
                      handover_fields()});

class Writer final : public OpenaiWriter {
 public:
  // `customs`: Tools::custom_names.
  Writer(const ServeEnv& env, const Job& job, const OpenaiCommon& common, std::vector<std::string> customs)
      : OpenaiWriter({"chatcmpl-", "chat.completion", "chat.completion.chunk", false}, env, job, common),
        ids_(job.name.calls),
        customs_(std::move(customs)),
        open_(static_cast<size_t>(n_choices())) {}

  void begin(int64_t n_prompt, std::string& out) override {
    OpenaiWriter::begin(n_prompt, out);
    for (int i = 0; i < n_choices(); ++i) append_chunk(i, "\"delta\":{\"role\":\"assistant\",\"content\":null}", out);
  }

 private:
  void append_delta(int choice, const Delta& delta, std::string& out) override {
    out += "\"delta\":{";
    const bool reasons = delta.parts.has(PartKind::reasoning);
    if (reasons) {
      out += "\"reasoning_content\":";
      append_joined(out, delta.parts, PartKind::reasoning);
    }
    if (delta.parts.has(PartKind::text)) {
      out += reasons ? ",\"content\":" : "\"content\":";
      append_joined(out, delta.parts, PartKind::text);
    }
    if (delta.parts.has(PartKind::call) || delta.parts.has(PartKind::arguments)) {
      if (out.back() != '{') out += ',';
      append_calls(choice, delta.parts, out);
    }
    out += '}';
  }
  // An entry a call, its name where that is new.
  void append_calls(int choice, const AnswerParts& parts, std::string& out) {
    out += "\"tool_calls\":[";
    OpenCall& call = open_[static_cast<size_t>(choice)];
    int open = -1;
    for (const AnswerPart& part : parts) {
      if (part.kind != PartKind::call && part.kind != PartKind::arguments) continue;
      if (part.call != open) {
        if (open >= 0) out += "\"}},";
        open = part.call;
        out += "{\"index\":" + std::to_string(part.call) + ",";
        if (part.kind == PartKind::call) {
          call = {is_custom_call(customs_, part.text), {}};
          out += begin_call(choice, part);
        } else {
          out += call.custom ? "\"custom\":{\"input\":\"" : "\"function\":{\"arguments\":\"";
        }
      }
      if (part.kind != PartKind::arguments) continue;
      if (call.custom)
        out += call.input.push(part.text);
      else
        append_json_text(out, part.text);
    }
    out += "\"}}]";
  }
  // Up to the text of its arguments, or of its input.
  std::string begin_call(int choice, const AnswerPart& part) const {
    const bool custom = is_custom_call(customs_, part.text);
    const char* type =
        custom ? "\",\"type\":\"custom\",\"custom\":{\"name\":" : "\",\"type\":\"function\",\"function\":{\"name\":";
    std::string out = "\"id\":\"" + call_id(ids_, choice, part.call) + type;
    append_json_string(out, part.text);
    return out + (custom ? ",\"input\":\"" : ",\"arguments\":\"");
  }
  void add_calls(const Shared& choice, Pieces& out) const {
    bool first = true, custom = false;
    for (const AnswerPart& part : choice->whole.parts) {
      if (part.kind == PartKind::call) {
        out.add(first ? ",\"tool_calls\":[{" : "\"}},{").add(begin_call(choice->index, part));
        first = false;
        custom = is_custom_call(customs_, part.text);
      }
      if (part.kind != PartKind::arguments) continue;
      if (custom)
        add_input(part.text, choice, out);
      else
        out.add_json_text(part.text, choice);
    }
    if (!first) out.add("\"}}]");
  }
  void add_whole(const Shared& choice, Pieces& out) override {
    const AnswerParts& parts = choice->whole.parts;
    out.add("\"message\":{\"role\":\"assistant\",\"content\":");
    if (parts.has(PartKind::call) && !parts.has(PartKind::text))
      out.add("null");
    else
      add_joined(out, parts, PartKind::text, choice);
    if (parts.has(PartKind::reasoning)) {
      out.add(",\"reasoning_content\":");
      add_joined(out, parts, PartKind::reasoning, choice);
    }
    add_calls(choice, out);
    out.add(",\"refusal\":null}");
  }
  void append_logprobs(int, std::span<const TokenText> tokens, std::string& out) override {
    if (!want_logprobs())
      out += "null";
    else
      append_chat_logprobs(out, tokens, tokenizer());
  }
  void add_logprobs(const Shared& choice, Pieces& out) override {
    if (!want_logprobs())
      out.add("null");
    else
      add_chat_logprobs(out, choice, tokenizer());
  }

  struct OpenCall {  // of a stream
    bool custom = false;
    CustomInputReader input;
  };
  const uint64_t ids_;  // of the calls
  const std::vector<std::string> customs_;
  std::vector<OpenCall> open_;  // of each choice
};

ApiResult<int> read_logprobs(const Args& args) {
  const bool wanted = args.flag("logprobs", false);
  if (args.has("top_logprobs") && args.integer("top_logprobs", 0) > 0 && !wanted)
    return refuse(bad_field("top_logprobs", "needs \"logprobs\": true"));
  return wanted ? static_cast<int>(args.integer("top_logprobs", 0)) : -1;
}

ApiResult<Call> parse(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  Job job;
  QR_TRY(OpenaiCommon common, read_openai(request, env, job));
  QR_TRY(job.generation.sampling.n_logprobs, read_logprobs(args));
  if (job.generation.prompt_only) return refuse(bad_field(job.generation.max_tokens_field, "is 0: the minimum is 1"));
  ChatInput chat;
  QR_TRY_VOID(read_chat_input(request, chat));
  QR_TRY_VOID(add_chat(std::move(chat.messages), chat.options, env, job));
  if (args.flag("verbose", env.chat_defaults.verbose)) {
    common.verbose = llama_verbose(env, job);
    job.told_bytes += static_cast<int64_t>(common.verbose.size());
  }
  job.writer = std::make_unique<Writer>(env, job, common, chat.tools.custom_names());
  return Call(std::move(job));
}

// How many tokens the prompt of such a request has.
ApiResult<Call> count(const ApiRequest& request, const ServeEnv& env) {
  ChatInput chat;
  QR_TRY_VOID(read_chat_input(request, chat));
  QR_TRY(const ChatPrompt prompt, render_chat(std::move(chat.messages), chat.options, env));
  return Answer{.body = "{\"input_tokens\":" + std::to_string(prompt.tokens.size()) + "}"};
}

// Its tokens, for a router that compares them with what servers have.
ApiResult<Call> render(const ApiRequest& request, const ServeEnv& env) {
  ChatInput chat;
  QR_TRY_VOID(read_chat_input(request, chat));
  QR_TRY(const ChatPrompt prompt, render_chat(std::move(chat.messages), chat.options, env));
  return Answer{.body = rendered(prompt.tokens)};
}

const Api kApi{{{.method = "POST",
                 .path = "/v1/chat/completions",
                 .also = "/chat/completions",
                 .schema = &kSchema,
                 .parse = &parse,
                 .summary = "OpenAI: the next message of a conversation"},
                {.method = "POST",
                 .path = "/v1/chat/completions/input_tokens",
                 .also = "/chat/completions/input_tokens",
                 .schema = &kSchema,
                 .parse = &count,
                 .summary = "llama.cpp: how many tokens the prompt of a conversation has"},
                {.method = "POST",
                 .path = "/v1/chat/completions/render",
                 .schema = &kSchema,
                 .uncounted = true,
                 .parse = &render,
                 .summary = "vLLM: the tokens of a conversation's prompt"}}};
QR_REGISTER(Api, "openai_chat", kApi);

}  // namespace
}  // namespace quire
