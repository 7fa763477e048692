// POST /completion and /completions: what follows a text, as llama.cpp's server has it.
#include <algorithm>

#include "serve/llama.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kFields[] = {field_of("prompt", kString | kArray | kObject)};
constexpr Field kPromptObject[] = {field_of("prompt_string", kString), unsupported("multimodal_data", "[]")};
const Schema kSchema({kFields, llama_fields(), sampling_fields(), handover_fields()});
const Schema kPromptSchema({kPromptObject});

ApiResult<void> add_text(
    std::string_view text, bool special, std::string_view path, const ServeEnv& env, std::vector<Token>& out) {
  return encode_text(*env.tokenizer, text, {.add_special = special, .parse_special = true}, path, out);
}

// Texts and ids in one list are one prompt; special tokens come before a text that begins it.
ApiResult<void> add_mixed(const Json::Array& list,
                          const std::string& path,
                          const ServeEnv& env,
                          std::vector<Token>& out) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (const std::string* text = list[i].as_string()) {
      QR_TRY_VOID(add_text(*text, i == 0, at_index(path, static_cast<int64_t>(i)), env, out));
    } else if (list[i].is_number()) {
      QR_TRY(out.emplace_back(), read_token_id(list[i], path, i, env.tokenizer->n_vocab()));
    } else {
      return refuse(
          bad_field(at_index(path, static_cast<int64_t>(i)), "must be a string or a token id", "invalid_type"));
    }
  }
  return {};
}

ApiResult<void> add_prompt(
    const Json& one, const std::string& path, const ApiRequest& request, const ServeEnv& env, Job& job) {
  std::vector<Token>& out = job.prompts.emplace_back();
  if (one.as_string() != nullptr) {
    QR_TRY_VOID(add_text(*one.as_string(), true, path, env, out));
  } else if (one.as_array() != nullptr) {
    QR_TRY_VOID(add_mixed(*one.as_array(), path, env, out));
  } else if (one.as_object() != nullptr) {
    QR_TRY(const Args args, kPromptSchema.check(one, request.reading, path));
    if (!args.has("prompt_string")) return refuse(missing_field(at_key(path, "prompt_string")));
    QR_TRY_VOID(add_text(args.text("prompt_string"), true, path, env, out));
  } else {
    return refuse(bad_field(path, "must be a string or a list of strings and token ids", "invalid_type"));
  }
  if (out.empty()) return refuse(bad_field(path, "holds no tokens"));
  return {};
}

// A list with an id in it is one prompt, any other a prompt an entry.
ApiResult<void> add_prompts(const ApiRequest& request, const ServeEnv& env, Job& job) {
  const Json* prompt = request.args.find("prompt");
  if (prompt == nullptr) return refuse(missing_field("prompt"));
  const Json::Array* list = prompt->as_array();
  const bool one =
      list == nullptr || std::any_of(list->begin(), list->end(), [](const Json& j) { return j.is_number(); });
  if (one) return add_prompt(*prompt, "prompt", request, env, job);
  const auto n = static_cast<int64_t>(list->size());
  QR_TRY_VOID(check_prompts("prompt", n, job.generation.n, "prompts times n", env.limits));
  for (int64_t i = 0; i < n; ++i)
    QR_TRY_VOID(add_prompt((*list)[static_cast<size_t>(i)], at_index("prompt", i), request, env, job));
  return {};
}

ApiResult<Call> parse(const ApiRequest& request, const ServeEnv& env) {
  LlamaCommon common;
  QR_TRY(Job job, begin_llama(request, env, common));
  QR_TRY_VOID(add_prompts(request, env, job));
  job.prompt_field = "prompt";
  add_llama_writer(env, std::move(common), job);
  return Call(std::move(job));
}

const Api kApi{{{.method = "POST",
                 .path = "/completion",
                 .also = "/completions",
                 .schema = &kSchema,
                 .parse = &parse,
                 .summary = "llama.cpp: what follows a text"}}};
QR_REGISTER(Api, "llama_completion", kApi);

}  // namespace
}  // namespace quire
