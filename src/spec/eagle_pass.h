// A pass over an EAGLE-3 head: of several sequences the token that it thinks next, and the state that it goes on from.
// Owns that pass's memory and the states; decides nothing. Engine thread.
#pragma once
#include <span>
#include <vector>

#include "kv/kv_cache.h"
#include "model/eagle.h"
#include "spec/proposer.h"
#include "tensor/arena.h"

namespace quire {

// Rows of one sequence. A row is a token and the state behind the tokens before it.
struct EagleRows {
  const SeqKv* kv = nullptr;  // has blocks for all of them
  int begin = 0;              // position of the first
  std::span<const Token> tokens;
  int from = 0;  // the first row's state: a row of tapped(), or, of one token, a place in the run before
};

class EaglePass {
 public:
  struct Size {
    int n_rows = 0, n_seqs = 0, n_ctx = 0, block_tokens = 0;  // of a run at most
    int n_tapped = 0;                                         // rows of the target's step at most
  };
  static int64_t bytes(const EagleHead& head, const Size& most);
  // All of them outlive it; `memory` as bytes() says. The embedding is the target's where the head has none.
  EaglePass(const EagleHead& head, const Model& target, Ops& ops, const Size& most, Buffer memory);

  // Where the target's states of all rows of a step go, one tap behind the other in each row.
  std::span<const StreamTap> tapped() const { return taps_; }
  // Of each of `rows` the likeliest next token; a negative one where there is none. The first run of a step reads
  // tapped(), the others what the run before left. Valid until the next. REQUIRES rows that keep to the size. Throws
  // what the pass throws (no memory, say).
  std::span<const Token> run(std::span<const EagleRows> rows, bool first, const KvView& kv);

 private:
  Batch batch_of(std::span<const EagleRows> rows);
  Tensor states_of(std::span<const EagleRows> rows, bool first, int64_t n);
  Tensor embed(const Batch& batch, const KvView& kv);
  void attention(Tensor out, Tensor tokens, Tensor state, const Batch& batch, const KvView& kv);
  void guess(Tensor x, const Batch& batch);

  const EagleHead& head_;
  const Model& target_;
  Ops& ops_;
  const Size size_;
  Arena arena_;
  Tensor tapped_;  // f32 [n_tapped, taps · n_embd]
  Tensor left_;    // f32 [n_seqs, n_embd]: of the run before
  Arena::Mark kept_;
  std::vector<StreamTap> taps_;
  std::vector<Sampled> sampled_;
  std::vector<SampleParams> params_;
  std::vector<Token> tokens_;
};

}  // namespace quire
