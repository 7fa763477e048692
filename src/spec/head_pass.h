// A pass over a head that goes on from the target's states, token after token, and what such passes share. A head has
// rows of a token and the state behind the tokens before it: the first ones of a step read states that the target's
// pass left, those of later guesses what the head itself left. Engine thread.
#pragma once
#include <span>
#include <vector>

#include "kv/kv_cache.h"
#include "spec/proposer.h"
#include "tensor/arena.h"

namespace quire {

// Rows of one sequence.
struct HeadRows {
  const SeqKv* kv = nullptr;  // has blocks for all of them
  int begin = 0;              // position of the first
  std::span<const Token> tokens;
  int from = 0;              // the first row's state: a row of tapped(), or, of one token, a place in the run before
  int then = 0, n_then = 0;  // the last n_then rows read states from `then` on
};

struct HeadPassSize {
  int n_rows = 0, n_seqs = 0, n_ctx = 0, block_tokens = 0;  // of a run at most
  int n_tapped = 0;                                         // rows of the target's step at most
};

// Owns the pass's memory and the states; decides nothing.
class HeadPass {
 public:
  virtual ~HeadPass() = default;
  // Where the target's states of all rows of a step go. The same for as long as it lives.
  virtual std::span<const StreamTap> tapped() const = 0;
  // Of each of `rows` the next token, drawn as `params` say; a negative one where there is none. The first run of a
  // step reads tapped(), the others what the run before left. Valid until the next. REQUIRES rows that keep to the
  // size. Throws what the pass throws (no memory, say).
  virtual std::span<const Token> run(std::span<const HeadRows> rows,
                                     std::span<const SampleParams> params,
                                     bool first,
                                     const KvView& kv) = 0;
  // Of the i-th of the rows of the run before the likeliest tokens, as many as its params' n_top asked for, into `out`.
  virtual void likeliest(size_t i, std::vector<Token>& out) const = 0;
};

// The rows as a batch, in the arena; every sequence's last row is one of output.
Batch head_batch(std::span<const HeadRows> rows, const KvLayout& layout, int block_tokens, Arena& arena);
// Bytes that head_batch() takes at most.
int64_t head_batch_bytes(const HeadPassSize& most, const KvLayout& layout);
// Which state each row reads, i32 [n].
Tensor state_rows(std::span<const HeadRows> rows, int64_t n, Arena& arena);

}  // namespace quire
