#include "serve/prompt_body.h"

#include "serve/messages.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kFields[] = {
    field_of("prompt", kString | kArray),
    field_of("messages", kArray, &ServeLimits::n_messages),
    field_of("tools", kArray, &ServeLimits::n_tools),
    field_of("tool_choice", kString | kObject),
    flag_field("parallel_tool_calls"),
    flag_field("add_special_tokens"),
    unsupported("chat_template"),
    unsupported("documents", "[]"),
    unsupported("functions", "[]"),
    unsupported("prompt_embeds"),
    unsupported("suffix", "\"\""),
    unsupported("truncate_prompt_tokens"),
    ignored_field("audio"),
    ignored_field("best_of"),
    ignored_field("echo"),
    ignored_field("function_call"),
    ignored_field("logprobs"),
    ignored_field("modalities"),
    ignored_field("prediction"),
    ignored_field("store"),
    ignored_field("top_logprobs"),
    ignored_field("verbosity"),
};

ApiResult<void> read_text(const Args& args, const ServeEnv& env, Job& job) {
  const Json& prompt = *args.find("prompt");
  std::vector<Token>& out = job.prompts.emplace_back();
  job.prompt_field = "prompt";
  if (const std::string* text = prompt.as_string()) {
    const EncodeOptions options{.add_special = args.flag("add_special_tokens", true), .parse_special = true};
    QR_TRY_VOID(encode_text(*env.tokenizer, *text, options, "prompt", out));
  } else {
    const Json::Array& list = *prompt.as_array();
    if (!list.empty() && !list[0].is_number())
      return refuse(bad_field("prompt", "must be one prompt: a string or a list of token ids", "invalid_type"));
    QR_TRY_VOID(read_token_ids(prompt, "prompt", env.tokenizer->n_vocab(), out));
  }
  if (out.empty()) return refuse(bad_field("prompt", "holds no tokens"));
  return {};
}

ApiResult<void> read_chat(const ApiRequest& request, const ServeEnv& env, Job& job, EarlierChat* earlier) {
  ChatInput chat;
  QR_TRY_VOID(read_chat_input(request, chat));
  Json messages = earlier != nullptr ? chat.messages : Json();
  QR_TRY(ChatPrompt prompt, render_chat(std::move(chat.messages), chat.options, env));
  if (earlier != nullptr) {
    earlier->ends = find_message_ends(messages, chat.options, prompt.tokens, env);
    earlier->turns = find_earlier_turns(std::move(messages), chat.options, prompt.tokens, env);
  }
  job.prompts.push_back(std::move(prompt.tokens));
  job.prompt_field = "messages";
  return {};
}

}  // namespace

const Schema& prompt_body_schema() {
  static const Schema kSchema({kFields, chat_fields(), sampling_fields(), foreign_fields(), openai_fields()});
  return kSchema;
}

// Of what was said of an answer nothing is left.
ApiResult<void> read_prompt_body(const ApiRequest& request, const ServeEnv& env, Job& job, EarlierChat* chat) {
  const Args& args = request.args;
  if (args.has("prompt") && args.has("messages"))
    return refuse(bad_field("prompt", "and messages cannot both be given: a body has one prompt"));
  QR_TRY_VOID(read_openai(request, env, job));
  const Generation read = std::move(job.generation);
  job.stream = job.include_cost = job.want_ids = false;
  job.generation = {};
  job.generation.sampling.seed = read.sampling.seed;
  job.generation.prompt_only = job.generation.ignore_eos = true;
  job.generation.prefix = read.prefix;
  job.generation.adapter = read.adapter;
  job.generation.adapter_name = read.adapter_name;
  job.generation.cache_salt = read.cache_salt;
  job.generation.priority = read.priority;
  if (args.has("prompt")) return read_text(args, env, job);
  if (args.has("messages")) return read_chat(request, env, job, chat);
  return refuse(missing_field("messages"));
}

}  // namespace quire
