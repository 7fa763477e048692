// A pass over an EAGLE head (model/eagle.h). Engine thread.
#pragma once
#include <vector>

#include "model/eagle.h"
#include "spec/head_pass.h"

namespace quire {

class EaglePass final : public HeadPass {
 public:
  static int64_t bytes(const EagleHead& head, const HeadPassSize& most);
  // All of them outlive it; `memory` as bytes() says. The embedding is the target's where the head has none.
  EaglePass(const EagleHead& head, const Model& target, Ops& ops, const HeadPassSize& most, Buffer memory);

  // Of one tap behind the other in each row.
  std::span<const StreamTap> tapped() const override { return taps_; }
  std::span<const Token> run(std::span<const HeadRows> rows,
                             std::span<const SampleParams> params,
                             bool first,
                             const KvView& kv) override;
  void likeliest(size_t i, std::vector<Token>& out) const override;

 private:
  Tensor states_of(std::span<const HeadRows> rows, bool first, int64_t n);
  Tensor embed(const Batch& batch, const KvView& kv);
  Tensor beside(Tensor states, Tensor tokens);
  void attention(Tensor out, Tensor x, const Batch& batch, const KvView& kv);
  void guess(Tensor x, const Batch& batch, std::span<const SampleParams> params);

  const EagleHead& head_;
  const Model& target_;
  Ops& ops_;
  const HeadPassSize size_;
  Arena arena_;
  Tensor tapped_;  // f32 [n_tapped, taps · n_embd]
  Tensor left_;    // f32 [n_seqs, n_embd]: of the run before
  Arena::Mark kept_;
  std::vector<StreamTap> taps_;
  std::vector<Sampled> sampled_;
  std::vector<Token> tokens_;
};

}  // namespace quire
