// POST /embedding and /embeddings: a vector for each text, as llama.cpp's server has it.
#include "serve/embeddings.h"
#include "serve/openai.h"

namespace quire {
namespace {

constexpr Field kFields[] = {
    field_of("content", kString | kArray | kObject),
    other_name("input", "content"),
    field_of("model", kString, &ServeLimits::name_bytes),
    integer_field("embd_normalize", -1, 2),
    field_of("pooling", kString),
    field_of("cache_salt", kString, &ServeLimits::name_bytes),
    field_of("prefix", kString, &ServeLimits::name_bytes),
    ignored_field("encoding_format"),
};
const Schema kSchema({kFields});

ApiResult<Pool> read_pool(const Args& args, const ServeEnv& env) {
  if (!args.has("pooling")) return env.pooling;
  const std::string_view word = args.text("pooling");
  if (word == "last") return Pool::last;
  if (word == "mean") return Pool::mean;
  if (word == "none") return Pool::all;
  return refuse(bad_field("pooling", "is '" + shown(word) + "': it must be last, mean or none"));
}

ApiResult<Call> parse(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Job job, begin_embedding(request, args.text("model"), env));
  const int64_t norm = args.integer("embd_normalize", 2);
  if (norm == 0 || norm == 1) return refuse(unsupported_field("embd_normalize", "2 (Euclidean) and -1 (none) are"));
  const std::string field(args.sent_as("content"));
  const EncodeOptions options{.add_special = true, .parse_special = true};
  QR_TRY_VOID(add_inputs(args.find("content"), field, {options, request.reading, env}, job));
  job.prompt_field = field;
  QR_TRY(const Pool pool, read_pool(args, env));
  EmbeddingForm form{.json = EmbeddingForm::Json::llama};
  form.normalize = norm == 2 && pool != Pool::all;
  if (pool == Pool::all) form.n_embd = env.card.n_embd;
  return embedding_job(std::move(job), pool, form, env);
}

const Api kApi{{{.method = "POST",
                 .path = "/embedding",
                 .also = "/embeddings",
                 .schema = &kSchema,
                 .parse = &parse,
                 .summary = "llama.cpp: a vector for each text"}}};
QR_REGISTER(Api, "llama_embedding", kApi);

}  // namespace
}  // namespace quire
