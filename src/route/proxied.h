// One request that goes through: asks the fleet for a worker, sends the request there, and passes the answer on as it
// comes. The one idea: nothing is told to the client before a worker has answered well, so until then another worker
// can be asked. After it a stream of one of our own servers goes on at another one (portions.h); of any other worker
// that fails the client is told as an error in the stream. Lives on the client's io thread; its
// owner is whoever calls it next: the exchange with the worker, or the list of those that wait, for a worker or an
// engine.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/keys.h"
#include "http/server.h"
#include "http/upstream.h"
#include "route/asked.h"
#include "route/context.h"
#include "route/event_cut.h"
#include "route/portions.h"

namespace quire {

// Whose request it is.
struct RouteAsker {
  uint64_t tenant = 0;             // of the key that was sent; 0: none
  std::shared_ptr<KeyHolder> key;  // null: nobody's
  KeyLease lease;
};

class Proxied final : public UpstreamEvents, public Waiter, public std::enable_shared_from_this<Proxied> {
 public:
  Proxied(RouteContext& context, HttpRequest&& request, ReplyPtr reply, RouteAsker&& asker);
  ~Proxied() override;

  void start();
  // In place of start(). Also the way in which it ends without an answer of a worker.
  void refuse(const HttpError& error, HttpHeaders extra);

  void on_head(UpstreamHead&& head) override;
  bool on_body(std::string_view bytes) override;
  void on_end(const UpstreamError* error) override;
  void on_worker() override;
  void on_no_worker() override;

 private:
  static constexpr int64_t kMostRestMs = 3'600'000;  // that a worker may ask for
  enum class Phase : uint8_t { looking, asking, gathering, streaming, ending, over };

  bool refuse_circle();
  bool find_engine(const Asked& asked);
  bool enter_engine();
  void wait_anew();
  void refuse_engine(const LocalEngines::Refusal& refusal);
  bool may_ask_engine_again(UpstreamFault fault);
  void ask_directory();
  void keep_salt(const std::string& cache_salt);
  void know_tokens();
  void take_tokens(std::vector<Token>&& tokens);
  void note_given();
  void learn_salt(const std::string& name);
  uint64_t asker_at(const Worker& worker) const;
  KvIndex::Sought sought_at(const Worker& worker) const;
  void look();
  void wait_for_worker();
  void remember(std::string_view kind, std::string_view name);
  void pin(const Hash128& session);
  void send(Picked&& picked);
  UpstreamRequest upstream_request() const;
  HttpHeaders forwarded_headers(const Worker& worker) const;
  bool try_elsewhere(bool costs_retry);
  void begin_answer();
  bool asks_for_handover() const;
  void go_on_streaming(int64_t rest_ms);
  // Why a worker does not go on with a stream; busy: it may later.
  enum class Lost : uint8_t { failed, unreached, refused, busy };
  bool go_on_elsewhere(Lost why);
  void pause();
  void break_off(const HttpError& error);
  bool pass_on(std::string_view bytes);
  bool pass_on_unmarked(std::string_view all, std::string_view bytes);
  std::string events_of(std::string_view bytes, std::optional<Portion>& portion, size_t& n_bytes);
  void finish();
  void fail(const UpstreamError& error);
  void end_stream(std::string tail);
  void on_room();
  void on_client_gone();
  void refuse_no_worker();
  void learn(std::string_view bytes);
  void forget_response();
  void count_generated(std::string_view bytes);
  void note_failed();
  void settle();
  HttpError bad_worker(std::string_view what) const;

  RouteContext& context_;
  HttpRequest request_;
  std::shared_ptr<const std::string> body_;  // of the request: for each worker that is asked
  ReplyPtr reply_;
  RouteAsker asker_;
  RouteAsk ask_;
  Phase phase_ = Phase::looking;
  bool begun_ = false;     // the answer's head was sent to the client
  bool may_move_ = false;  // the stream can go on elsewhere
  int n_moves_ = 0;        // since a token of it was told
  std::vector<std::shared_ptr<Worker>> tried_;
  bool sent_ = false, retried_ = false;
  bool failed_ = false;                                 // the worker that is asked now, and it was noted
  std::shared_ptr<TokenQuestions::Question> question_;  // for the tokens of the prompt
  std::vector<Token> tokens_;                           // empty: not known, or of no use
  ByteLease tokens_lease_;
  std::string cache_salt_;      // of the body, where blocks are looked for by it
  uint64_t named_salt_ = 0;     // as servers of others name it in events, 0: none
  bool salt_too_long_ = false;  // the tokens are of no use then
  int64_t wait_until_ns_ = 0;
  int64_t n_generated_ = 0, n_plain_bytes_ = 0;  // what the key has still to pay: tokens, and bytes
  std::optional<size_t> engine_;                 // the local one whose model it is for
  int64_t keep_alive_ms_ = -1;
  EngineLease engine_lease_;
  std::string reason_;
  std::shared_ptr<Worker> worker_;
  LoadLease load_;
  int64_t sent_ns_ = 0;
  std::shared_ptr<Upstream> upstream_;

  // A stream that another worker can go on with.
  std::string ticket_;                      // of its first worker; empty: the stream has no marks
  StreamForm marked_ = StreamForm::events;  // among what the marks are
  ToldSoFar told_;
  std::optional<MarkFilter> unmarked_;            // there since a line was too long to be held
  std::vector<std::shared_ptr<Worker>> refused_;  // who would not say the same
  int64_t rest_ms_ = kMostRestMs;                 // the shortest that a busy worker has asked for since the last pause
  int64_t pause_ms_ = 0, pause_until_ns_ = 0;     // while all are busy

  UpstreamHead head_;
  StreamForm form_ = StreamForm::bytes;
  ByteLease held_lease_;
  std::string held_;    // gathered, or of an event that is not whole
  std::string learnt_;  // the beginning of an answer in which its name is looked for
  bool learns_ = false;
  std::optional<Hash128> response_;  // that name, once it is known
  std::shared_ptr<Proxied> self_;    // while only the client is waited for
};

}  // namespace quire
