// A pass over the head that a model carries (model/mtp.h). Engine thread.
#pragma once
#include <vector>

#include "model/mtp.h"
#include "spec/head_pass.h"

namespace quire {

class MtpPass final : public HeadPass {
 public:
  static int64_t bytes(const MtpHead& head, const HeadPassSize& most);
  // `head` and `ops` outlive it; `memory` as bytes() says. `n_layers`: of the target.
  MtpPass(const MtpHead& head, int n_layers, Ops& ops, const HeadPassSize& most, Buffer memory);

  // Behind the target's last layer.
  std::span<const StreamTap> tapped() const override { return {&tap_, 1}; }
  std::span<const Token> run(std::span<const HeadRows> rows,
                             std::span<const SampleParams> params,
                             bool first,
                             const KvView& kv) override;
  void likeliest(size_t i, std::vector<Token>& out) const override;

 private:
  const MtpHead& head_;
  Ops& ops_;
  const HeadPassSize size_;
  Arena arena_;
  StreamTap tap_;  // its memory: f32 [n_tapped, n_embd]
  Tensor left_;    // f32 [n_seqs, n_embd]: of the run before, behind the head's last norm
  Arena::Mark kept_;
  std::vector<Sampled> sampled_;
  std::vector<Token> tokens_;
};

}  // namespace quire
