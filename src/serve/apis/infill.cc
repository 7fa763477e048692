// POST /infill: what belongs between a prefix and a suffix, for models whose vocabulary has fill-in-the-middle tokens.
// Fields and answers as llama.cpp's server has them; the prompt is prefix, suffix, middle.
#include "serve/llama.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kFields[] = {
    field_of("input_prefix", kString),
    field_of("input_suffix", kString),
    field_of("prompt", kString),
    field_of("input_extra", kArray, &ServeLimits::n_parts),
};
constexpr Field kExtra[] = {field_of("filename", kString), field_of("text", kString), ignored_field("time")};
const Schema kSchema({kFields, llama_fields(), sampling_fields(), handover_fields()});
const Schema kExtraSchema({kExtra});

// Other files, in front of the one that is filled in.
ApiResult<void> add_extra(const ApiRequest& request, const ServeEnv& env, Token mark, std::vector<Token>& out) {
  const Json* extra = request.args.find("input_extra");
  if (extra == nullptr) return {};
  const auto& list = *extra->as_array();
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = at_index("input_extra", static_cast<int64_t>(i));
    QR_TRY(const Args args, kExtraSchema.check(list[i], request.reading, path));
    if (!args.has("text")) return refuse(missing_field(at_key(path, "text")));
    if (mark >= 0) out.push_back(mark);
    const std::string file = std::string(args.text("filename")) + "\n" + std::string(args.text("text")) + "\n";
    QR_TRY_VOID(encode_text(*env.tokenizer, file, {}, at_key(path, "text"), out));
  }
  return {};
}

ApiResult<void> add_prompt(const ApiRequest& request, const ServeEnv& env, Job& job) {
  const Args& args = request.args;
  const FillTokens& fill = env.fill;
  if (!fill.complete())
    return refuse(HttpError{400, "the vocabulary of '" + env.models[0] + "' has no fill-in-the-middle tokens",
                            "invalid_request_error", "", "unsupported_model"});
  for (const char* name : {"input_prefix", "input_suffix"})
    if (!args.has(name)) return refuse(missing_field(name));
  std::vector<Token>& out = job.prompts.emplace_back();
  const TokenizerSpec& spec = env.tokenizer->spec();
  if (spec.add_bos && spec.bos >= 0) out.push_back(spec.bos);
  QR_TRY_VOID(add_extra(request, env, fill.file, out));
  if (args.has("input_extra") && fill.file >= 0) out.push_back(fill.file);
  out.push_back(fill.prefix);
  const std::string before = std::string(args.text("input_prefix")) + std::string(args.text("prompt"));
  QR_TRY_VOID(encode_text(*env.tokenizer, before, {}, "input_prefix", out));
  out.push_back(fill.suffix);
  QR_TRY_VOID(encode_text(*env.tokenizer, args.text("input_suffix"), {}, "input_suffix", out));
  out.push_back(fill.middle);
  for (const Token id : {fill.prefix, fill.suffix, fill.middle, fill.file})
    if (id >= 0) job.generation.stop_ids.push_back(id);
  return {};
}

ApiResult<Call> parse(const ApiRequest& request, const ServeEnv& env) {
  LlamaCommon common;
  QR_TRY(Job job, begin_llama(request, env, common));
  QR_TRY_VOID(add_prompt(request, env, job));
  job.prompt_field = "input_prefix";
  add_llama_writer(env, std::move(common), job);
  return Call(std::move(job));
}

const Api kApi{{{.method = "POST",
                 .path = "/infill",
                 .schema = &kSchema,
                 .parse = &parse,
                 .summary = "What belongs between a prefix and a suffix"}}};
QR_REGISTER(Api, "infill", kApi);

}  // namespace
}  // namespace quire
