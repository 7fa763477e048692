// A model that knows only some of its own tokens as answers: its product over the vocabulary, which is much of a small
// model's work, is made over the rows of these alone. What it reads stays whole. For a model that drafts (Zhao et al.
// 2025, "FR-Spec: Accelerating Large-Vocabulary Language Models via Frequency-Ranked Speculative Sampling"). Constant
// once it is loaded.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "model/model.h"

namespace quire {

class ShortHead final : public Model {
 public:
  // `out` [tokens, n_embd]; output i is tokens[i], ascending.
  ShortHead(std::unique_ptr<Model> model, Linear out, int64_t out_bytes, std::vector<Token> tokens);

  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override { return model_->arena_bytes(n_tokens, n_out); }
  Tensor embed(const Pass& pass) const override { return model_->embed(pass); }
  Tensor layers(Tensor x, LayerRange range, const Pass& pass) const override { return model_->layers(x, range, pass); }
  // → [n_out, tokens] and not [n_out, n_vocab] as other models': output i is of tokens()[i]. Before the scales and
  // bounds that the model puts on its logits, which change nothing about which is largest. Whoever samples has to know
  // of it (as_short_head).
  Tensor head(Tensor x, const Pass& pass) const override;
  Tensor hidden(Tensor x, const Pass& pass) const override { return model_->hidden(x, pass); }
  std::span<const Token> tokens() const { return tokens_; }

 private:
  const std::unique_ptr<Model> model_;
  const std::vector<Linear> out_;
  const std::vector<Token> tokens_;
};

// The same model as such a one; null where it is none.
const ShortHead* as_short_head(const Model* model);

struct ShortHeadLoad {
  const WeightFormat* as = nullptr;  // rows are converted to it where that is smaller; null: as stored
  int n_threads = 1;                 // that convert
  // No row is read: `ops` gets a weight without bytes where rows would be converted, and counts.
  bool counts = false;
};
// `model`, which comes of `file`, with a product over the rows of `tokens`. `ops` computes it and keeps these rows;
// while they are converted they are in memory twice. Code::unsupported where a model has not one matrix over its
// vocabulary; Code::invalid as convert_weight. REQUIRES ids of the model, at least one, ascending. One thread, which
// may fork and join.
Result<std::unique_ptr<Model>> with_short_head(
    std::unique_ptr<Model> model, const ModelFile& file, std::vector<Token> tokens, Ops& ops, const ShortHeadLoad& how);

}  // namespace quire
