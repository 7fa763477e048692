// POST /v1/completions: text or token ids in, text out; lists of prompts, n, best_of, echo, logprobs.
#include "serve/api.h"
#include "serve/logprobs.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kFields[] = {
    field_of("prompt", kString | kArray),
    count_field("best_of", 1, &ServeLimits::n_choices),
    flag_field("echo"),
    count_field("logprobs", 0, &ServeLimits::n_logprobs),
    flag_field("add_special_tokens"),
    unsupported("suffix", "\"\""),
    unsupported("truncate_prompt_tokens"),
    unsupported("prompt_embeds"),
};
constexpr int64_t kDefaultMaxTokens = 16;  // OpenAI's

const Schema kSchema({kFields, sampling_fields(), foreign_fields(), openai_fields(), handover_fields()});

class Writer final : public OpenaiWriter {
 public:
  Writer(const ServeEnv& env, const Job& job, const OpenaiCommon& common)
      : OpenaiWriter({"cmpl-", "text_completion", "text_completion", true}, env, job, common),
        n_echo_logprobs_(job.n_echo_logprobs) {}

 private:
  void append_delta(int, const Delta& delta, std::string& out) override {
    out += "\"text\":";
    append_joined(out, delta.parts, PartKind::text);
  }
  void add_whole(const Shared& choice, Pieces& out) override {
    out.add("\"text\":\"");
    if (choice->echo != nullptr) out.add_json_text(*choice->echo, choice);
    for (const AnswerPart& part : choice->whole.parts) out.add_json_text(part.text, choice);
    out.add("\"");
  }
  void append_logprobs(int, std::span<const TokenText> tokens, std::string& out) override {
    if (!want_logprobs())
      out += "null";
    else
      append_completion_logprobs(out, tokens, tokenizer());
  }
  void add_logprobs(const Shared& choice, Pieces& out) override {
    if (!want_logprobs())
      out.add("null");
    else
      add_completion_logprobs(out, {n_echo_logprobs_ >= 0 ? choice->prompt : nullptr, n_echo_logprobs_, choice},
                              tokenizer());
  }

  const int n_echo_logprobs_;
};

ApiResult<void> add_text(
    const Args& args, std::string_view path, const std::string& text, const ServeEnv& env, Job& job) {
  if (text.empty()) return refuse(bad_field(path, "is empty"));
  const EncodeOptions options{.add_special = args.flag("add_special_tokens", true), .parse_special = true};
  QR_TRY_VOID(encode_text(*env.tokenizer, text, options, path, job.prompts.emplace_back()));
  if (job.prompts.back().empty()) return refuse(bad_field(path, "holds no tokens"));
  if (args.flag("echo", false)) job.echo.push_back(std::make_shared<const std::string>(text));
  return {};
}

ApiResult<void> add_ids(const Args& args, std::string_view path, const Json& ids, const ServeEnv& env, Job& job) {
  if (ids.as_array()->empty()) return refuse(bad_field(path, "is empty"));
  QR_TRY_VOID(read_token_ids(ids, path, env.tokenizer->n_vocab(), job.prompts.emplace_back()));
  if (args.flag("echo", false))
    job.echo.push_back(std::make_shared<const std::string>(env.tokenizer->decode(job.prompts.back(), true)));
  return {};
}

ApiResult<void> read_prompts(const Args& args, const ServeEnv& env, Job& job) {
  const Json* prompt = args.find("prompt");
  if (prompt == nullptr) return refuse(missing_field("prompt"));
  if (prompt->as_string() != nullptr) return add_text(args, "prompt", *prompt->as_string(), env, job);
  const auto& list = *prompt->as_array();
  if (!list.empty() && list[0].is_number()) return add_ids(args, "prompt", *prompt, env, job);
  const auto n = static_cast<int64_t>(list.size());
  QR_TRY_VOID(check_prompts("prompt", n, job.generation.best_of, "prompts times n or best_of", env.limits));
  for (int64_t i = 0; i < n; ++i) {
    const Json& one = list[static_cast<size_t>(i)];
    const std::string path = at_index("prompt", i);
    if (one.as_string() != nullptr && list[0].as_string() != nullptr) {
      QR_TRY_VOID(add_text(args, path, *one.as_string(), env, job));
    } else if (one.as_array() != nullptr && list[0].as_array() != nullptr) {
      QR_TRY_VOID(add_ids(args, path, one, env, job));
    } else {
      return refuse(
          bad_field(path, "must be of one kind with the others: strings, or lists of token ids", "invalid_type"));
    }
  }
  return {};
}

ApiResult<void> read_best_of(const Args& args, Job& job) {
  const int64_t best_of = args.integer("best_of", job.generation.n);
  const std::string n = std::to_string(job.generation.n);
  if (best_of < job.generation.n)
    return refuse(bad_field("best_of", "is " + std::to_string(best_of) + ": it must be at least n, which is " + n));
  if (best_of > job.generation.n && job.stream)
    return refuse(bad_field("best_of", "above n cannot be streamed: it is " + std::to_string(best_of) + ", n is " + n));
  job.generation.best_of = static_cast<int>(best_of);
  return {};
}

ApiResult<Call> parse(const ApiRequest& request, const ServeEnv& env) {
  Job job;
  QR_TRY(const OpenaiCommon common, read_openai(request, env, job));
  if (!request.args.has("max_tokens") && job.generation.max_tokens == 0) job.generation.max_tokens = kDefaultMaxTokens;
  if (request.args.has("logprobs")) {
    job.generation.sampling.n_logprobs = static_cast<int>(request.args.integer("logprobs", 0));
    if (request.args.flag("echo", false)) {
      if (job.stream) return refuse(unsupported_field("echo", "together with logprobs and \"stream\": true"));
      job.n_echo_logprobs = job.generation.sampling.n_logprobs;
    }
  }
  if (job.generation.prompt_only && !request.args.flag("echo", false) && job.generation.sampling.n_prompt_logprobs < 0)
    return refuse(
        bad_field(job.generation.max_tokens_field, "is 0: the minimum is 1 without echo and without prompt_logprobs"));
  QR_TRY_VOID(read_best_of(request.args, job));
  job.prompt_field = "prompt";
  QR_TRY_VOID(read_prompts(request.args, env, job));
  job.writer = std::make_unique<Writer>(env, job, common);
  return Call(std::move(job));
}

// The tokens of each prompt, for a router that compares them with what servers have.
ApiResult<Call> render(const ApiRequest& request, const ServeEnv& env) {
  Job job;
  QR_TRY_VOID(read_prompts(request.args, env, job));
  std::string out = "[";
  for (const std::vector<Token>& prompt : job.prompts) out += (out.size() > 1 ? "," : "") + rendered(prompt);
  return Answer{.body = out + "]"};
}

const Api kApi{{{.method = "POST",
                 .path = "/v1/completions",
                 .schema = &kSchema,
                 .parse = &parse,
                 .summary = "OpenAI: what follows a text"},
                {.method = "POST",
                 .path = "/v1/completions/render",
                 .schema = &kSchema,
                 .uncounted = true,
                 .parse = &render,
                 .summary = "vLLM: the tokens of prompts"}}};
QR_REGISTER(Api, "openai_completions", kApi);

}  // namespace
}  // namespace quire
