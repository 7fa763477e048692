// The seam of the wire dialects: what a dialect is told, and what it gives back. A dialect is one file in apis/: tables
// of fields, a function from checked fields to a Call, and a ReplyWriter. It registers itself; the service does what
// all dialects share (limits, keys, tokenising threads, the engine, streams, stop strings, drain).
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/registry.h"
#include "http/message.h"
#include "http/sse.h"
#include "serve/generation.h"
#include "serve/schema.h"
#include "text/tokenizer.h"

namespace quire {

class ChatTemplate;
class SeedSource;

// What every dialect may look at. Const while the server runs, but for the functions, which any thread may call.
struct ServeEnv {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat = nullptr;
  bool plain_chat = false;  // `chat` is our plain template: the model's file has none
  SeedSource* seeds = nullptr;
  ServeLimits limits;
  std::vector<std::string> models;  // the model's name, then its other names
  bool strict_model = false;
  int64_t n_ctx = 0;      // prompt and answer together
  int64_t started_s = 0;  // seconds since 1970
  std::function<bool()> ready;
  std::function<std::string()> metrics_text;
};

// An answer that needs no engine.
struct Answer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
};

enum class FinishReason : uint8_t { stop, length };
std::string_view finish_name(FinishReason);  // "stop", "length"

struct TokenText {  // for clients that asked for logprobs
  Token id = -1;
  float logprob = 0.0F;
  std::vector<TopLogprob> top;  // falling
  int64_t text_at = 0;          // code points of the choice's text before this token
};
struct Delta {
  std::string text;  // whole code points
  std::vector<TokenText> tokens;
};
struct ChoiceResult {
  int index = 0;
  Delta whole;
  FinishReason finish = FinishReason::stop;
};
struct UsageTotals {
  int64_t n_prompt = 0;  // each prompt once, however many choices it has
  int64_t n_generated = 0;
  int64_t n_cached = 0;
};

// Turns results into a dialect's bytes. Io thread only; one per request. A streamed answer is begin, then deltas and
// one finish per choice in any interleaving, then end; error instead of anything from begin on. A whole one is body.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  virtual HttpHeaders stream_headers() const { return sse_headers(); }
  virtual void begin(int64_t n_prompt, std::string& out) = 0;
  virtual void delta(int choice, const Delta& delta, std::string& out) = 0;
  virtual void finish(int choice, FinishReason reason, std::string& out) = 0;
  virtual void end(const UsageTotals& usage, std::string& out) = 0;
  virtual void error(const HttpError& error, std::string& out) = 0;
  virtual std::string body(std::span<const ChoiceResult> choices, const UsageTotals& usage) = 0;
};

// Work for the engine. Choice c of prompt p has index p · n + c.
struct Job {
  std::vector<std::vector<Token>> prompts;  // every id in range
  std::vector<std::string> echo;            // empty, or what to put before each prompt's choices
  std::string prompt_field;                 // named when a prompt does not fit the context
  Generation generation;
  bool stream = false;
  HttpHeaders headers;  // of the answer, beside the usual
  std::unique_ptr<ReplyWriter> writer;
};
using Call = std::variant<Answer, Job>;

struct ApiRequest {
  const HttpRequest& http;
  const Args& args;  // empty for endpoints without a schema
};

struct Endpoint {
  std::string_view method, path;   // as http/router.h takes them
  const Schema* schema = nullptr;  // null: no JSON body is read
  // `true`: runs on the io thread, which it must not hold up. Otherwise on a prep thread.
  bool quick = false;
  bool open = false;  // answers without a key
  ApiResult<Call> (*parse)(const ApiRequest&, const ServeEnv&) = nullptr;
};

// Registered under the name of its file: QR_REGISTER(Api, "openai_chat", Api{endpoints}).
struct Api {
  std::vector<Endpoint> endpoints;
};

}  // namespace quire
