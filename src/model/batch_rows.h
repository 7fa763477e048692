// A step's rows laid out as the index tensors of a batch, sequence by sequence, in an arena: the one place that knows
// what each of these tensors holds. Whoever has the sequences says which rows they get and which blocks they hold.
// Plain values; one thread at a time.
#pragma once
#include <span>

#include "kv/layout.h"
#include "model/pass.h"

namespace quire {

// Rows of one sequence: a row for each of `tokens`, then for each of `guesses`.
struct SequenceRows {
  int begin = 0;  // position of the first
  std::span<const Token> tokens, guesses = {};
  int n_out = 0;  // the last n_out of them are rows of output
  // The n_again positions before `begin` are computed in this batch by rows of another sequence, from first_again on:
  // their keys and values go into this one's blocks as well.
  int first_again = 0, n_again = 0;
  int n_dropped = 0;  // tokens before `begin`, of whole blocks, that its tables do not have any more: they close up
};

class BatchRows {
 public:
  struct Size {
    int64_t n_rows = 0, n_out = 0, n_seqs = 0;
    int64_t n_blocks = 0;  // of a sequence, at most
    int64_t n_again = 0;   // of all sequences
  };
  // What it takes from an arena at most; n_out does not count.
  static int64_t bytes(const Size& most, int n_groups);
  // `layout` and the arena outlive it, and the arena the batch.
  BatchRows(const Size& size, const KvLayout& layout, int block_tokens, Arena& arena);

  // Whether sequences have tables in a group. Of states they have none: their tensors are filled in the batch.
  bool has_table(size_t group) const;
  // The next sequence's blocks in a group, all 0. Before add().
  std::span<int32_t> table(size_t group);
  // The next sequence is complete. REQUIRES blocks in its tables for all of its rows.
  void add(const SequenceRows& rows);
  // REQUIRES all the rows of the size to be there.
  Batch batch() const;

 private:
  void put_slots(size_t group, int begin, int64_t n, int32_t* to) const;

  const KvLayout& layout_;
  const int block_tokens_;
  Batch batch_;
  int64_t n_seqs_ = 0, n_rows_ = 0, n_out_ = 0, n_again_ = 0;  // so far
};

}  // namespace quire
