// Why a sequence waits, in the scheduler's own values: for whoever asks what a server is doing. A look at them is
// published now and then (Engine::requests) and decides nothing. Plain values.
#pragma once
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace quire {

// What keeps a sequence from computing in the step that was looked at.
enum class Hold : uint8_t {
  none,       // nothing: it computes in it
  budget,     // `wanted` rows are the most of a step, and others have them
  step_time,  // more rows would make the step longer than it may be
  places,     // `wanted` sequences run, which is the most
  blocks,     // it needs `wanted` blocks of which `have` are free or can be freed
  states,     // likewise of states
  pressure,   // blocks ran out in this step, so nobody new was let in
  leader,     // `other` computes its first `wanted` tokens, of which it has `have`
  load,       // `have` of `wanted` blocks have come from disk or the remote store; 0: not known yet
  behind,     // `wanted` others wait before it, the first of them is `other`
};

// Why a sequence that ran was sent back to wait.
enum class SentBack : uint8_t { never, for_blocks, for_turn };

struct RequestView {
  SeqId id = 0;
  uint64_t tenant = 0;
  int priority = 0;
  int64_t submitted_ns = 0;
  bool running = false;
  int n_prompt = 0, n_cached = 0;  // tokens, without virtual ones; cached: found at its first admission
  int n_computed = 0;              // of its tokens, answer too, that are in the cache now
  int n_generated = 0;
  int n_preempted = 0;  // times
  SentBack sent_back = SentBack::never;
  int n_ahead = 0;  // of its own tenant: those that came before it and are here
  Hold hold = Hold::none;
  SeqId other = 0;
  int64_t wanted = 0, have = 0;
};

struct RequestViews {
  int64_t seen_ns = 0;             // when, by the engine's clock
  std::vector<RequestView> views;  // those that run in their order, then those that wait in theirs
};

class Scheduler;
// Into `out`, whose room is reused. Engine thread, behind a plan; throws std::bad_alloc with nothing of `out` kept.
void view_requests(const Scheduler& scheduler, int64_t now_ns, RequestViews& out);

}  // namespace quire
