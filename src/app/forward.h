// One sequence straight through a model, without an engine: logits of every position (`quire logits`), golden tests.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/budget.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace quire {

class Forward {
 public:
  // Room for n_ctx tokens. `model` and `ops` outlive it.
  static Result<Forward> make(const Model& model, Ops& ops, int n_ctx, int max_chunk, int block_tokens = 16);

  // Appends `tokens` (at most max_chunk, ids in range, within n_ctx) and returns the logits of each, [n, n_vocab],
  // valid until the next call. An error is the device's.
  Result<Tensor> run(std::span<const Token> tokens);
  int n_past() const { return n_past_; }
  // What comes next from the beginning is a prompt with this budget: behind it the cache has what that keeps. REQUIRES
  // a model and a backend that can (why_no_budget), the block_tokens of make(), no run() from within the prompt to
  // behind it.
  void bound(PromptBudget budget) {
    budget_ = std::move(budget);
    rewind(0);
  }
  // REQUIRES 0 of a model whose layers keep a state.
  void rewind(int n_past) {
    QR_CHECK(n_past == 0 || model_->info().n_state_layers == 0);
    n_past_ = n_past;
    if (n_past > 0) return;
    n_dropped_ = 0;
    budget_.forget();
    for (size_t b = 0; b < table_.size(); ++b) table_[b] = static_cast<int32_t>(table_.size() - 1 - b);
  }

 private:
  Forward(const Model& model, Ops& ops, Buffer scratch, int block_tokens)
      : model_(&model), ops_(&ops), arena_(std::move(scratch)), block_tokens_(block_tokens) {}
  void put_state(size_t group, Batch& batch) const;
  void drop();

  const Model* model_;
  Ops* ops_;
  std::vector<Buffer> blocks_;  // by KV group
  KvView kv_;
  Arena arena_;
  int block_tokens_;
  // Of every group: blocks in falling order, so that a mistake with the table shows. Windows keep every block too.
  std::vector<int32_t> table_;
  PromptBudget budget_;
  int n_past_ = 0, n_dropped_ = 0;
};

}  // namespace quire
