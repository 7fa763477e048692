// Ollama's dialect: /api/embed, and /api/embeddings, which came before it.
#include "http/error_form.h"
#include "serve/embeddings.h"
#include "serve/ollama.h"
#include "serve/openai.h"

namespace quire {
namespace {

// Their answers have a place for one vector.
Pool pool_of(const ServeEnv& env) { return env.pooling == Pool::mean ? Pool::mean : Pool::last; }

constexpr Field kOptions[] = {field_of("cache_salt", kString, &ServeLimits::name_bytes)};
constexpr Field kCommon[] = {
    field_of("model", kString, &ServeLimits::name_bytes),
    ignored_field("options"),
    ignored_field("keep_alive"),
};
constexpr Field kEmbed[] = {
    field_of("input", kString | kArray),
    integer_field("dimensions", 1, kNoMax),
    flag_field("truncate"),
};
constexpr Field kEmbeddings[] = {field_of("prompt", kString)};
const Schema kEmbedSchema({kCommon, kEmbed, kOptions});
const Schema kEmbeddingsSchema({kCommon, kEmbeddings, kOptions});

// Where truncate is not false, what is longer than the context loses its end.
void cut(const ServeEnv& env, Job& job) {
  const auto room = static_cast<size_t>(env.n_ctx - job.generation.n_virtual() - 1);
  for (std::vector<Token>& prompt : job.prompts)
    if (prompt.size() > room) prompt.resize(room);
}

ApiResult<Call> embed(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Job job, begin_embedding(request, plain_name(args.text("model")), env));
  const EncodeOptions options{.add_special = true, .parse_special = false};
  QR_TRY_VOID(add_inputs(args.find("input"), "input", {options, request.reading, env}, job));
  if (args.flag("truncate", true)) cut(env, job);
  job.prompt_field = "input";
  return embedding_job(std::move(job), pool_of(env), {.json = EmbeddingForm::Json::ollama}, env);
}

ApiResult<Call> embeddings(const ApiRequest& request, const ServeEnv& env) {
  QR_TRY(Job job, begin_embedding(request, plain_name(request.args.text("model")), env));
  const EncodeOptions options{.add_special = true, .parse_special = false};
  QR_TRY_VOID(add_inputs(request.args.find("prompt"), "prompt", {options, request.reading, env}, job));
  cut(env, job);
  job.prompt_field = "prompt";
  return embedding_job(std::move(job), pool_of(env), {.json = EmbeddingForm::Json::ollama_one, .normalize = false},
                       env);
}

const Api kApi{{{.method = "POST",
                 .path = "/api/embed",
                 .schema = &kEmbedSchema,
                 .parse = &embed,
                 .error_text = &ollama_error,
                 .summary = "Ollama: a vector for each input"},
                {.method = "POST",
                 .path = "/api/embeddings",
                 .schema = &kEmbeddingsSchema,
                 .parse = &embeddings,
                 .error_text = &ollama_error,
                 .summary = "Ollama: a vector for a text"}}};
QR_REGISTER(Api, "ollama_embeddings", kApi);

}  // namespace
}  // namespace quire
