// What operators and tools ask: is it up, which version, what does it count; the tokenizer and the chat template by
// themselves.
#include "engine/engine.h"
#include "serve/api.h"
#include "serve/logprobs.h"
#include "serve/messages.h"
#include "text/detok.h"
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
    flag_field("with_pieces"),
    field_of("model", kString, &ServeLimits::name_bytes),
};
constexpr Field kDetokenizeFields[] = {
    field_of("tokens", kArray, &ServeLimits::n_detokenize),
    flag_field("special"),
    field_of("model", kString, &ServeLimits::name_bytes),
};
constexpr Field kApplyTemplateFields[] = {
    field_of("messages", kArray, &ServeLimits::n_messages),
    unsupported("chat_template"),
    field_of("tools", kArray, &ServeLimits::n_tools),
    field_of("tool_choice", kString | kObject),
    flag_field("parallel_tool_calls"),
    field_of("model", kString, &ServeLimits::name_bytes),
};
const Schema kTokenize({kTokenizeFields});
const Schema kDetokenize({kDetokenizeFields});
const Schema kApplyTemplate({kApplyTemplateFields, chat_fields(), begun_fields()});

// Alive, whatever it is doing; /ready is for whoever sends requests.
ApiResult<Call> health(const ApiRequest&, const ServeEnv& env) {
  return Answer{.body = env.ready() ? "{\"status\":\"ok\"}" : "{\"status\":\"draining\"}"};
}

ApiResult<Call> ready(const ApiRequest&, const ServeEnv& env) {
  if (env.ready()) return Answer{.body = "{\"status\":\"ok\"}"};
  return Answer{.status = 503, .body = "{\"status\":\"not ready\"}"};
}

ApiResult<Call> version(const ApiRequest&, const ServeEnv&) {
  return Answer{.body = "{\"version\":\"" QR_VERSION "\"}"};
}

ApiResult<Call> metrics(const ApiRequest&, const ServeEnv& env) {
  return Answer{.body = env.metrics_text(),
                .content_type = "text/plain; version=0.0.4; charset=utf-8",
                .headers = {{"Process-Start-Time-Unix", std::to_string(env.started_s)}}};
}

// What clients of llama.cpp's server ask about the model; limits are ours.
ApiResult<Call> props(const ApiRequest&, const ServeEnv& env) {
  const TokenizerSpec& spec = env.tokenizer->spec();
  const auto text_of = [&](Token id) { return id >= 0 ? Json(token_name(*env.tokenizer, id)) : Json(); };
  Json::Object limits;
  limits.reserve(limit_rows().size());
  for (const LimitRow& row : limit_rows()) limits.emplace_back(row.name, env.limits.*row.value);
  Json out = Json::Object{
      {"model_alias", env.models[0]}, {"model_path", env.card.file}, {"build_info", "build-quire-" QR_VERSION}};
  Json::Object values, from;
  for (const SamplingDefault& row : env.sampling.rows()) {
    const auto whole = static_cast<int64_t>(row.value);
    values.emplace_back(row.field, static_cast<double>(whole) == row.value ? Json(whole) : Json(row.value));
    from.emplace_back(row.field, row.from);
  }
  if (env.sampling.seed) values.emplace_back("seed", static_cast<int64_t>(*env.sampling.seed));
  out.set("default_generation_settings", Json::Object{{"n_ctx", env.n_ctx}, {"params", std::move(values)}});
  out.set("default_generation_from", std::move(from));
  out.set("total_slots", env.engine->max_seqs);
  out.set("model", Json::Object{{"architecture", env.card.architecture},
                                {"quantization", env.card.quantization},
                                {"n_params", env.card.n_parameters},
                                {"file_bytes", env.card.file_bytes},
                                {"n_embd", env.card.n_embd},
                                {"n_vocab", env.tokenizer->n_vocab()}});
  out.set("modalities", Json::Object{{"vision", false}, {"audio", false}});
  out.set("thinks", env.reasoning.kind != ReasoningForm::Kind::none);
  out.set("bos_token", text_of(spec.bos));
  out.set("eos_token", text_of(spec.eos));
  out.set("chat_template", env.chat_source);
  out.set("limits", std::move(limits));
  return Answer{.body = out.dump()};
}

// Places are not numbered here: as many as run are shown as taken.
ApiResult<Call> slots(const ApiRequest&, const ServeEnv& env) {
  const int64_t n_running = env.engine_stats().n_running;
  Json::Array out;
  for (int64_t i = 0; i < env.engine->max_seqs; ++i)
    out.push_back(
        Json::Object{{"id", i}, {"n_ctx", env.n_ctx}, {"speculative", false}, {"is_processing", i < n_running}});
  return Answer{.body = Json(std::move(out)).dump()};
}

// vLLM's name for all; what runs and what waits beside it, which a router asks for.
ApiResult<Call> load(const ApiRequest&, const ServeEnv& env) {
  const EngineStats stats = env.engine_stats();
  return Answer{.body = Json(Json::Object{{"server_load", stats.n_running + stats.n_waiting},
                                          {"running", stats.n_running},
                                          {"waiting", stats.n_waiting}})
                            .dump()};
}

ApiResult<Call> tokenizer_info(const ApiRequest&, const ServeEnv& env) {
  const TokenizerSpec& spec = env.tokenizer->spec();
  Json out = special_tokens(*env.tokenizer);
  out.set("tokenizer_class", spec.model);
  out.set("vocab_size", env.tokenizer->n_vocab());
  out.set("model_max_length", env.n_ctx);
  out.set("add_bos_token", spec.add_bos);
  out.set("chat_template", env.chat_source);
  return Answer{.body = out.dump()};
}

// Each with its text, or with its bytes where these are no whole code points.
void append_pieces(const std::vector<Token>& ids, const Tokenizer& tokenizer, std::string& out) {
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string bytes;
    if (ids[i] < tokenizer.n_vocab()) tokenizer.append_bytes(ids[i], true, bytes);
    out += (i > 0 ? ",{\"id\":" : "{\"id\":") + std::to_string(ids[i]) + ",\"piece\":";
    if (to_valid_utf8(bytes) == bytes)
      append_json_string(out, bytes);
    else
      append_token_bytes(out, ids[i], tokenizer);
    out += '}';
  }
}

ApiResult<Call> tokenize(const ApiRequest& request, const ServeEnv& env) {
  if (!request.args.has("content")) return refuse(missing_field("content"));
  const EncodeOptions options{.add_special = request.args.flag("add_special", false),
                              .parse_special = request.args.flag("parse_special", true)};
  std::vector<Token> ids;
  QR_TRY_VOID(encode_text(*env.tokenizer, request.args.text("content"), options, "content", ids));
  std::string out =
      "{\"count\":" + std::to_string(ids.size()) + ",\"max_model_len\":" + std::to_string(env.n_ctx) + ",\"tokens\":[";
  if (request.args.flag("with_pieces", false))
    append_pieces(ids, *env.tokenizer, out);
  else
    append_ids(out, ids);
  return Answer{.body = out + "]}"};
}

ApiResult<Call> detokenize(const ApiRequest& request, const ServeEnv& env) {
  const Json* tokens = request.args.find("tokens");
  if (tokens == nullptr) return refuse(missing_field("tokens"));
  std::vector<Token> ids;
  QR_TRY_VOID(read_token_ids(*tokens, "tokens", env.tokenizer->n_vocab(), ids));
  std::string text;
  append_json_string(text, env.tokenizer->decode(ids, request.args.flag("special", true)));
  return Answer{.body = "{\"content\":" + text + ",\"prompt\":" + text + "}"};  // vLLM's name for it
}

// What a chat completion of the same conversation would begin with, without running it.
ApiResult<Call> apply_template(const ApiRequest& request, const ServeEnv& env) {
  ChatInput chat;
  QR_TRY_VOID(read_chat_input(request, chat));
  QR_TRY(const ChatPrompt prompt, render_chat(std::move(chat.messages), chat.options, env));
  std::string out = "{\"prompt\":";
  append_json_string(out, prompt.text);
  out += ",\"count\":" + std::to_string(prompt.tokens.size()) + ",\"tokens\":[";
  append_ids(out, prompt.tokens);
  return Answer{.body = out + "]}"};
}

const Api kApi{{
    {.method = "GET",
     .path = "/health",
     .also = "/v1/health",
     .quick = true,
     .open = true,
     .parse = &health,
     .summary = "Is it alive"},
    {.method = "GET",
     .path = "/ready",
     .quick = true,
     .open = true,
     .parse = &ready,
     .summary = "Does it take requests"},
    {.method = "GET", .path = "/version", .quick = true, .open = true, .parse = &version, .summary = "Quire's version"},
    {.method = "GET", .path = "/props", .quick = true, .parse = &props, .summary = "Model, template and limits"},
    {.method = "GET",
     .path = "/metrics",
     .quick = true,
     .admin = true,
     .parse = &metrics,
     .summary = "For Prometheus",
     .part = "metrics"},
    {.method = "GET",
     .path = "/slots",
     .quick = true,
     .parse = &slots,
     .summary = "llama.cpp: the places for sequences, and which are taken",
     .part = "slots"},
    {.method = "GET",
     .path = "/load",
     .quick = true,
     .parse = &load,
     .summary = "vLLM: how many sequences run and wait"},
    {.method = "GET",
     .path = "/tokenizer_info",
     .quick = true,
     .parse = &tokenizer_info,
     .summary = "vLLM: facts about the tokenizer"},
    {.method = "POST", .path = "/tokenize", .schema = &kTokenize, .parse = &tokenize, .summary = "Text to tokens"},
    {.method = "POST",
     .path = "/detokenize",
     .schema = &kDetokenize,
     .parse = &detokenize,
     .summary = "Tokens to text"},
    {.method = "POST",
     .path = "/apply-template",
     .schema = &kApplyTemplate,
     .parse = &apply_template,
     .summary = "What a conversation becomes before it is computed"},
}};
QR_REGISTER(Api, "ops", kApi);

}  // namespace
}  // namespace quire
