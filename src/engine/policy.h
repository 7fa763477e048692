// Who goes first. A policy orders plain views of sequences; it decides nothing else, keeps no state and allocates
// nothing. One file each in engine/policies/, registered by name.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>

#include "base/registry.h"
#include "base/types.h"

namespace quire {

inline constexpr int kMostWeight = 100;  // of a tenant
inline constexpr int64_t kUsualDeadlineNs =
    600'000'000'000;  // of a request that names none: it waits no longer behind others

// Where a sequence stands among those of all tenants when these take turns: the oldest of each tenant comes before the
// second of any, and of those the one that has been it for longest. Of a tenant with weight n the n-th comes before the
// second of one with weight 1. It moves forward only, and where there is one tenant it is the order of arrival.
// Compared as a whole.
struct Turn {
  int n_ahead = 0;         // of its own tenant: those that came before it and are here, × kMostWeight ÷ its weight
  int64_t ahead_plan = 0;  // number of the plan before which that number became what it is
  SeqId id = 0;
  auto operator<=>(const Turn&) const = default;
};

struct Candidate {
  SeqId id = 0;
  int64_t submitted_ns = 0;
  int priority = 0;  // lower goes first
  int n_pending = 0;
  int n_prompt = 1;  // ≥ 1
  int n_hit = 0;     // prompt tokens that are cached: an estimate while it waits, what was found once it runs
  Turn turn{};
  // To its tenant (engine/tenants.h), of those that wait. 0 for those that run among themselves, and so where it is
  // asked who gives way: what changes with every step decides nothing about these.
  int64_t served = 0;
  int64_t deadline_ns = 0;  // when its first token is to be there, by the clock of submitted_ns
  bool within = false;      // its tenant is within its allowance (engine/tenants.h), now
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Permutes `order` (indices into candidates, each once) so that who goes first stands first. Deterministic. Between
  // two candidates that did not change the order stays, whatever the time: who runs before another goes on before it.
  virtual void order(std::span<const Candidate> candidates, std::span<int> order) const = 0;
  // Whether n_hit counts; it costs look-ups and is 0 for everybody who waits otherwise.
  virtual bool wants_hits() const { return false; }
  // Whether deadlines count; then requests that cannot meet theirs are refused.
  virtual bool wants_deadlines() const { return false; }
  // Whether `within` counts, and comes before turns.
  virtual bool wants_allowances() const { return false; }
};

// An order by what `key` gives for each candidate, the least first. REQUIRES keys that differ.
template <class Key>
void order_by(std::span<const Candidate> candidates, std::span<int> order, Key key) {
  const auto of = [&](int i) { return key(candidates[static_cast<size_t>(i)]); };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return of(a) < of(b); });
}

struct PolicyEntry {
  const Policy* (*get)();
};

}  // namespace quire
