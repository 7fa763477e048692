// What comes into the engine and what goes out: values that are validated already, none of the user's strings. A
// request's rules are its caller's code; a recording leaves them out.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "engine/explanation.h"
#include "engine/queue_places.h"
#include "kv/retention_range.h"
#include "ops/operands.h"
#include "sample/logits_rule.h"
#include "sample/sampling_params.h"

namespace quire {

// What is wanted of a prompt's hidden states (after the model's last norm): nothing, the last token's, their mean, or
// each, one behind the other.
enum class Pool : uint8_t { none, last, mean, all };

// A wish that the whole blocks of a request's prompt stay in the cache until their owner gives them up
// (Engine::unpin).
struct PinWish {
  uint64_t id = 0;     // names the pin; 0: no wish
  uint64_t owner = 0;  // who may see it and give it up, as an opaque number
  int n_most = 0;      // pins that this owner may have, this one included
};

struct Request {
  std::vector<Token> prompt;  // not empty, every id in the vocabulary
  // What another engine with the same model has answered already: the answer goes on behind it as it would have there.
  // Its tokens are not told again, and count as the answer's everywhere else: fewer than max_tokens, none of them ends
  // it. Not beside rules that need to know how tokens came about (mirostat), prompt logprobs, pooling, explanations.
  std::vector<Token> output;
  SamplingParams sampling;
  int max_tokens = 16;                             // ≥ 1
  std::vector<Token> stop_ids;                     // end the sequence, are not part of the text
  bool ignore_eos = false;                         // serve puts the model's end tokens into stop_ids unless this is set
  std::unique_ptr<EndRule> end;                    // may be null
  std::vector<std::unique_ptr<LogitsRule>> rules;  // beside those that `sampling` asks for; act after them
  uint64_t cache_salt = 0;                         // separates who may share cached prefixes; 0: everybody
  int n_public = 0;     // leading prompt tokens that are no secret (an operator's text): shared whatever the salt
  uint64_t prefix = 0;  // VirtualTokens::content of what stands before the prompt; 0: nothing
  // What is added to the model's weights for this request; made for this model (model/lora.h). Null: nothing. Not
  // beside a learned prefix.
  std::shared_ptr<const Adapter> adapter;
  int priority = 0;
  uint64_t tenant = 0;  // who asks, as an opaque number: tenants take turns, whatever each sends; 0 is one too
  int weight = 1;       // of its tenant: 1 to kMostWeight; a tenant's share is in proportion to it
  // The first token is to come so long after submit; 0: whenever it comes. Under the policy "deadlines" alone.
  int64_t deadline_ns = 0;
  bool match_prefix = true;  // may take its prefix from the tree; it is put there in any case
  // Blocks of the prompt that are kept behind it, in tokens (engine/budget.h); 0: all. At least least_budget; not
  // beside a learned prefix or a pin, and only where the model and the backend can (why_no_budget).
  int kv_budget = 0;
  int max_draft = -1;  // tokens guessed ahead at a time at most; -1: as many as the engine does
  // Other than none: on_pooled is called before the answer's first token, which is all of an answer that such a request
  // needs (max_tokens 1).
  Pool pool = Pool::none;
  bool tells_progress = false;  // events say how far the prompt is (TokenEvent::n_done)
  // Has one for this sequence (Engine::reserve, for the same tenant). Null: submit looks for a place itself.
  std::shared_ptr<QueuePlaces> places;
  // How long the blocks of prompt and answer are to stay when it has ended other than by an error or a cancellation;
  // tokens are counted from the prompt's first. At most kMostRetentionRanges.
  std::vector<RetentionRange> retention;
  PinWish pin;  // granted when the request ends otherwise than by an error or a cancellation
  // Not null: nothing is computed. on_explained is called, then on_finish, with nothing in its usage.
  std::unique_ptr<ExplainWish> explain;

  // What keys and values depend on besides model and tokens; 0: nothing.
  uint64_t learned() const { return adapter != nullptr ? adapter->content : prefix; }
};

inline constexpr size_t kMostRetentionRanges = 64;
inline constexpr int kMostDraft = 64;  // tokens of one guess, whatever is asked for

// Why a token was computed; every computed row has exactly one.
enum class Cause : uint8_t { fresh, recomputed, draft, warm_up };
inline constexpr int kNCauses = 4;

// The parts of a step, for measuring; nanoseconds by part.
enum class Stage : uint8_t { plan, batch, forward, sample, commit };
inline constexpr int kNStages = 5;
using StageTimes = std::array<int64_t, kNStages>;

// What a sequence took of the engine. Over all sequences these sum to the engine's totals, to the token and the
// nanosecond: a step's duration is divided among its rows, a block counts for each sequence that holds it.
struct Cost {
  std::array<int64_t, kNCauses> computed{};  // rows by cause
  int64_t n_accepted = 0;                    // of the rows that computed a guess: those of which it came true
  int64_t n_reused = 0;                      // tokens taken from the prefix tree instead of being computed
  int64_t n_wasted = 0;                   // of the computed: dropped, because another had computed the same meanwhile
  int64_t block_ns = 0;                   // blocks held × duration, over its steps
  int64_t prefill_ns = 0, decode_ns = 0;  // share of the steps that computed its prompt, its answer
  StageTimes stage_ns{};                  // share of the parts of its steps, by EngineEnv::stage_clock; none of commit

  int64_t n_computed() const {
    int64_t n = 0;
    for (const int64_t rows : computed) n += rows;
    return n;
  }
  Cost& operator+=(const Cost& o) {
    for (size_t i = 0; i < computed.size(); ++i) computed[i] += o.computed[i];
    n_accepted += o.n_accepted;
    n_reused += o.n_reused;
    n_wasted += o.n_wasted;
    block_ns += o.block_ns;
    prefill_ns += o.prefill_ns;
    decode_ns += o.decode_ns;
    for (size_t i = 0; i < stage_ns.size(); ++i) stage_ns[i] += o.stage_ns[i];
    return *this;
  }
};

struct TokenEvent {
  Token id = -1;
  float logprob = 0.0F;
  std::vector<TopLogprob> top;
  bool prompt = false;    // a token of the prompt, where sampling.n_prompt_logprobs asks for them: all but the first
  bool accepted = false;  // a guess that came true; Cost::n_accepted counts these
  // ≥ 0: no token; so many of the prompt's are computed or were cached. Rising; the first says what was cached, before
  // anything is computed, the last one comes before the answer's first token.
  int n_done = -1;
};

enum class Finish : uint8_t { stop, length, cancelled, error };

// The error of a request for which there was no memory. Short enough for a string to need none.
inline constexpr std::string_view kNoMemory = "out of memory";
// Of one whose first token cannot come by its deadline: it ends before anything is computed for it. Short likewise.
inline constexpr std::string_view kTooLate = "too late";
inline constexpr int64_t kMostDeadlineNs = 86'400'000'000'000;

struct Usage {
  int n_prompt = 0, n_generated = 0;  // without virtual tokens; a stop id counts
  int n_cached = 0;                   // prompt tokens that came from the prefix tree at first admission
  int n_disk = 0;                     // of these: that were brought from disk for it
  int n_remote = 0;                   // of these: that were brought from the remote store for it
  int n_dropped = 0;                  // prompt tokens that its kv_budget left no room for
  int n_pinned = 0;                   // prompt tokens that are pinned now; -1: a limit of pins kept them from it
  int64_t queued_ns = 0, first_token_ns = 0, total_ns = 0;  // since submit
  Cost cost;
};

// Where a request's results go. Called by the engine thread only (by stop()'s once that has ended), never blocks, never
// throws; may outlive the request on either side.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // The prompt's, where asked for, come first and in order.
  virtual void on_token(SeqId, const TokenEvent&) = 0;
  // Of requests that asked for pooling, once, where the model has hidden states to give: n_embd values, or as many for
  // each token.
  virtual void on_pooled(SeqId, std::span<const float>) {}
  // Of requests that asked for an explanation instead of an answer, once.
  virtual void on_explained(SeqId, const Explanation&) {}
  // Exactly once, last. `error` is empty unless finish is Finish::error; then it may be shown to the user.
  virtual void on_finish(SeqId, Finish, const Usage&, const std::string& error) = 0;
};

}  // namespace quire
