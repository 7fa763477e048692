// A pass over a draft model, or over the first layers of a model, whose head reads what these leave: the next tokens of
// several sequences, whose keys and values lie in a cache of its layout, to one sampled token of each that wants one.
// Owns that pass's memory; decides nothing. Engine thread.
#pragma once
#include <span>
#include <vector>

#include "kv/kv_cache.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace quire {

// Of passes over what has a past of its own: rows of one, but at least one for every sequence that may run; and rows
// that guesses leave of a sequence: who has so few goes before prompts.
inline constexpr int kDraftRows = 512, kFewRows = 16;

// Code::unsupported where such a pass could not go back to before a guess: a layer keeps a state.
Status check_can_draft(const ModelInfo& model);

// Rows of one sequence.
struct DraftRows {
  const SeqKv* kv = nullptr;  // has blocks for all of them
  int begin = 0;              // position of the first
  std::span<const Token> tokens;
  bool wants_next = false;  // what follows the last of them
};

class DraftPass {
 public:
  struct Size {
    int n_rows = 0, n_seqs = 0, n_ctx = 0, block_tokens = 0;  // at most
    int n_layers = 0;                                         // 0: all
  };
  // Bytes of such a pass's memory.
  static int64_t bytes(const Model& model, const Size& most);
  // `model` and `ops` outlive it; `memory` as bytes() says.
  DraftPass(const Model& model, Ops& ops, const Size& most, Buffer memory)
      : model_(model), ops_(ops), size_(most), arena_(std::move(memory)) {}

  // One result for each of `rows` that wants one, in order; `params` likewise. Valid until the next run. REQUIRES rows
  // that keep to the size. Throws what the pass throws (no memory, say).
  std::span<const Sampled> run(std::span<const DraftRows> rows, std::span<const SampleParams> params, const KvView& kv);

 private:
  Batch batch_of(std::span<const DraftRows> rows, int64_t n_out);

  const Model& model_;
  Ops& ops_;
  const Size size_;
  Arena arena_;
  std::vector<Sampled> sampled_;
};

}  // namespace quire
