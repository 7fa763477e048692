// The loop: one thread owns scheduler, cache, sequences and arena, and repeats plan → batch → forward → pick → commit →
// emit. submit and cancel may be called from any thread; everything else belongs to the engine thread.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/pin_book.h"
#include "engine/request.h"
#include "engine/request_view.h"
#include "engine/snapshot.h"
#include "engine/virtual_tokens.h"
#include "model/model.h"

namespace quire {

struct EngineOptions {
  int max_seqs = 64;                       // sequences that run together; never more than step_tokens
  int step_tokens = 512, max_chunk = 512;  // token budget of a step, and of one sequence in it
  int n_ctx = 0;                           // longest prompt + answer, 0: what the model was trained for
  int64_t kv_bytes = 0;     // memory for blocks; under one sequence of n_ctx tokens fewer fit. 0: from what is free
  int block_tokens = 16;    // a multiple of kStripTokens
  int n_window_blocks = 0;  // of kv_bytes, for layers that see a window. 0: for all that may run, at most half
  // States of layers that keep one in place of attention, of kv_bytes. 0: three for each that may run, at most half of
  // kv_bytes and, where a context of n_ctx tokens and three states fit into them, at most what that context leaves.
  int n_states = 0;
  int max_queue = 1024, max_pins = 1024;  // waiting requests, beyond which submit fails; pins
  bool prefix_cache = true;
  double itl_target_ms = 0;   // prompts are cut so that a step with streams takes no longer; 0: cut at step_tokens only
  double step_target_ms = 0;  // likewise, and streams take turns (stream_turns.cc); 0: all of them are in every step
  std::string policy = "fcfs";
  int allowance = 16384;    // of a tenant of weight 1, in virtual tokens (tenants.h); policies that know it alone
  int64_t pin_bytes = -1;   // of kv_bytes what pins may hold, at most what limit_pins allows. -1: a quarter, or that
  int64_t swap_bytes = -1;  // beside kv_bytes, for copies (swaps.h). -1: a quarter of it, or 0 where none are made
  double retain_share = 0.25, recompute_share = 0.05;  // of blocks, that requests retain; of rows, lost (growth.h)
  std::string kv_policy = "cost_aware";  // which cached block goes first when room is needed (kv/kv_policy.h)
  // Below the cache, "" for none, and both need prefix_cache: a folder of its own in which blocks outlive the process,
  // their bytes at most; a store that engines of one model share, its files (RedisTlsFiles), how long blocks stay.
  std::string kv_disk{}, kv_remote{}, kv_remote_password{}, kv_remote_ca{}, kv_remote_cert{}, kv_remote_key{};
  int64_t kv_disk_bytes = int64_t{4} << 30, kv_remote_keep_s = 86'400;
  std::string proposer{};  // who guesses ahead, as a list (spec/several.h); "": nobody, unless EngineEnv has one
  int max_draft = 0;       // tokens of a guess at most; 0: four where somebody guesses, eight where it adapts
  int max_side = 0, draft_rows = 0;  // of a tree beside these; of all guesses of a step, 0: as many as each may have
  int exit_layers = 0;               // after so many layers of the model the proposer "exit" leaves it, at least 1
  std::optional<bool> overlap{};     // of steps (scheduler_ahead.cc); nothing: where the backend has ops for it
  bool adapt_draft = false;          // guesses are as long as it pays, by the durations of the steps that were
};

// Every nondeterministic input of the engine enters through this, so that a run can be recorded and replayed: a step
// records the time of its start, the submissions and cancellations that it took in, what was guessed, and, when it
// computed something, the time of its end. stop() records the same way what it cancels. Engine thread only.
struct EngineInput {
  enum class Kind : uint8_t { submit, cancel, clock, draft } kind;
  SeqId seq;
  int64_t time_ns;
  const Request* request;              // for submit, valid during the call
  std::span<const Token> draft{};      // for draft, likewise: what was guessed to follow the sequence
  std::span<const int32_t> parents{};  // as Draft has them
};
// What the engine made of them, in order: `value` is the grant's number of tokens, the committed token, the Finish; of
// a preemption the number of sequences that the step's plan sent back (and seq is 0).
struct EngineDecision {
  enum class Kind : uint8_t { preempt, grant, token, finish } kind;
  SeqId seq;
  int64_t value;
};
class InputRecorder {
 public:
  virtual ~InputRecorder() = default;
  virtual void record(const EngineInput&) = 0;  // neither throws: a recording ends, the run goes on
  virtual void decided(const EngineDecision&) {}
};

struct EngineEnv {
  Clock* clock = nullptr;             // REQUIRES non-null; asked by every thread that submits
  InputRecorder* recorder = nullptr;  // may be null
  Clock* stage_clock = nullptr;  // measures parts of a step, in any unit; decides nothing, is not recorded; may be null
  const Model* draft = nullptr;  // what the proposer "draft" writes with (ProposerEnv); outlives the engine
  const class TokenBridge* bridge = nullptr;   // to that model's tokens where they are others, likewise
  const struct MedusaHeads* medusa = nullptr;  // what the proposer "medusa" guesses with, likewise
  const struct EagleHead* eagle = nullptr;     // what the proposer "eagle" guesses with, likewise
  const class Tokenizer* tokenizer = nullptr;  // what the proposer "grammar" cuts text with, likewise
  std::shared_ptr<class Proposer> proposer;    // in place of the one that the options name; may be null
  std::vector<std::shared_ptr<Tier>> tiers;    // nearest first, in place of those that the options make; may be none
  std::vector<VirtualTokens> prefixes;  // before prompts; their blocks come on top of kv_bytes. Equal contents are one
  std::function<void()> on_step_end;  // wakes whoever reads the sinks, after a step or stop() called some; may be empty
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Any thread; ids ascend in order of arrival. Refuses at once, and then the sink is never called: Code::invalid what
  // can never run (an empty prompt, one over the context, an id outside the vocabulary, a prefix that is not there, a
  // pin of more than may be pinned), Code::exhausted when it needs more blocks than exist or the queue is full,
  // Code::cancelled after stop(). Errors name the limit and the value.
  virtual Result<SeqId> submit(Request, std::shared_ptr<EventSink>) = 0;
  // Any thread: places in the queue for `n` sequences of one tenant, or Code::exhausted and none. REQUIRES n ≥ 1.
  virtual Result<std::shared_ptr<QueuePlaces>> reserve(uint64_t tenant, int n) = 0;
  virtual void cancel(SeqId) = 0;                               // any thread; unknown or finished ids are ignored
  virtual std::vector<PinView> pins(uint64_t owner) const = 0;  // any thread: what this owner has pinned
  virtual bool unpin(uint64_t id, uint64_t owner) = 0;          // any thread; at once. False: the owner has no such pin
  virtual void start() = 0;  // runs the loop in its own thread. Once; not together with step()
  // Joins, cancels what is left (sinks hear it on this thread) and refuses what comes later. Idempotent; not in a sink.
  virtual void stop() = 0;
  virtual bool step() = 0;  // one step on the caller's thread instead of start(); false: there was nothing to do
  virtual EngineStats stats() const = 0;             // any thread: counters as of the last step
  virtual RequestViews requests() const = 0;         // any thread: as of the last look, one in 100 ms at most
  virtual Snapshot snapshot() const = 0;             // engine thread (or between step() calls)
  virtual const EngineOptions& options() const = 0;  // as resolved: n_ctx, kv_bytes filled in
};

// Allocates blocks and arena on `ops`. `model` and `ops` outlive the engine.
Result<std::unique_ptr<Engine>> make_engine(const Model& model, Ops& ops, EngineOptions options, EngineEnv env);

}  // namespace quire
