// POST /v1/embeddings: a vector for each input, pooled from the hidden states of the decoder that also answers.
#include "serve/embeddings.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kFields[] = {
    field_of("input", kString | kArray | kObject),
    field_of("model", kString, &ServeLimits::name_bytes),
    field_of("encoding_format", kString),
    integer_field("dimensions", 1, kNoMax),
    field_of("pooling", kString),
    flag_field("normalize"),
    flag_field("add_special_tokens"),
    field_of("cache_salt", kString, &ServeLimits::name_bytes),
    field_of("prefix", kString, &ServeLimits::name_bytes),
    integer_field("priority", -1000, 1000),
    unsupported("truncate_prompt_tokens"),
    ignored_field("user"),
};
const Schema kSchema({kFields});

ApiResult<std::string_view> read_word(
    const Args& args, std::string_view name, std::string_view absent, std::string_view a, std::string_view b) {
  const std::string_view word = args.has(name) ? args.text(name) : absent;
  if (word == a || word == b) return word;
  return refuse(bad_field(name, "is '" + shown(word) + "': it must be " + std::string(a) + " or " + std::string(b)));
}

ApiResult<Call> parse(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Job job, begin_embedding(request, args.text("model"), env));
  QR_TRY(const std::string_view format, read_word(args, "encoding_format", "float", "float", "base64"));
  const bool by_token = args.has("pooling") ? args.text("pooling") == "none" : env.pooling == Pool::all;
  if (by_token)
    return refuse(bad_field("pooling", "none gives a vector for each token: only /embeddings has a form for these"));
  QR_TRY(const std::string_view pooling,
         read_word(args, "pooling", env.pooling == Pool::mean ? "mean" : "last", "last", "mean"));
  const EncodeOptions options{.add_special = args.flag("add_special_tokens", true), .parse_special = false};
  QR_TRY_VOID(add_inputs(args.find("input"), "input", {options, request.reading, env}, job));
  job.prompt_field = "input";
  EmbeddingForm form{.json = EmbeddingForm::Json::openai};
  form.base64 = format == "base64";
  form.normalize = args.flag("normalize", true);
  return embedding_job(std::move(job), pooling == "mean" ? Pool::mean : Pool::last, form, env);
}

const Api kApi{{{.method = "POST",
                 .path = "/v1/embeddings",
                 .schema = &kSchema,
                 .parse = &parse,
                 .summary = "OpenAI: a vector for each input"}}};
QR_REGISTER(Api, "openai_embeddings", kApi);

}  // namespace
}  // namespace quire
