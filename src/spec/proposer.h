// Guess ahead: a proposer drafts tokens, and the next step computes them beside the token that is due. What the model
// would have written itself stays, the rest is dropped: a draft changes how many steps an answer takes and nothing of
// the answer. One file per proposer in spec/proposers/, registered by name. Engine thread.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/registry.h"
#include "base/result.h"
#include "model/model.h"
#include "spec/draft.h"

namespace quire {

struct MedusaHeads;

// Hidden states of every row of a step, between two layers of the target.
struct StreamTap {
  int n_layers = 0;  // behind so many of them, 1 … all
  Tensor rows;       // i32 [≥ n]: 0, 1, 2, …
  Tensor out;        // f32 [≥ n, n_embd], in memory of the proposer with room for ProposerEnv::n_rows
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual int max_draft() const = 0;          // tokens of one draft at most
  virtual int max_side() const { return 0; }  // and of a tree beside them
  // What the target's passes write for it, into memory of its own with room for ProposerEnv::n_out rows: in propose()
  // it holds the rows of output of the last step. The same for as long as it lives.
  virtual std::span<const Tap> taps() const { return {}; }
  // The same of every row of the step, in order, each time after the layers of one more of these. Ascending; likewise.
  virtual std::span<const StreamTap> all_rows() const { return {}; }
  // Whether it computes rows of the target behind a sequence's past, in the target's own cache (Draft::kv). Nothing of
  // what it writes there lasts: the step computes the due token and what was drafted again before anybody reads them.
  virtual bool writes_ahead() const { return false; }
  // That cache, before the first propose(); for as long as it lives. Only of one that writes_ahead().
  virtual void write_into(const KvView&) {}
  // How many of asked.max_tokens it may come to for this one sequence now. Asked before a depth is chosen, so that none
  // is where there is nothing; 0: propose() is not told of it in this step.
  virtual int most(const Draft& asked) { return asked.max_tokens; }
  // Answers all of the drafts, or leaves them empty. What it throws is counted, and this step has no drafts.
  virtual void propose(std::span<Draft> drafts) = 0;
  // After the step: of those that were computed. Throws nothing.
  virtual void observe(std::span<const Verified>) {}
  // The sequence has ended. Throws nothing.
  virtual void forget(SeqId) {}
};

struct ProposerOptions {
  int max_draft = 0;  // tokens of a draft at most, ≥ 1
  int max_side = 0;   // and of a tree beside them
};

class Tokenizer;
class TokenBridge;

// What proposers are made of; it all outlives them.
struct ProposerEnv {
  const Model* target = nullptr;  // whose tokens are guessed
  Ops* ops = nullptr;
  int n_ctx = 0, max_seqs = 0;          // of the engine
  int block_tokens = 16, n_blocks = 0;  // of its cache: all that its sequences can hold
  int n_out = 0;                        // rows of output of a step at most
  int n_rows = 0;                       // rows of a step at most
  bool prefix_cache = true;
  const Model* draft = nullptr;             // a smaller model, on the same ops; null: there is none
  const TokenBridge* bridge = nullptr;      // from the target's tokens to the draft's; null: they are the same
  const MedusaHeads* medusa = nullptr;      // heads made for the target, on the same ops; null: there are none
  const struct EagleHead* eagle = nullptr;  // a head made for the target, likewise
  const Tokenizer* tokenizer = nullptr;     // of the target; null: not told
  int exit_layers = 0;                      // of the target, that draft by themselves; 0: none do
};

struct ProposerEntry {
  Result<std::unique_ptr<Proposer>> (*make)(const ProposerOptions&, const ProposerEnv&);
  // Bytes that make() allocates of env.ops, without the blocks of a cache; null: none. Looks at shapes alone: models
  // and heads may have no numbers, ops may be null. REQUIRES what make() does.
  int64_t (*bytes)(const ProposerOptions&, const ProposerEnv&) = nullptr;
};

}  // namespace quire
