// The compute seam: about twenty fused operations over tensors, implemented by each backend. Shapes are checked once in
// op_check; past it an op is total and cannot fail. All activations are f32. `n` rows of tokens come first in every
// tensor. Every op obeys docs/numerics.md: a row's result depends on that row's inputs only.
// Thread: the engine thread; a backend may fork to its workers inside an op and joins before it returns. A backend may
// leave ops to a device and return at once: who reads or writes their tensors on the host calls finish() before.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ops/numerics.h"
#include "ops/operands.h"
#include "ops/sample.h"
#include "quant/weight_format.h"
#include "tensor/buffer.h"
#include "tensor/kv_view.h"
#include "tensor/tensor.h"

namespace quire {

class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string describe() const = 0;                       // one line for people: "cpu avx512, 2 threads"
  virtual uint64_t numerics() const { return kNumericsVersion; }  // backends that say the same have the same bits

  // Memory that this backend computes on and that the host reaches.
  virtual Result<Buffer> allocate(int64_t bytes) = 0;
  // The same for blocks of the cache: a backend whose device has memory of its own gives some of that, with a copier.
  virtual Result<Buffer> allocate_blocks(int64_t bytes) { return allocate(bytes); }
  // Bytes that are left of what allocate_blocks gives; −1: it is the host's memory.
  virtual int64_t free_bytes() { return -1; }
  // The same for an arena: a backend whose device has memory of its own gives tables beside it.
  virtual Result<Buffer> allocate_arena(int64_t bytes) { return allocate(bytes); }
  // What was asked for before has happened: until the next op the host may read and write what ops read and write.
  // An op may be asked for and not done before, its operands read that late; only sample() finishes by itself.
  virtual void finish() {}
  virtual class AheadOps* ahead() { return nullptr; }  // ops/ahead_ops.h; null: ops are over when they return
  // finish(), and the first failure since it was asked the last time of a call to a device that goes on: nothing that
  // was asked for behind that call was done, and what ops wrote counts for nothing.
  virtual Status take_error() { return {}; }
  // Repack or upload. The backend owns the result and keeps it until it is destroyed. `bias` may be null.
  virtual Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) = 0;
  virtual Result<Tensor> load_vector(const HostWeight& weight) = 0;  // f32 [n]
  // An adapter's matrices in this backend's own layout: to[i] is of from[i], and all lie in the memory that is
  // returned. Any thread. Code::unsupported where the backend adds nothing to products, as it does by itself.
  virtual Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to);

  // y [n, n_in] = row ids[i] of the table, whose columns are in order.  ids i32 [n], in range (checked at submit).
  virtual void embed(Tensor y, Tensor ids, const Linear& table) = 0;
  // y [n, d] = x / rms(x) · w.
  virtual void rms_norm(Tensor y, Tensor x, Tensor w, float eps) = 0;
  // x += delta; y = x / rms(x) · w.
  virtual void add_rms_norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) = 0;
  // y [n, d] = (x − mean(x)) / √(variance(x) + eps) · w + b.  b may be empty.
  virtual void layer_norm(Tensor y, Tensor x, Tensor w, Tensor b, float eps) = 0;
  virtual void add(Tensor x, Tensor delta) = 0;  // x += delta
  // Every head on its own, in place: x = x / rms(x) · w.  x [n, n_heads·d], w [d].
  virtual void head_norm(Tensor x, Tensor w, float eps) = 0;
  virtual void scale(Tensor x, float factor) = 0;  // x *= factor
  // Every row by its own factor: x[i] *= 1 / (1 + exp(−gate[i])).  x [n, d], gate [n, 1].
  virtual void gate_rows(Tensor x, Tensor gate) = 0;
  virtual void soft_cap(Tensor x, float cap) = 0;  // x = cap · tanh(x / cap).  cap > 0
  // y [n, Σ n_out]: the parts' outputs side by side; x [n, n_in] shared. Parts may differ in format.
  virtual void linear(Tensor y, Tensor x, std::span<const Linear> parts) = 0;
  // y [n, Σ n_out] += B·(A·x) of the rows that have an adapter: right behind the product that it is added to.
  virtual void add_low_rank(Tensor y, Tensor x, const AddedProducts& added);
  // y [n, d] = act(gate) · up;  gate and up [n, d]. up may be empty: act(gate) alone.
  virtual void gated(Tensor y, Tensor gate, Tensor up, Activation act) = 0;
  // y [n, n_embd] = Σ share_e · down_e(act(gate_e(x)) · up_e(x)) over each row's experts by falling share.
  virtual void moe(Tensor y, const MoeInput& in, const Experts& experts) = 0;
  // out f32 [n, n_freq, 2] = magnitude · (cos, sin) of pos · freq.  pos i32 [n], freq f64 bits in i64 [n_freq].
  virtual void rope_table(Tensor out, Tensor pos, Tensor freq, double magnitude) = 0;
  // Rotates the first 2·n_freq components of every head in place.  x [n, n_heads·head_dim].
  virtual void rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) = 0;
  // Row i's k [n, n_kv_heads·k_dim] and v to slots[i] (block · block_tokens + token; i32 [n]). Empty v: it is in k.
  virtual void kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) = 0;
  // Packs the strip (quant/kv_codec.h) of each slots[i] that is the last of its strip, from the one of tails[i], a slot
  // of params.tail_group; all its tokens are there. i32 [n] each. By itself on the host, of blocks that it can read.
  virtual void pack_strips(Tensor slots, Tensor tails, const KvView& kv, const AttnParams& params);
  // out [n, n_heads·v_dim]. A row sees its keys only after kv_write of this step put them there.
  virtual void attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) = 0;
  // y [n, d] = b + Σ_j w[j] · x[row − n_taps + 1 + j] of a sequence's rows, before them its state's. y may be x.
  virtual void short_conv(Tensor y, Tensor x, const ShortConv& conv, const StateRows& rows) = 0;
  // Of each head, row after row, with step = log(1 + exp(dt + dt_bias)):
  //   state [state_dim, head_dim] = exp(step · a) · state + b ⊗ (step · x);  y [head_dim] = c · state + d · x
  // A step, a and d are one number of a head, or each component's own (ScanParams::by_component).
  virtual void scan(Tensor y, const ScanInput& in, const ScanParams& params, const StateRows& rows) = 0;
  // Of each head, row after row, with q and k divided by their lengths and q by √k_dim too, step = log(1 + exp(dt +
  // dt_bias)) and share = beta_scale / (1 + exp(−beta)):
  //   state [k_dim, v_dim] = exp(step · a) · state;  state += k ⊗ (share · (v − k · state));  y [v_dim] = q · state
  virtual void delta_rule(Tensor y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows) = 0;
  // Of each head, row after row, with fade = exp(−exp(decay)) and key = k:
  //   y [dim] = r · state;  state [dim, dim] = fade · state + key ⊗ v
  // or with `rate` (RWKV 7) fade = exp(−e^−½ / (1 + exp(−decay))), share = 1 / (1 + exp(−rate)), gone = k ∘
  // removal_scale divided by its length, key = k ∘ (1 + (share − 1) ∘ rate_share):
  //   state = fade · state − (gone ∘ share) ⊗ (gone · state) + key ⊗ v;  y = r · state
  // own [n, n_heads · dim] = (r · (bonus ∘ key)) · v, of each head. Peng et al., "Eagle and Finch" and "RWKV-7".
  virtual void wkv(Tensor y, Tensor own, const WkvInput& in, const WkvParams& params, const StateRows& rows) = 0;
  // The two parts of a decoder's layer, from the residual stream to what is to be added to it, out [n, d], which may be
  // in.delta itself. They are what the ops above give one after the other (ops/parts.h), bit for bit, and that is what
  // a backend does which knows no better way.
  virtual void attention(Tensor out, const NormedRows& in, const AttentionPart& part);
  virtual void feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part);
  // y [m, d] = x[ids].  ids i32 [m].
  virtual void rows(Tensor y, Tensor x, Tensor ids) = 0;
  // One token per row of logits f32 [n, n_vocab]; params and out have n entries.
  virtual void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) = 0;
  // task(i) once for each i in [0, n), on the host's threads as far as the backend has some: several at a time, in any
  // order; over when it returns. A task calls no op and throws nothing.
  virtual void each(int64_t n, const std::function<void(int64_t)>& task) {
    for (int64_t i = 0; i < n; ++i) task(i);
  }
};

}  // namespace quire
