// What one simulated run is made of, as plain data: knobs, requests with their arrivals, cancellations and faults, and
// faults of steps. A script is drawn from a seed, shrunk by taking things away, written as one line of JSON and read
// back: whatever fails can be run again.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/types.h"

namespace quire::sim {

struct Knobs {
  int max_seqs = 8, step_tokens = 64, max_chunk = 64, n_ctx = 64;
  int block_tokens = 16, n_blocks = 64, max_queue = 64;
  int window = 0, n_window_blocks = 64;  // of layers that see a window; 0: there are none
  int n_sinks = 0;                       // and beside it the first tokens of their sequence
  int allowance = 0;                     // of tenants
  int recompute_percent = 5;             // of rows that are lost to preemption at most; 100: any
  bool prefix_cache = true;
  int itl_target_ms = 0;
  int step_target_us = 0;
  std::string policy = "fcfs", kv_policy = "lru";
  // A tier below memory for so many blocks; 0: there is none. How long it takes for one, and how rarely a fault befalls
  // a read, a write or what lies there; 0: never.
  int tier_blocks = 0, tier_fault_in = 0;
  int64_t tier_read_ns = 100'000;
  // A store of several servers below that, for so many blocks; 0: there is none. How long a question and a block take.
  // Faults befall it as often as the tier. And whether another server of the same requests has left its blocks there.
  int remote_blocks = 0;
  int64_t remote_ask_ns = 100'000, remote_read_ns = 100'000;
  bool remote_before = false;
  int max_draft = 0;   // tokens that are guessed ahead at most; 0: nobody guesses
  int max_side = 0;    // and of a tree beside them
  uint64_t guess = 0;  // how, as ScriptedProposer's seed
  // The time of a step: base + row · rows + context · Σ context, give or take `noise` percent.
  int64_t base_ns = 200'000, row_ns = 20'000, context_ns = 100;
  int noise = 0;
};

// Tokens [0, n) of the text with this number.
struct Piece {
  uint64_t text = 0;
  int n = 1;
};

// What goes wrong with a request, while its token number `at` is made.
enum class RowFault : uint8_t {
  none,
  nan_edit,      // its rule makes a logit NaN
  nan_row,       // its rule forces the token after which the model's own logits are NaN
  throw_edits,   // its rule throws when asked for edits
  throw_accept,  // its rule throws when told the token
  throw_end,     // its end rule throws
};
inline constexpr int kNRowFaults = 6;

struct RequestScript {
  int64_t arrival_ns = 0;
  std::vector<Piece> prompt;
  int poison = -1;  // this position of the prompt makes the model's logits NaN; -1: none
  int max_tokens = 1;
  float temperature = 0.0F;
  int top_k = 0;
  uint64_t seed = 0;
  Token stop_id = -1;       // -1: none
  int end_after = 0;        // an end rule ends it with this token; 0: none
  bool no_repeats = false;  // a rule forbids the token before
  uint64_t salt = 0;
  int n_public = 0;  // of text 0 these tokens are everybody's
  int priority = 0;
  int64_t deadline_ns = 0;  // for its first token, after its arrival; 0: none
  uint64_t tenant = 0;
  int weight = 1;          // the tenant's
  int64_t cancel_ns = -1;  // after its arrival; -1: never
  RowFault fault = RowFault::none;
  int at = 0;
};

struct StepFault {
  enum class Kind : uint8_t { slow, jump, throws } kind = Kind::slow;
  int64_t step = 0;  // the pass that it befalls, from 1
  int64_t value =
      0;  // slow: times as long; jump: nanoseconds by which the clock is moved; throws: 0 bad_alloc, 1 other
};

struct Script {
  uint64_t seed = 0;
  Knobs knobs;
  std::vector<RequestScript> requests;  // by arrival
  std::vector<StepFault> faults;
  bool no_memory = false;  // the cache cannot be allocated
};

inline constexpr int64_t kDayNs = 86'400'000'000'000;

// One in eight is a fairness_script.
Script random_script(uint64_t seed);
// Tenants that send more than can be served, each of its own kind, under the policy "vtc", with an allowance in
// half of them; some pause and come back.
Script fairness_script(uint64_t seed);

std::vector<Token> prompt_of(const RequestScript& request);
// Leading tokens of the prompt that are shared whatever the salt.
int n_public_of(const RequestScript& request);

std::string to_json(const Script& script);  // one line
// Code::invalid for what is no script; ranges are the engine's to check.
Result<Script> script_from_json(std::string_view text);

}  // namespace quire::sim
