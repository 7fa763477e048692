// What operators and tools ask: is it up, which version, what does it count; the tokenizer and the chat template by
// themselves.
#include "serve/api.h"
#include "serve/messages.h"
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
constexpr Field kApplyTemplateFields[] = {
    field_of("messages", kArray, &ServeLimits::n_messages),
    flag_field("add_generation_prompt"),
    flag_field("parse_special"),
    field_of("chat_template_kwargs", kObject, &ServeLimits::n_template_kwargs),
    unsupported("chat_template"),
    unsupported("tools", "[]"),
    field_of("model", kString, &ServeLimits::name_bytes),
};
const Schema kTokenize({kTokenizeFields});
const Schema kDetokenize({kDetokenizeFields});
const Schema kApplyTemplate({kApplyTemplateFields});

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

void append_ids(const std::vector<Token>& ids, std::string& out) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(ids[i]);
  }
}

ApiResult<Call> tokenize(const ApiRequest& request, const ServeEnv& env) {
  if (!request.args.has("content")) return refuse(missing_field("content"));
  const EncodeOptions options{.add_special = request.args.flag("add_special", false),
                              .parse_special = request.args.flag("parse_special", true)};
  std::vector<Token> ids;
  env.tokenizer->encode(request.args.text("content"), options, ids);
  std::string out =
      "{\"count\":" + std::to_string(ids.size()) + ",\"max_model_len\":" + std::to_string(env.n_ctx) + ",\"tokens\":[";
  append_ids(ids, out);
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

// What a chat completion of the same conversation would begin with, without running it.
ApiResult<Call> apply_template(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  QR_TRY(Json messages, read_messages(args.find("messages"), request.reading));
  QR_TRY(const ChatPrompt prompt, render_chat(std::move(messages), read_chat_options(args), env));
  std::string out = "{\"prompt\":";
  append_json_string(out, prompt.text);
  out += ",\"count\":" + std::to_string(prompt.tokens.size()) + ",\"tokens\":[";
  append_ids(prompt.tokens, out);
  return Answer{.body = out + "]}"};
}

const Api kApi{{{.method = "GET", .path = "/health", .quick = true, .open = true, .parse = &health},
                {.method = "GET", .path = "/ready", .quick = true, .open = true, .parse = &health},
                {.method = "GET", .path = "/version", .quick = true, .open = true, .parse = &version},
                {.method = "GET", .path = "/metrics", .quick = true, .admin = true, .parse = &metrics},
                {.method = "POST", .path = "/tokenize", .schema = &kTokenize, .parse = &tokenize},
                {.method = "POST", .path = "/detokenize", .schema = &kDetokenize, .parse = &detokenize},
                {.method = "POST", .path = "/apply-template", .schema = &kApplyTemplate, .parse = &apply_template}}};
QR_REGISTER(Api, "ops", kApi);

}  // namespace
}  // namespace quire
