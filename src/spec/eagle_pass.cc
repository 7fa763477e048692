#include "spec/eagle_pass.h"

#include <numeric>

#include "ops/parts.h"

namespace quire {

int64_t EaglePass::bytes(const EagleHead& head, const HeadPassSize& most) {
  const int64_t n = most.n_rows, m = most.n_seqs, d = head.n_embd, n_taps = std::ssize(head.taps);
  const AttnParams& a = head.attn;
  const int64_t n_qkv = int64_t{a.n_heads} * a.k_dim + 2 * int64_t{a.n_kv_heads} * a.k_dim;
  const int64_t lasting =
      Arena::row_bytes(most.n_tapped, n_taps * d) + Arena::row_bytes(most.n_tapped, 1) + Arena::row_bytes(m, d);
  const int64_t batch = head_batch_bytes(most, head.kv_layout);
  // States, the taps that they are of, the embedding; both beside each other and, of a head that joins, joined;
  // attention's and its result; the rest.
  const int64_t joined = head.joins ? Arena::row_bytes(n, 1) + Arena::row_bytes(n, d) : 0;
  const int64_t rows = Arena::row_bytes(n, 1) + Arena::row_bytes(n, n_taps * d) + 2 * Arena::row_bytes(n, d) + joined +
                       Arena::row_bytes(n, 2 * d) + Arena::row_bytes(n, n_qkv + int64_t{a.n_heads} * a.v_dim) +
                       Arena::row_bytes(n, a.k_dim) + 2 * Arena::row_bytes(n, d) +
                       Arena::row_bytes(n, 2 * int64_t{head.n_ff});
  return lasting + batch + Arena::row_bytes(m, 1) + rows + Arena::row_bytes(m, d) + Arena::row_bytes(m, head.n_draft());
}

EaglePass::EaglePass(const EagleHead& head, const Model& target, Ops& ops, const HeadPassSize& most, Buffer memory)
    : head_(head), target_(target), ops_(ops), size_(most), arena_(std::move(memory)) {
  const int64_t n = most.n_tapped, d = head.n_embd;
  tapped_ = arena_.alloc_rows(n, std::ssize(head.taps) * d);
  const Tensor rows = arena_.alloc(DType::i32, {n});
  std::iota(rows.ptr<int32_t>(), rows.ptr<int32_t>() + n, 0);
  left_ = arena_.alloc_rows(most.n_seqs, d);
  kept_ = arena_.mark();
  for (size_t k = 0; k < head.taps.size(); ++k) {
    taps_.push_back({head.taps[k], rows, tapped_.columns(static_cast<int64_t>(k) * d, d)});
  }
}

std::span<const Token> EaglePass::run(std::span<const HeadRows> rows,
                                      std::span<const SampleParams> params,
                                      bool first,
                                      const KvView& kv) {
  arena_.release(kept_);
  const Batch batch = head_batch(rows, head_.kv_layout, size_.block_tokens, arena_);
  const int64_t n = batch.ids.dim(0), d = head_.n_embd;
  const Tensor states = states_of(rows, first, n);       // [n, n_embd]
  const Tensor both = beside(states, embed(batch, kv));  // [n, token | state]
  const Tensor x = head_.joins ? arena_.alloc_rows(n, d) : states;
  if (head_.joins) ops_.linear(x, both, head_.fc);
  NormedRows in;
  in.x = x;
  in.delta = arena_.alloc_rows(n, d);  // [n, n_embd]
  attention(in.delta, head_.joins ? x : both, batch, kv);
  in.w = head_.ffn_norm;
  in.eps = head_.norm_eps;
  in.normed = arena_.alloc_rows(n, d);  // [n, n_embd]
  const FeedForwardPart part{.gate_up = head_.gate_up,
                             .activation = Activation::silu,
                             .down = head_.down,
                             .scratch = arena_.alloc_rows(n, 2 * int64_t{head_.n_ff})};  // [n, gate | up]
  ops_.feed_forward(in.delta, in, part);
  ops_.add(x, in.delta);
  guess(x, batch, params);
  return tokens_;
}

void EaglePass::likeliest(size_t i, std::vector<Token>& out) const {
  out.clear();
  for (const TopLogprob& each : sampled_[i].top) out.push_back(head_.tokens[static_cast<size_t>(each.id)]);
}

// What each row goes on from: the target's states through fc, or behind its last norm, or what the head itself left.
Tensor EaglePass::states_of(std::span<const HeadRows> rows, bool first, int64_t n) {
  const Tensor x = arena_.alloc_rows(n, head_.n_embd);  // [n, n_embd]
  const Tensor from = state_rows(rows, n, arena_);
  if (!first) {
    ops_.rows(x, left_, from);
    return x;
  }
  const Tensor states = arena_.alloc_rows(n, tapped_.dim(1));  // [n, taps · n_embd]
  ops_.rows(states, tapped_, from);
  if (head_.joins)
    ops_.rms_norm(x, states, head_.model_norm, head_.model_norm_eps);
  else
    ops_.linear(x, states, head_.fc);
  return x;
}

Tensor EaglePass::embed(const Batch& batch, const KvView& kv) {
  if (!head_.embedding) return target_.embed({&batch, kv, &arena_, &ops_});
  const Tensor out = arena_.alloc_rows(batch.ids.dim(0), head_.n_embd);  // [n, n_embd]
  ops_.embed(out, batch.ids, *head_.embedding);
  return out;
}

// Tokens and states side by side, behind norms where the head has some.
Tensor EaglePass::beside(Tensor states, Tensor tokens) {
  const int64_t n = states.dim(0), d = head_.n_embd;
  const Tensor both = arena_.alloc_rows(n, 2 * d);  // [n, token | state]
  if (head_.joins) {
    const Tensor all = arena_.alloc(DType::i32, {n});
    std::iota(all.ptr<int32_t>(), all.ptr<int32_t>() + n, 0);
    ops_.rows(both.columns(0, d), tokens, all);
    ops_.rows(both.columns(d, d), states, all);
    return both;
  }
  ops_.rms_norm(both.columns(0, d), tokens, head_.token_norm, head_.norm_eps);
  ops_.rms_norm(both.columns(d, d), states, head_.state_norm, head_.norm_eps);
  return both;
}

void EaglePass::attention(Tensor out, Tensor x, const Batch& batch, const KvView& kv) {
  const int64_t n = x.dim(0);
  const AttnParams& a = head_.attn;
  const Tensor turns = arena_.alloc(DType::f32, {n, std::ssize(head_.rope.freq), 2});  // cos, sin
  ops_.rope_table(turns, batch.pos, frequencies(head_.rope), head_.rope.magnitude);
  const int64_t n_q = int64_t{a.n_heads} * a.k_dim, n_kv = int64_t{a.n_kv_heads} * a.k_dim;
  const AttentionScratch at(arena_.alloc_rows(n, 2 * (n_q + n_kv)), a);  // [n, q | k | v | mixed]
  ops_.linear(at.qkv, x, head_.qkv);
  ops_.rope(at.qk, turns, a.k_dim, RopePairs::halves);
  ops_.kv_write(at.k, at.v, batch.slots[0], kv, a);
  ops_.attend(at.mixed, at.q, kv, batch.attn, a);
  ops_.linear(out, at.mixed, head_.attn_out);
}

// Of each sequence's last row a token, and the state that the next run goes on from.
void EaglePass::guess(Tensor x, const Batch& batch, std::span<const SampleParams> params) {
  const int64_t m = batch.out_rows.dim(0);
  const Tensor left = left_.rows(0, m);                                  // [m, n_embd]
  const Tensor logits = arena_.alloc(DType::f32, {m, head_.n_draft()});  // [m, n_draft]
  ops_.rows(left, x, batch.out_rows);
  if (head_.joins) {
    ops_.linear(logits, left, head_.out);
  } else {
    const Tensor normed = arena_.alloc_rows(m, head_.n_embd);  // [m, n_embd]
    ops_.rms_norm(normed, left, head_.out_norm, head_.norm_eps);
    ops_.linear(logits, normed, head_.out);
  }
  sampled_.resize(static_cast<size_t>(m));
  ops_.sample(sampled_, logits, params);
  tokens_.clear();
  for (const Sampled& each : sampled_) tokens_.push_back(each.ok ? head_.tokens[static_cast<size_t>(each.token)] : -1);
}

}  // namespace quire
