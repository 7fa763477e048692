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
  // `out` [tokens, n_embd]; output i is tokens[i].
  ShortHead(std::unique_ptr<Model> model, Linear out, int64_t out_bytes, std::vector<Token> tokens);

  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override { return model_->arena_bytes(n_tokens, n_out); }
  Tensor embed(const Pass& pass) const override { return model_->embed(pass); }
  Tensor layers(Tensor x, LayerRange range, const Pass& pass) const override { return model_->layers(x, range, pass); }
  // → [n_out, tokens], in the order of the model's own logits, which it may scale and bound.
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

// `model`, which comes of `file`, with a product over the rows of `tokens`, converted to `as` where that is smaller;
// null: as stored. `ops` computes it and keeps these rows. Code::unsupported where a model has not one matrix over its
// vocabulary. REQUIRES ids of the model, at least one.
Result<std::unique_ptr<Model>> with_short_head(
    std::unique_ptr<Model> model, const ModelFile& file, std::vector<Token> tokens, Ops& ops, const WeightFormat* as);

}  // namespace quire
