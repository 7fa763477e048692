// Where a request goes: a policy is a pure function over plain views of the workers that may be chosen, one file each
// in policies/, registered under its file's name. The one idea: a worker may be given more only while its load is
// within 1.25 × the mean of all, in tokens, or for what it holds already in requests, whatever a policy would like.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/registry.h"

namespace quire {

struct WorkerView {
  uint64_t id = 0;          // of its address: the same in every router
  int64_t load_tokens = 0;  // of what it was given and has not answered
  int64_t n_requests = 0;
  int64_t hit_tokens = 0;      // of the prompt's beginning that it is thought to hold
  int64_t prefill_tokens = 0;  // of the prompts that it was given and has not begun to answer, less what it holds
  int64_t n_decoding = 0;      // answers that it has begun
  double token_ns = 0;         // a token of a prompt, as measured; 0: not known
};

struct RouteQuery {
  uint64_t key = 0;    // of the session, or of the prompt's beginning; equal keys should meet
  int64_t tokens = 0;  // what the request adds to a worker's load, as estimated
  uint64_t turn = 0;   // how many were chosen before
  int64_t prompt_tokens = 0;
};

struct RouteChoice {
  size_t index = 0;         // of the views
  std::string_view reason;  // a word for the client and the metrics
};

// REQUIRES workers not empty. Equal arguments have equal choices.
using RoutePolicy = RouteChoice (*)(std::span<const WorkerView> workers, const RouteQuery& query);

struct RoutePolicyEntry {
  RoutePolicy choose;
  bool needs_hits;  // hit_tokens are filled in
};

// Who may be given a request of `tokens` more, for one choice. REQUIRES workers not empty.
class LoadBound {
 public:
  LoadBound(std::span<const WorkerView> workers, int64_t tokens);
  // Its load is at most 1.25 × the mean with the request.
  bool allows(const WorkerView& w) const { return static_cast<double>(w.load_tokens) <= most_tokens_; }
  // The same of what it would have but for the tokens that it holds of the prompt, so that with the request it is over
  // that by no more than one whole request; in requests it is too, at most one over 1.25 × the mean, rounded up.
  // Prompts are long beside what a worker has to do: one of another dialogue would often be enough to send this one
  // away, to be computed anew and kept twice.
  bool keeps(const WorkerView& w) const {
    return allows(w) ||
           (w.n_requests <= most_requests_ && static_cast<double>(w.load_tokens - w.hit_tokens) <= most_tokens_);
  }

 private:
  double most_tokens_ = 0;
  int64_t most_requests_ = 0;
};

// What policies are made of. The least loaded, of equals the one with fewest requests, then the one that comes first
// from `turn` on.
size_t least_loaded(std::span<const WorkerView> workers, uint64_t turn);
// The worker that `key` belongs to among those within the bound: the highest of hashes of key and id, so that one
// worker more or less moves only the keys that are its own.
RouteChoice by_key(std::span<const WorkerView> workers, const RouteQuery& query);

}  // namespace quire
