#include "spec/mtp_pass.h"

#include <numeric>

namespace quire {

int64_t MtpPass::bytes(const MtpHead& head, const HeadPassSize& most) {
  const int64_t d = head.info().n_embd;
  const int64_t lasting =
      Arena::row_bytes(most.n_tapped, d) + Arena::row_bytes(most.n_tapped, 1) + Arena::row_bytes(most.n_seqs, d);
  const int64_t rows = Arena::row_bytes(most.n_rows, 1) + 2 * Arena::row_bytes(most.n_rows, d);
  return lasting + head_batch_bytes(most, head.info().kv_layout) + rows + head.arena_bytes(most.n_rows, most.n_seqs);
}

MtpPass::MtpPass(const MtpHead& head, int n_layers, Ops& ops, const HeadPassSize& most, Buffer memory)
    : head_(head), ops_(ops), size_(most), arena_(std::move(memory)) {
  const int64_t n = most.n_tapped, d = head.info().n_embd;
  const Tensor tapped = arena_.alloc_rows(n, d);
  const Tensor rows = arena_.alloc(DType::i32, {n});
  std::iota(rows.ptr<int32_t>(), rows.ptr<int32_t>() + n, 0);
  tap_ = {n_layers, rows, tapped};
  left_ = arena_.alloc_rows(most.n_seqs, d);
  kept_ = arena_.mark();
}

std::span<const Token> MtpPass::run(std::span<const HeadRows> rows,
                                    std::span<const SampleParams> params,
                                    bool first,
                                    const KvView& kv) {
  arena_.release(kept_);
  const Batch batch = head_batch(rows, head_.info().kv_layout, size_.block_tokens, arena_);
  const int64_t n = batch.ids.dim(0), m = batch.out_rows.dim(0), d = head_.info().n_embd;
  Tensor states = arena_.alloc_rows(n, d);  // [n, n_embd]
  ops_.rows(states, first ? tap_.out : left_, state_rows(rows, n, arena_));
  if (first) {
    const Tensor normed = arena_.alloc_rows(n, d);  // [n, n_embd]
    head_.norm_states(normed, states, ops_);
    states = normed;
  }
  // What the last norm leaves is what the next run begins with.
  const Tap left{Tap::At::last_norm, left_.rows(0, m)};
  const Pass pass{.batch = &batch, .kv = kv, .arena = &arena_, .ops = &ops_, .taps = {&left, 1}};
  const Tensor x = head_.layers(head_.begin(states, pass), LayerRange{0, 1}, pass);
  sampled_.resize(static_cast<size_t>(m));
  ops_.sample(sampled_, head_.head(x, pass), params);
  tokens_.clear();
  for (const Sampled& each : sampled_) tokens_.push_back(each.ok ? each.token : -1);
  return tokens_;
}

void MtpPass::likeliest(size_t i, std::vector<Token>& out) const {
  out.clear();
  for (const TopLogprob& each : sampled_[i].top) out.push_back(each.id);
}

}  // namespace quire
