// POST /generate: tokens in, tokens out. For callers that have a tokenizer and a template of their own; ids, text and
// logprobs of each token, streamed or whole.
#include "serve/api.h"
#include "serve/logprobs.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kFields[] = {
    field_of("input_ids", kArray),
    field_of("text", kString),
    flag_field("add_special_tokens"),
    field_of("model", kString, &ServeLimits::name_bytes),
    flag_field("stream"),
    flag_field("include_cost"),
    flag_field("return_accepted"),
    count_field("logprobs", 0, &ServeLimits::n_logprobs),
};
const Schema kSchema({kFields, sampling_fields(), foreign_fields(), no_progress_fields(), handover_fields()});

class Writer final : public ReplyWriter {
 public:
  Writer(const ServeEnv& env, const Job& job, bool accepted)
      : want_logprobs_(job.generation.sampling.n_logprobs >= 0), include_cost_(job.include_cost), accepted_(accepted) {
    head_ = "{\"id\":\"gen-" + job.name.id + "\",\"model\":";
    append_json_string(head_, answering_model(env, job.generation));
    head_ += ',';
  }

  void begin(int64_t, std::string&) override {}
  void delta(int choice, const Delta& delta, std::string& out) override {
    std::string data = head_ + "\"index\":" + std::to_string(choice);
    append_part(data, delta);
    append_sse_data(out, data + ",\"finish_reason\":null}");
  }
  void finish(int choice, const Ending& ending, std::string& out) override {
    std::string data = head_ + "\"index\":" + std::to_string(choice);
    append_part(data, {});
    append_end(data, ending);
    append_sse_data(out, data + "}");
  }
  void end(const UsageTotals& usage, std::string& out) override {
    std::string data = head_ + "\"usage\":";
    append_openai_usage(data, usage, include_cost_);
    append_sse_data(out, data + "}");
    append_sse_data(out, "[DONE]");
  }
  void error(const HttpError& error, std::string& out) override {
    append_sse_event(out, "error", "", error_body(error));
  }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override {
    Pieces out;
    out.add(head_ + "\"choices\":[");
    for (ChoiceResult& one : choices) {
      const auto choice = std::make_shared<const ChoiceResult>(std::move(one));
      out.add((choice->index > 0 ? ",{\"index\":" : "{\"index\":") + std::to_string(choice->index));
      add_whole(choice, out);
      std::string end;
      append_end(end, choice->ending);
      out.add(end + "}");
    }
    std::string tail = "],\"usage\":";
    append_openai_usage(tail, usage, include_cost_);
    out.add(tail + "}");
    return out;
  }

 private:
  void append_part(std::string& out, const Delta& delta) const {
    out += ",\"text\":";
    append_joined(out, delta.parts, PartKind::text);
    out += ",\"output_ids\":[";
    for (const TokenText& token : delta.tokens) {
      if (&token != delta.tokens.data()) out += ',';
      out += std::to_string(token.id);
    }
    out += ']';
    if (accepted_) {
      out += ",\"accepted\":[";
      for (const TokenText& token : delta.tokens) {
        if (&token != delta.tokens.data()) out += ',';
        out += flag(token.accepted);
      }
      out += ']';
    }
    if (!want_logprobs_) return;
    out += ",\"logprobs\":[";
    for (const TokenText& token : delta.tokens) {
      if (&token != delta.tokens.data()) out += ',';
      append_logprobs(out, token);
    }
    out += ']';
  }
  void add_whole(const std::shared_ptr<const ChoiceResult>& choice, Pieces& out) const {
    const size_t n = choice->whole.tokens.size();
    out.add(",\"text\":");
    add_joined(out, choice->whole.parts, PartKind::text, choice);
    out.add(",\"output_ids\":[");
    out.add_list(n, [choice](size_t i, std::string& text) { text += std::to_string(choice->whole.tokens[i].id); });
    out.add("]");
    if (accepted_) {
      out.add(",\"accepted\":[");
      out.add_list(n, [choice](size_t i, std::string& text) { text += flag(choice->whole.tokens[i].accepted); });
      out.add("]");
    }
    if (!want_logprobs_) return;
    out.add(",\"logprobs\":[");
    out.add_list(n, [choice](size_t i, std::string& text) { append_logprobs(text, choice->whole.tokens[i]); });
    out.add("]");
  }
  static std::string_view flag(bool value) { return value ? "true" : "false"; }
  static void append_logprobs(std::string& out, const TokenText& token) {
    append_token(out, token.id, token.logprob);
    out += ",\"top_logprobs\":[";
    for (const TopLogprob& top : token.top) {
      if (&top != token.top.data()) out += ',';
      append_token(out, top.id, top.logprob);
      out += '}';
    }
    out += "]}";
  }
  static void append_token(std::string& out, Token id, float logprob) {
    out += "{\"id\":" + std::to_string(id) + ",\"logprob\":";
    append_logprob(out, logprob);
  }
  static void append_end(std::string& out, const Ending& ending) {
    out += ",\"finish_reason\":\"" + std::string(finish_name(ending.reason)) + "\",\"stop_string\":";
    if (ending.stop_string.empty())
      out += "null";
    else
      append_json_string(out, ending.stop_string);
  }

  const bool want_logprobs_, include_cost_, accepted_;
  std::string head_;
};

ApiResult<std::vector<Token>> read_prompt(const Args& args, const ServeEnv& env) {
  std::vector<Token> out;
  const Json* ids = args.find("input_ids");
  if (ids != nullptr && args.has("text")) return refuse(bad_field("text", "is given beside 'input_ids'"));
  if (ids != nullptr) {
    if (ids->as_array()->empty()) return refuse(bad_field("input_ids", "is empty"));
    QR_TRY_VOID(read_token_ids(*ids, "input_ids", env.tokenizer->n_vocab(), out));
    return out;
  }
  if (!args.has("text")) return refuse(bad_field("input_ids", "or 'text' is required", "missing_required_parameter"));
  const EncodeOptions options{.add_special = args.flag("add_special_tokens", true), .parse_special = true};
  QR_TRY_VOID(encode_text(*env.tokenizer, args.text("text"), options, "text", out));
  if (out.empty()) return refuse(bad_field("text", "holds no tokens"));
  return out;
}

ApiResult<Call> parse(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Job job, begin_answer(request, env));
  QR_TRY_VOID(read_handover(request, env, job));
  if (args.has("logprobs")) job.generation.sampling.n_logprobs = static_cast<int>(args.integer("logprobs", 0));
  QR_TRY(job.prompts.emplace_back(), read_prompt(args, env));
  job.prompt_field = args.has("text") ? "text" : "input_ids";
  job.want_ids = true;
  job.include_cost = args.flag("include_cost", false);
  job.writer = std::make_unique<Writer>(env, job, args.flag("return_accepted", false));
  return Call(std::move(job));
}

const Api kApi{
    {{.method = "POST", .path = "/generate", .schema = &kSchema, .parse = &parse, .summary = "Tokens in, tokens out"}}};
QR_REGISTER(Api, "generate", kApi);

}  // namespace
}  // namespace quire
