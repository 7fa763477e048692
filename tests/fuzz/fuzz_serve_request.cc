// A request body of any bytes through every dialect: refusals are JSON with a status of the client's fault; what passes
// obeys the contract that the service and the engine rely on; and what the dialect writes for any tokens is valid JSON
// whose streamed text equals the whole text. The first byte picks the endpoint, the second how the tokens are cut.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "http/sse.h"
#include "serve/api.h"
#include "serve/call_plans.h"
#include "serve/messages.h"
#include "serve/response_store.h"
#include "serve/seeds.h"
#include "serve/text_stream.h"
#include "text/parse/answer_parser.h"

namespace {

using namespace quire;

TokenizerSpec spec() {
  TokenizerSpec out;
  out.model = "llama";
  out.tokens = {"<unk>", "<s>", "</s>"};
  out.types = {TokenType::unknown, TokenType::control, TokenType::control};
  for (int b = 0; b < 256; ++b) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    out.tokens.push_back(std::string("<0x") + kHex[b >> 4] + kHex[b & 15] + ">");
    out.types.push_back(TokenType::byte);
  }
  out.scores.assign(out.tokens.size(), 0.0F);
  out.unk = 0;
  out.bos = 1;
  out.eos = 2;
  out.add_bos = true;
  return out;
}

struct World {
  World()
      : tokenizer(std::move(*make_tokenizer(spec()))),
        chat(std::move(*ChatTemplate::parse(plain_template()))),
        seeds([] { return uint64_t{1}; }),
        responses(ServeLimits{}, clock) {
    env.tokenizer = tokenizer.get();
    env.chat = &chat;
    env.plain_chat = true;
    env.seeds = &seeds;
    env.responses = &responses;
    env.call_plans = &call_plans;
    env.card.n_embd = 4;
    env.models = {"tiny"};
    env.n_ctx = 1 << 20;
    env.ready = [] { return true; };
    env.metrics_text = [] { return std::string(); };
    env.pins = [](uint64_t) { return std::vector<PinView>(); };
    env.unpin = [](uint64_t id, uint64_t) { return id % 2 == 0; };
    for (const std::string& name : Registry<Api>::get().names())
      for (const Endpoint& e : Registry<Api>::get().find(name)->endpoints)
        if (e.schema != nullptr) endpoints.push_back(&e);
  }
  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplate chat;
  SeedSource seeds;
  ManualClock clock;
  ResponseStore responses;
  CallPlans call_plans;
  ServeEnv env;
  std::vector<const Endpoint*> endpoints;
};

void check_refusal(const Endpoint& endpoint, const HttpError& error) {
  QR_CHECK(error.status >= 400 && error.status < 500, std::to_string(error.status));
  QR_CHECK(Json::parse(endpoint.error_text(error)).has_value());
  QR_CHECK(!error.message.empty() && !error.code.empty());
}

void check_job(const Job& job, const World& w) {
  const Generation& g = job.generation;
  QR_CHECK(!job.prompts.empty() && g.n >= 1 && g.best_of >= g.n);
  QR_CHECK(static_cast<int64_t>(job.prompts.size()) * g.best_of <= w.env.limits.n_sequences);
  for (const auto& prompt : job.prompts) {
    QR_CHECK(!prompt.empty());
    for (const Token t : prompt) QR_CHECK(t >= 0 && t < w.tokenizer->n_vocab());
  }
  for (const std::string& stop : g.stops) QR_CHECK(!stop.empty());
  QR_CHECK(g.max_tokens >= 0 && g.sampling.temperature >= 0 && g.sampling.top_p > 0 && g.sampling.top_p <= 1);
  QR_CHECK(g.sampling.top_k >= 0 && g.sampling.n_logprobs <= w.env.limits.n_logprobs);
  QR_CHECK(job.echo.empty() || job.echo.size() == job.prompts.size());
}

// The text that one event of a stream adds, in whichever dialect it is.
std::string heard_of(const Json& event) {
  const auto text_at = [](const Json* from, std::initializer_list<const char*> path) -> std::string {
    for (const char* key : path) from = from != nullptr ? from->find(key) : nullptr;
    return from != nullptr && from->as_string() != nullptr ? *from->as_string() : "";
  };
  if (const Json* choices = event.find("choices")) {
    if (choices->as_array()->empty()) return "";
    const Json& choice = (*choices->as_array())[0];
    return text_at(&choice, {"delta", "content"}) + text_at(&choice, {"text"});
  }
  if (text_at(&event, {"type"}) == "response.output_text.delta") return text_at(&event, {"delta"});
  if (event.find("type") == nullptr && event.find("output_ids") != nullptr) return text_at(&event, {"text"});
  return text_at(&event, {"content"}) + text_at(&event, {"delta", "text"}) + text_at(&event, {"message", "content"}) +
         text_at(&event, {"response"});
}

// The text of a stream, of events or of lines, and that each of them is JSON.
std::string heard(const std::string& stream, bool events) {
  std::string text;
  const auto add = [&](std::string_view data) {
    if (data == "[DONE]") return;
    const auto json = Json::parse(data);
    QR_CHECK(json.has_value(), std::string(data));
    text += heard_of(*json);
  };
  if (events) {
    SseReader().feed(stream, [&](SseEvent&& e) { add(e.data); });
    return text;
  }
  for (size_t at = 0, end = 0; (end = stream.find('\n', at)) != std::string::npos; at = end + 1)
    add(std::string_view(stream).substr(at, end - at));
  return text;
}

bool streams_events(const ReplyWriter& writer) {
  for (const HttpHeader& h : writer.stream_headers())
    if (equal_no_case(h.name, "content-type")) return h.value.starts_with("text/event-stream");
  return false;
}

// An answer's tokens to its parts, as a session has them.
struct Told {
  Told(const Job& job, const Tokenizer& tokenizer, const TextStreamOptions& options)
      : text(tokenizer, options), parser(job.reasoning, job.reasoning_open, job.calls) {}
  bool take(Delta& out) {
    text.take(piece);
    out.tokens = std::move(piece.tokens);
    out.parts.clear();
    parser.push(piece.text, out.parts);
    return !out.parts.empty() || !out.tokens.empty();
  }
  bool end(Delta& out) {
    take(out);
    parser.finish(out.parts);
    return !out.parts.empty() || !out.tokens.empty();
  }
  TextStream text;
  AnswerParser parser;
  TextPiece piece;
};

void check_reply(Job& job, std::string_view bytes, size_t cut, const World& w) {
  // Vectors, a prompt that stays, or what is cached of one: no text.
  if (job.pool != Pool::none || job.pin.id != 0 || job.explain) return;
  const bool want_tokens = job.generation.sampling.n_logprobs >= 0 || job.want_ids;
  auto compiled = StopStrings::compile(job.generation.stops);
  QR_CHECK(compiled.has_value());
  const auto stops = std::make_shared<const StopStrings>(std::move(*compiled));
  TextStreamOptions options{stops, job.generation.include_stop, !job.generation.skip_special, want_tokens,
                            job.generation.sampling.min_tokens};
  Told cut_up(job, *w.tokenizer, options), whole(job, *w.tokenizer, options);
  std::string out;
  Delta delta;
  job.writer->begin(1, out);
  for (size_t i = 0; i < bytes.size() && !whole.text.stopped(); ++i) {
    TokenEvent event;
    event.id = 1 + static_cast<unsigned char>(bytes[i]);
    cut_up.text.push(event);
    whole.text.push(event);
    if (i % cut == 0 && cut_up.take(delta)) job.writer->delta(0, delta, out);
  }
  cut_up.text.finish();
  whole.text.finish();
  if (cut_up.end(delta)) job.writer->delta(0, delta, out);
  job.writer->finish(0, {}, out);
  job.writer->end({}, out);
  std::vector<ChoiceResult> results(job.prompts.size() * static_cast<size_t>(job.generation.n));
  whole.end(results.front().whole);
  const std::string told = results.front().whole.parts.joined(PartKind::text);
  QR_CHECK(heard(out, streams_events(*job.writer)) == told, "the stream differs from the whole");
  Pieces pieces = job.writer->body(std::move(results), {});
  std::string body;
  while (!pieces.done()) pieces.write(body.size() + 1, body);
  QR_CHECK(Json::parse(body).has_value(), body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const World w;
  if (size < 2) return 0;
  HttpRequest http;
  http.body.assign(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto body = Json::parse(http.body);
  if (!body) return 0;
  const Endpoint& endpoint = *w.endpoints[data[0] % w.endpoints.size()];
  Warnings warnings;
  const Reading reading{w.env.limits, warnings};
  const auto args = endpoint.schema->check(*body, reading, "");
  if (!args) return check_refusal(endpoint, args.error()), 0;
  auto call = endpoint.parse({http, *args, reading}, w.env);
  if (!call) return check_refusal(endpoint, call.error()), 0;
  if (const auto* answer = std::get_if<Answer>(&*call)) {
    if (answer->content_type == "application/x-ndjson") {
      heard(answer->body, false);  // which looks at each line
    } else {
      QR_CHECK(Json::parse(answer->body).has_value());
    }
    return 0;
  }
  Job& job = std::get<Job>(*call);
  check_job(job, w);
  check_reply(job, http.body, size_t{data[1]} % 7 + 1, w);
  return 0;
}
