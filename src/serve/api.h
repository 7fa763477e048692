// The seam of the wire dialects: what a dialect is told, and what it gives back. A dialect is one file in apis/: tables
// of fields, a function from checked fields to a Call, and a ReplyWriter. It registers itself; the service does what
// all dialects share (limits, keys, tokenising threads, the engine, streams, stop strings, drain).
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/registry.h"
#include "engine/pin_book.h"
#include "engine/snapshot.h"
#include "serve/asker.h"
#include "serve/chat_defaults.h"
#include "serve/job.h"
#include "serve/model_card.h"
#include "serve/request_list.h"
#include "serve/request_log.h"
#include "text/fill_tokens.h"
#include "text/parse/tool_format.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

namespace quire {

class AdapterTable;
class CallPlans;
class ChatTemplate;
class GrammarCache;
class PublicPrompts;
class RecentSalts;
class ResponseStore;
class SeedSource;
class StreamTable;
struct EngineOptions;

// What every dialect may look at. Const while the server runs, but for the functions, which any thread may call.
struct ServeEnv {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat = nullptr;
  std::string chat_source;  // Jinja source of `chat`
  bool plain_chat = false;  // `chat` is our plain template: the model's file has none
  SeedSource* seeds = nullptr;
  const PublicPrompts* public_prompts = nullptr;  // may be null
  ResponseStore* responses = nullptr;
  GrammarCache* grammars = nullptr;
  CallPlans* call_plans = nullptr;
  const EngineOptions* engine = nullptr;  // as resolved
  StreamTable* streams = nullptr;         // filled in by the service
  const RecentSalts* salts = nullptr;     // likewise; may be null
  ReasoningForm reasoning;                // of this model
  FillTokens fill;                        // likewise
  ToolFormat tools;                       // likewise
  bool hidden_calls = false;              // their first mark is a control token
  ServeLimits limits;
  std::vector<std::string> models;     // the model's name, then its other names
  std::vector<ServedPrefix> prefixes;  // what may stand before a request's text
  AdapterTable* adapters = nullptr;    // likewise added to the model; null: none, for the reason that follows
  std::string no_adapters;
  bool strict_model = false;
  SamplingDefaults sampling;
  ChatDefaults chat_defaults;
  Pool pooling = Pool::last;  // of embeddings that do not say
  int64_t n_ctx = 0;          // prompt and answer together
  int64_t started_s = 0;      // seconds since 1970
  ModelCard card;
  RequestLog request_log = RequestLog::off;
  std::function<bool()> ready;
  std::function<std::string()> metrics_text;
  std::function<EngineStats()> engine_stats;
  std::function<RequestList()> requests;
  std::function<std::vector<PinView>(uint64_t owner)> pins;  // as Engine has it
  std::function<bool(uint64_t id, uint64_t owner)> unpin;    // likewise
};

struct ApiRequest {
  const HttpRequest& http;
  const Args& args;        // empty for endpoints without a schema
  const Reading& reading;  // for what lies deeper in the body
  Asker asker{};
};

struct Endpoint {
  std::string_view method, path;   // as http/router.h takes them
  std::string_view also{};         // another path of the same; empty: none
  const Schema* schema = nullptr;  // null: no JSON body is read
  // `true`: runs on the io thread, which it must not hold up. Otherwise on a prep thread.
  bool quick = false;
  bool uncounted = false;  // takes none of what its key may: a router asks it beside the request itself
  bool open = false;       // answers without a key
  bool admin = false;      // the operator's: answers at the admin address only, by default to this machine
  ApiResult<Call> (*parse)(const ApiRequest&, const ServeEnv&) = nullptr;
  std::string (*error_text)(const HttpError&) = &error_body;  // the body of a refusal, in the dialect's form
  std::string_view summary{};                                 // for /openapi.json
  std::string_view part{};  // what ServeOptions::off switches it off by; empty: it is always there
};

// Registered under the name of its file: QR_REGISTER(Api, "openai_chat", Api{endpoints}).
struct Api {
  std::vector<Endpoint> endpoints;
};

}  // namespace quire
