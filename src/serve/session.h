// One request from admission to the end of its reply. The prep thread fills it and submits its sequences; the engine
// thread leaves tokens in their channels and marks the reply; the io thread, in the sweep after the step, turns tokens
// into text and text into the dialect's bytes. No thread waits for another: what is shared are the channels, a few
// atomics, and the reply itself.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "http/keys.h"
#include "http/server.h"
#include "serve/api.h"
#include "serve/api_error.h"
#include "serve/choice.h"
#include "serve/load_estimate.h"
#include "serve/request_list.h"
#include "serve/serve_metrics.h"
#include "serve/trace.h"
#include "serve/vllm_names.h"

namespace quire {

// What all sessions of a service share; outlives them.
struct SessionContext {
  Engine* engine = nullptr;
  Clock* clock = nullptr;  // steady, as http's times
  const ServeEnv* env = nullptr;
  ServeMetrics* metrics = nullptr;
  LoadEstimate* load = nullptr;
  std::shared_ptr<AnswerBudget> answers;
  std::shared_ptr<Tracer> tracer;  // null: no traces
  std::vector<Token> end_ids;      // the model's end tokens
};

inline constexpr std::string_view kShuttingDown =
    "shutting_down";  // the code of its error when the server's time is up

class Session final : public std::enable_shared_from_this<Session> {
 public:
  // `endpoint` lives as long as the program.
  Session(const SessionContext& context, const Endpoint& endpoint, ReplyPtr reply, int64_t arrived_ns);
  ~Session();

  // --- io thread, before the others ---
  // Where it comes from; whose request it is, and its place among those that run.
  void set_origin(std::string id, std::string peer);
  void set_key(std::shared_ptr<KeyHolder> key, KeyLease lease);
  void set_trace_parent(std::optional<TraceParent> parent) { trace_parent_ = std::move(parent); }

  // --- prep thread, one of these once ---
  void answer(const Answer& answer, HttpHeaders headers);
  // A Retry-After of 0 is predicted from the engine's load; it is sent with 429 and 503 only.
  void refuse_with(const HttpError& error, int64_t retry_after_s = 0);
  // Submits every sequence, or none and refuses. REQUIRES the job's prompts fit the context.
  void start(Job&& job);
  // What the others threw: the request is over, whatever of it has begun.
  void fail_early(const HttpError& error);
  void cut() { reply_->abort(); }  // where not even that can be said

  // --- any thread ---
  bool closed() const { return closed_.load(); }
  void set_progress(RequestStage progress) { progress_ = progress; }  // until it is started
  // What it waits for; nothing before it is known whose it is, and of those that wait for nothing.
  std::optional<RequestLine> line(int64_t now_ns) const;
  void add_to(AdapterUse& use) const;  // its adapter, where it has one
  void shut_down();                    // the server's time is up: cancels, tells the client, ends

  // --- io thread ---
  void on_closed(CloseReason reason);

 private:
  static constexpr size_t kTurnBytes = 32 << 10;  // of its answer in one turn of the io thread

  Request make_request(const Choice& choice) const;
  int max_tokens(size_t prompt) const;
  std::optional<KeyRefusal> take_from_key();
  bool submit_all(const std::shared_ptr<QueuePlaces>& places);
  void cancel_all();
  Overflow overflow() const;
  // The producer: everything below runs in it, on the io thread.
  void produce(Reply& reply);
  void go_on(Reply& reply);
  void take_ready();
  void take_some(Reply& reply);
  int64_t take(Choice& choice, int64_t now_ns);
  void observe_latency(int64_t n_tokens, int64_t last_ns, int64_t now_ns);
  void settle(Choice& choice, int64_t now_ns);
  void begin_stream(Reply& reply);
  void write_delta(Reply& reply, Choice& choice);
  void tell(const Choice& choice, Delta&& delta);
  void tell_finish(const Choice& choice);
  void mark(const Choice& choice, std::vector<Token>&& ids);
  bool wants_tokens() const;
  bool may_be_last(const Choice& choice) const;
  bool was_told(const Choice& choice) const;
  template <typename F>
  void write_again(F&& write);
  bool flush_pending(Reply& reply);
  void fail(Reply& reply, const HttpError& error);
  void fail_late(Reply& reply, const HttpError& error);
  void conclude(Reply& reply);
  void write_whole(Reply& reply);
  int64_t prompt_channel_bytes(size_t prompt) const;
  void counted(int status);
  void tell_end(CloseReason reason);
  RequestRecord record(CloseReason reason) const;
  void trace(RequestRecord&& record);
  void add_sequences(RequestTrace& trace) const;

  const SessionContext& context_;
  const Endpoint& endpoint_;
  const ReplyPtr reply_;
  const int64_t arrived_ns_;
  std::string id_, peer_;
  std::shared_ptr<KeyHolder> key_;  // null: nobody's
  std::mutex lease_mu_;
  KeyLease lease_;  // guarded by lease_mu_

  // Written by the prep thread before started_, read-only afterwards.
  Job job_;
  std::shared_ptr<const StopStrings> stops_;
  std::optional<HeldBytes> held_;
  ReadyChoices ready_;
  std::vector<std::unique_ptr<Choice>> choices_;
  int64_t submitted_ns_ = 0;

  // Sequentially consistent: whoever sets closed_ or shutdown_ sees the ids that were stored before, and whoever stores
  // an id sees those flags.
  std::atomic<bool> started_{false}, submitted_{false}, closed_{false}, shutdown_{false};
  std::atomic<int> status_{0};  // 0: not counted yet
  std::atomic<RequestStage> progress_{RequestStage::none};

  // Io thread.
  std::optional<TraceParent> trace_parent_;
  bool head_sent_ = false, ending_ = false, over_ = false;
  bool marks_are_lines_ = false;  // of a handover, in the stream that has begun
  int n_open_ = 0;
  int64_t first_token_ns_ = 0;  // since the head
  std::vector<Choice*> hand_;   // taken from the ready ones, by index
  std::optional<Pieces> whole_;
  std::string pending_;  // made, not yet accepted by the reply
  size_t n_sound_ = 0;   // bytes of it that are whole events
  std::optional<HttpError> failure_;
  std::string_view broken_off_;  // why a stream ended with an error: shutdown or failed; empty: it did not

  // Of a reply that closed before the engine was through with its sequences: sent by the destructor, on whichever
  // thread that is, when no sequence holds the session any more.
  std::optional<RequestTrace> late_trace_;
  std::weak_ptr<Tracer> late_tracer_;
};

}  // namespace quire
