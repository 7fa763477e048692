// Guess ahead: a proposer drafts tokens that the next step verifies as ordinary pending tokens. One file per proposer
// in spec/proposers/, registered by name; there is none yet. Engine thread.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/registry.h"
#include "base/types.h"

namespace quire {

struct Draft {
  SeqId seq = 0;
  std::span<const Token> context;  // every committed token of the sequence
  int max_tokens = 0;
  std::vector<Token>* out = nullptr;  // the proposer appends at most max_tokens guesses
};

struct Verified {
  SeqId seq = 0;
  int n_drafted = 0, n_accepted = 0;
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual int max_draft() const = 0;
  virtual void propose(std::span<Draft>) = 0;
  virtual void observe(std::span<const Verified>) {}
  virtual void forget(SeqId) {}
};

struct ProposerEntry {
  std::unique_ptr<Proposer> (*make)();
};

}  // namespace quire
