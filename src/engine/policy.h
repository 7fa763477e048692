// Who goes first. A policy orders plain views of sequences; it decides nothing else, keeps no state and allocates
// nothing. One file each in engine/policies/, registered by name.
#pragma once
#include <cstdint>
#include <span>

#include "base/registry.h"
#include "base/types.h"

namespace quire {

struct Candidate {
  SeqId id = 0;
  int64_t submitted_ns = 0;
  int priority = 0;
  int n_pending = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Permutes `order` (indices into candidates, each once) so that who goes first stands first. Deterministic.
  virtual void order(std::span<const Candidate> candidates, std::span<int> order) const = 0;
};

struct PolicyEntry {
  const Policy* (*get)();
};

}  // namespace quire
