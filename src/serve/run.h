// The server as one object: what the command line, tests and embedders start and stop. Reads nothing but its options.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "engine/engine.h"
#include "http/door_options.h"
#include "serve/api.h"
#include "serve/limits.h"
#include "serve/seeds.h"
#include "serve/serve_metrics.h"
#include "serve/trace.h"
#include "text/tokenizer.h"

namespace quire {

class Server;

// What the engine calls after each step, made before both the engine and the server: EngineEnv::on_step_end is
// [signal] { signal->fire(); }. Does nothing while no server runs. Any thread.
class StepSignal {
 public:
  void fire();

 private:
  friend class ServingImpl;
  void watch(Server* server);  // one more
  void forget();               // all

  std::mutex mu_;  // held by stop() for a moment only
  std::vector<Server*> servers_;
};

struct ServeOptions : DoorOptions {
  int n_prep_threads = 2;
  std::vector<std::string> models;     // the model's name, then its other names; REQUIRES not empty
  std::vector<ServedPrefix> prefixes;  // that the engine has
  AdapterTable* adapters = nullptr;    // as ServeEnv has it; outlives the server
  std::string no_adapters = "this server takes none";
  bool strict_model = false;   // other names are a 404
  SamplingDefaults sampling;   // what requests get that do not say
  ChatDefaults chat_defaults;  // likewise
  Pool pooling = Pool::last;   // likewise, of embeddings
  // Parts that are switched off: "slots" and "metrics" are a 501 then, "ui" is not there.
  std::vector<std::string> off;
  std::string tool_format;     // a family of text/parse/formats; empty: as the template shows
  std::string chat_template;   // Jinja source; empty: the model's own
  bool llama_metrics = false;  // /metrics has the names of llama.cpp's server too
  ModelCard card;
  MachineFacts machine;
  RequestLog request_log = RequestLog::off;
  TraceOptions traces;                      // none unless it names a host
  std::vector<std::string> public_prompts;  // texts that requests begin with and may share across keys and salts
  // JSON values, each a prompt as the body of POST /v1/cache/pin or a string: computed and pinned before the first
  // request, and public. The engine has to run by then.
  std::vector<std::string> warm_prompts;
  // What KV events call blocks under this salt: answers say it in x-quire-cache-salt. Any thread; empty: no events.
  std::function<std::string(uint64_t salt)> salt_name{};
  RandomSource random;  // of seeds and ids; empty: the system's generator
  ServeLimits limits;
};

class Serving;

// The addresses of a server, bound and listening while there is no model yet: what cannot be bound is known at once.
// Until serve() every request is a 503 "Loading model". Ends with what it has served.
class Listening {
 public:
  // Fails (Code::io, Code::invalid) naming host and port. `metrics` outlives the result and what serve() returns.
  static Result<std::unique_ptr<Listening>> start(const ServeOptions& options, Metrics& metrics);
  virtual ~Listening() = default;
  virtual std::string url() const = 0;
  // As start_serving(), with the same addresses. Once; afterwards this object is empty.
  virtual Result<std::unique_ptr<Serving>> serve(const ServeOptions& options,
                                                 Engine& engine,
                                                 const Tokenizer& tokenizer,
                                                 StepSignal& signal) = 0;
};

class Serving {
 public:
  virtual ~Serving() = default;  // stop(0) if that was not done
  virtual int port() const = 0;
  virtual std::string url() const = 0;        // "http://127.0.0.1:8080"
  virtual std::string admin_url() const = 0;  // empty where the operator has no address of their own
  // New requests get 503 with Retry-After; running ones may go on for `drain_ms`, then they are cancelled and told so;
  // then the sockets close and the threads join. Blocks; the engine must run meanwhile. A second call from another
  // thread with less time cuts the first one short.
  virtual void stop(int64_t drain_ms) = 0;
};

// Listens and serves; ready when it returns. `engine` (running), `tokenizer`, `metrics` and `signal` outlive the
// result; the engine may be stopped only after it. Fails (Code::io, Code::invalid) naming host and port. A chat
// template of the model's file that cannot be read is logged, and the plain one takes its place.
Result<std::unique_ptr<Serving>> start_serving(
    const ServeOptions& options, Engine& engine, const Tokenizer& tokenizer, Metrics& metrics, StepSignal& signal);

}  // namespace quire
