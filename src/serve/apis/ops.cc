// What operators and tools ask: is it up, which version, what does it count; and the tokenizer by itself.
#include "serve/api.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

constexpr Field kTokenizeFields[] = {
    field_of("content", kString),
    other_name("prompt", "content"),
    other_name("text", "content"),
    flag_field("add_special"),
    other_name("add_special_tokens", "add_special"),
    flag_field("parse_special"),
    field_of("model", kString, &ServeLimits::name_bytes),
};
constexpr Field kDetokenizeFields[] = {
    field_of("tokens", kArray, &ServeLimits::n_detokenize),
    flag_field("special"),
    field_of("model", kString, &ServeLimits::name_bytes),
};
const Schema kTokenize({kTokenizeFields});
const Schema kDetokenize({kDetokenizeFields});

ApiResult<Call> health(const ApiRequest&, const ServeEnv& env) {
  if (env.ready()) return Answer{.body = "{\"status\":\"ok\"}"};
  return Answer{.status = 503, .body = "{\"status\":\"not ready\"}"};
}

ApiResult<Call> version(const ApiRequest&, const ServeEnv&) {
  return Answer{.body = "{\"version\":\"" QR_VERSION "\"}"};
}

ApiResult<Call> metrics(const ApiRequest&, const ServeEnv& env) {
  return Answer{.body = env.metrics_text(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

ApiResult<Call> tokenize(const ApiRequest& request, const ServeEnv& env) {
  if (!request.args.has("content")) return refuse(missing_field("content"));
  const EncodeOptions options{.add_special = request.args.flag("add_special", false),
                              .parse_special = request.args.flag("parse_special", true)};
  std::vector<Token> ids;
  env.tokenizer->encode(request.args.text("content"), options, ids);
  std::string out =
      "{\"count\":" + std::to_string(ids.size()) + ",\"max_model_len\":" + std::to_string(env.n_ctx) + ",\"tokens\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(ids[i]);
  }
  return Answer{.body = out + "]}"};
}

ApiResult<Call> detokenize(const ApiRequest& request, const ServeEnv& env) {
  const Json* tokens = request.args.find("tokens");
  if (tokens == nullptr) return refuse(missing_field("tokens"));
  std::vector<Token> ids;
  QR_TRY_VOID(read_token_ids(*tokens, "tokens", env.tokenizer->n_vocab(), ids));
  std::string out = "{\"content\":";
  append_json_string(out, env.tokenizer->decode(ids, request.args.flag("special", true)));
  return Answer{.body = out + "}"};
}

const Api kApi{{{.method = "GET", .path = "/health", .quick = true, .open = true, .parse = &health},
                {.method = "GET", .path = "/ready", .quick = true, .open = true, .parse = &health},
                {.method = "GET", .path = "/version", .quick = true, .open = true, .parse = &version},
                {.method = "GET", .path = "/metrics", .quick = true, .parse = &metrics},
                {.method = "POST", .path = "/tokenize", .schema = &kTokenize, .parse = &tokenize},
                {.method = "POST", .path = "/detokenize", .schema = &kDetokenize, .parse = &detokenize}}};
QR_REGISTER(Api, "ops", kApi);

}  // namespace
}  // namespace quire
