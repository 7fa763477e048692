// What comes into the engine and what goes out: plain values, already validated, no strings of the user's.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "sample/logits_rule.h"
#include "sample/sampling_params.h"

namespace quire {

struct Request {
  std::vector<Token> prompt;  // not empty, every id in the vocabulary
  SamplingParams sampling;
  int max_tokens = 16;           // ≥ 1
  std::vector<Token> stop_ids;   // end the sequence, are not part of the text
  bool ignore_eos = false;       // serve puts the model's end tokens into stop_ids unless this is set
  std::unique_ptr<EndRule> end;  // may be null
  std::vector<std::unique_ptr<LogitsRule>> rules;
  uint64_t cache_salt = 0;  // separates who may share cached prefixes; 0: everybody
  int priority = 0;
};

// Why a token was computed; every computed row has exactly one.
enum class Cause : uint8_t { fresh, recomputed, draft, warm_up };
inline constexpr int kNCauses = 4;

struct TokenEvent {
  Token id = -1;
  float logprob = 0.0F;
  std::vector<TopLogprob> top;
};

enum class Finish : uint8_t { stop, length, cancelled, error };

struct Usage {
  int n_prompt = 0, n_generated = 0;
  int n_cached = 0;  // prompt tokens that came from the prefix tree at first admission
  int64_t queued_ns = 0, first_token_ns = 0, total_ns = 0;  // since submit
};

// Where a request's results go. Called by the engine thread only (by stop()'s once that has ended), never blocks, never
// throws; may outlive the request on either side.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_token(SeqId, const TokenEvent&) = 0;
  // Exactly once, last. `error` is empty unless finish is Finish::error; then it may be shown to the user.
  virtual void on_finish(SeqId, Finish, const Usage&, const std::string& error) = 0;
};

}  // namespace quire
