// What ops take beside plain tensors: loaded weights, a layer's experts, how a row attends. Values without behaviour.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "ops/activation.h"
#include "quant/kv_codec.h"
#include "quant/weight_format.h"
#include "tensor/buffer.h"
#include "tensor/kv_view.h"
#include "tensor/tensor.h"

namespace quire {

// y = x·Wᵀ + b. `w` is in the backend's own layout.
struct Linear {
  Tensor w;
  const WeightFormat* format = nullptr;
  Tensor bias;  // f32 [n_out] or empty
  int64_t n_out = 0, n_in = 0;
  Tensor order = {};  // i32 [n_in]: column j of w meets x[order[j]] (HostWeight::order); empty: they are in order
};

// Which part of a weight this rank holds: whole subtrees of the sum (cols) or ranges of outputs (rows).
struct Shard {
  enum class Axis : uint8_t { none, rows, cols } axis = Axis::none;
  int rank = 0, n_ranks = 1;
};

// What an adapter adds to the product of one weight: B·(A·x), of low rank, both multiplied as F32.
struct LowRank {
  Linear a;  // n_in → rank, in the backend's own layout; of none outputs: nothing is added
  Tensor b;  // [rank, n_out], transposed, in the backend's own layout too; the adapter's factor is in it
  int64_t n_out = 0;
  bool empty() const { return a.n_out == 0; }
};
// One of them as it was stored: a [rank, n_in], b [n_out, rank].
struct LowRankSource {
  std::span<const float> a = {}, b = {};
  int64_t rank = 0, n_in = 0, n_out = 0;  // rank 0: nothing is added
};

// By the products of a layer: an entry for each matrix of the product, or none where nothing is added to it.
struct AdapterLayer {
  std::vector<LowRank> qkv, attn_gate, attn_out, gate_up, down;
};

inline constexpr size_t kMostInvocation = 1024;  // tokens of an adapter's invocation

// Weights added to a model at run time (LoRA). Constant once it is loaded.
struct Adapter {
  uint64_t content = 0;  // of all numbers and of its invocation; equal in every process. Not 0
  // Of an activated LoRA: it adds to a prompt's tokens from the last place on where the prompt has these, and to none
  // of a prompt that has them nowhere; in the vocabulary, kMostInvocation at most. Empty: it adds to all. Source:
  // Greenewald et al., "Activated LoRA: Fine-tuned LLMs for Intrinsics".
  std::vector<Token> invocation;
  std::vector<AdapterLayer> layers;
  Buffer memory;  // that the matrices lie in
};

// Rows [begin, end) of a batch have this adapter, which outlives the step.
struct AdapterRows {
  const Adapter* adapter = nullptr;
  int64_t begin = 0, end = 0;
};

// What adapters add to one product of a layer. A row belongs to one of `rows` at most; these ascend.
struct AddedProducts {
  std::span<const AdapterRows> rows;
  int layer = 0;
  std::vector<LowRank> AdapterLayer::* product = nullptr;
  std::span<const LowRank> of(const AdapterRows& some) const {
    return some.adapter->layers[static_cast<size_t>(layer)].*product;
  }
};

// How a row's few experts follow from its scores (ops/route.h).
struct Routing {
  enum class Scoring : uint8_t { softmax, sigmoid };
  Scoring scoring = Scoring::softmax;  // what a share is made of
  int n_used = 0;                      // 1 … all
  bool normalised = true;              // shares are of the row's experts; else of all, or a sigmoid as it is
  float scale = 1.0F;                  // of the shares
  // Experts in n_expert_groups runs of the same length, of which the n_expert_groups_used best are chosen from: those
  // whose best expert is, or whose two best are together.
  int n_expert_groups = 1, n_expert_groups_used = 1;
  bool expert_groups_by_two = false;
};

// A layer's experts: units, gated or not, of which a router gives every row a few.
struct Experts {
  std::vector<std::array<Linear, 2>> gate_up;  // n_embd → n_ff | n_ff; without gates up and nothing
  std::vector<Linear> down;                    // n_ff → n_embd
  Routing routing;
  Tensor choice_bias = {};  // f32 [n_experts]: added for the choice, not to the shares; empty: none
  Activation activation = Activation::silu;
  bool has_gate = true;
  std::span<const Linear> into(size_t e) const { return {gate_up[e].data(), has_gate ? size_t{2} : size_t{1}}; }
};

struct MoeInput {
  Tensor x;        // [n, n_embd]
  Tensor router;   // [n, n_experts]: scores
  Tensor scratch;  // [n · n_used, n_embd + 3 · n_ff]: undefined before and after
};

enum class RopePairs : uint8_t { interleaved, halves };  // (0,1)(2,3)… or (0,d/2)(1,d/2+1)…

// Who attends to what. Sequences' rows lie one after another; row r of sequence s is one token.
struct AttnMeta {
  Tensor cu_q;  // i32 [n_seqs + 1]: first row of each sequence
  // i32 [n_seqs, max_blocks] of every KV group: each sequence's blocks in order; before a window any number may stand.
  std::array<Tensor, KvView::kMaxGroups> blocks;
  Tensor first_key;  // i32 [n]: a row sees keys first_key ≤ position < end_key of its sequence
  Tensor end_key;    // i32 [n]
  // f32 [n, n_freq, 2], cos and sin: what each row's queries are rotated by before they meet keys that are kept beside
  // a window (AttnParams::n_kept); empty: they are not rotated.
  Tensor kept_rotation = {};
};

struct AttnParams {
  int group = 0;          // KV group whose table and view are used
  int64_t kv_offset = 0;  // this layer's claim
  // Of codecs that pack whole strips: the group and the claim of rows whose strip is not packed yet (KvCodec::tail).
  int tail_group = 0;
  int64_t tail_offset = 0;
  const KvCodec* k_codec = nullptr;
  const KvCodec* v_codec = nullptr;
  int n_heads = 0, n_kv_heads = 0;
  int k_dim = 0, v_dim = 0;     // 1 … kMaxHeadDim; multiples of 16 waste nothing
  bool values_in_keys = false;  // a value is the last v_dim components of its key, and is stored no second time
  float scale = 1.0F;
  float soft_cap = 0.0F;  // > 0: a score s becomes soft_cap · tanh(s / soft_cap)
  int window = 0;         // > 0: of the keys that a row may see only the last `window`
  int n_kept = 0;         // and of its sequence's first keys as many; 0 … kMostKept (ops/seen_keys.h)
  RopePairs kept_pairs = RopePairs::halves;  // how AttnMeta::kept_rotation rotates queries
  Tensor sinks = {};  // f32 [n_heads]: of each head a score that counts in the sum and has no value; empty: none
  // ALiBi, > 0: a score has slope · (its key's position − the last that the row sees) added, slope of a head as
  // fill_slopes (ops/slopes.h) says; never beside keys that are kept. Source: Press, Smith and Lewis, "Train Short,
  // Test Long".
  float most_slope_bits = 0.0F;
};

// rms: x / rms(x) · w. layer: (x − mean(x)) / √(variance(x) + eps) · w, plus b where there is one.
enum class NormKind : uint8_t { rms, layer };

// The residual stream on its way into a part of a layer: x += delta, then normed = norm(x).
struct NormedRows {
  Tensor x;        // [n, d]
  Tensor delta;    // [n, d]: what the part before it found, undefined after; empty: nothing to add
  Tensor delta_w;  // [d]: delta / rms(delta) · delta_w is added instead; empty: delta as it is
  NormKind kind = NormKind::rms;
  Tensor w;  // [d]; empty: no norm, the part reads x
  Tensor b;  // [d], of a layer norm; empty: none
  float eps = 0.0F;
  Tensor normed;                                                  // [n, d]: the result
  const Tensor& input() const { return w.empty() ? x : normed; }  // of the part
};

// Attention between two residual additions.
struct AttentionPart {
  std::span<const Linear> qkv;  // d → q | k | v, in any number of matrices
  Tensor q_norm, k_norm;        // [k_dim]: norms of single heads; or of all heads of a row together; empty: none
  Tensor rotation;              // f32 [n, n_freq, 2], of rope_table; empty: nothing is rotated
  RopePairs pairs = RopePairs::halves;
  Tensor slots;  // i32 [n]
  const KvView* kv = nullptr;
  const AttnMeta* meta = nullptr;
  const AttnParams* params = nullptr;
  std::span<const Linear> out;  // n_heads·v_dim → d
  Tensor scratch;               // [n, q | k | v | mixed values]: undefined before and after
  std::span<const AdapterRows> adapters = {};
  int layer = 0;  // of theirs
  AddedProducts added_qkv() const { return {adapters, layer, &AdapterLayer::qkv}; }
  AddedProducts added_gate() const { return {adapters, layer, &AdapterLayer::attn_gate}; }
  AddedProducts added_out() const { return {adapters, layer, &AdapterLayer::attn_out}; }
};

// Where the states of sequences lie, one layer's: who reads which before its rows, and which rows leave theirs behind.
struct StateRows {
  Tensor cu_q;  // i32 [n_seqs + 1]: first row of each sequence
  Tensor from;  // i32 [n_seqs, 1]: the block that has the state before its first row; −1: zeros
  Tensor to;    // i32 [n]: the block that takes the state behind a row, one of its sequence alone; −1: none does
  KvGroupView view;
  int64_t offset = 0;  // of this layer's part of a block, bytes

  float* at(int32_t block) const { return reinterpret_cast<float*>(view.base + block * view.block_bytes + offset); }
};

// Every column on its own, over a row and those before it. State: f32 [n_taps − 1, d], those rows, the oldest first.
struct ShortConv {
  Tensor w;  // f32 [n_taps, d]; the last tap is for the row itself
  Tensor b;  // f32 [d]; empty: none
};

// What a selective scan reads of each row. Heads in runs of n_heads / n_head_groups have b and c in common.
struct ScanInput {
  Tensor x;     // [n, n_heads · head_dim]
  Tensor b, c;  // [n, n_head_groups · state_dim]
  Tensor dt;    // [n, n_heads], or of every component of a head [n, n_heads · head_dim]
};
// State: f32 [n_heads, state_dim, head_dim].
struct ScanParams {
  int n_heads = 0, head_dim = 0, n_head_groups = 0, state_dim = 0;
  Tensor dt_bias, a, d;  // f32 [n_heads]
  // Mamba-1: there is one head, and steps, dt_bias and d are of each of its components, a of each that a state keeps
  // for it, f32 [state_dim, head_dim].
  bool by_component = false;
  int64_t n_steps() const { return by_component ? int64_t{n_heads} * head_dim : n_heads; }
};

// What a delta rule reads of each row. Heads share the queries and keys of n_key_heads, as DeltaParams says.
struct DeltaInput {
  Tensor q, k;  // [n, n_key_heads · k_dim]
  Tensor v;     // [n, n_heads · v_dim]
  Tensor dt;    // [n, n_heads], or of every component of a key [n, n_heads · k_dim]: by what a state fades
  Tensor beta;  // [n, n_heads]: how much of what is new a state takes
};
// State: f32 [n_heads, k_dim, v_dim].
struct DeltaParams {
  int n_heads = 0, n_key_heads = 0, k_dim = 0, v_dim = 0;
  bool shares_in_turn = false;      // head h has key head h mod n_key_heads, not that of its run of heads
  bool fades_by_component = false;  // dt and dt_bias are of every component of a key
  float beta_scale = 1.0F;
  Tensor dt_bias;  // f32 [n_heads] or [n_heads · k_dim]
  Tensor a;        // f32 [n_heads]
  int64_t n_fades() const { return fades_by_component ? int64_t{n_heads} * k_dim : n_heads; }
};

// What RWKV's recurrence reads of each row, [n, n_heads · dim] each.
struct WkvInput {
  Tensor r, k, v;  // what is asked for, keys, values
  Tensor decay;    // by what a state fades, before its exponential
  Tensor rate;     // of RWKV 7: how much of what a state says of a key goes, before its sigmoid; empty: RWKV 6
};
// State: f32 [n_heads, dim, dim], of each component of a key those of values.
struct WkvParams {
  int n_heads = 0, dim = 0;
  Tensor bonus;                      // f32 [n_heads · dim]: what a row says of its own value
  Tensor removal_scale, rate_share;  // f32 [n_heads · dim], of RWKV 7; empty: RWKV 6
  bool has_rate() const { return !removal_scale.empty(); }
};

// A unit between two residual additions, gated or not.
struct FeedForwardPart {
  std::span<const Linear> gate_up;  // two, or up alone where the unit has no gate; each d → n_ff
  Activation activation = Activation::silu;
  std::span<const Linear> down;  // n_ff → d
  Tensor scratch;                // [n, gate | up] or [n, up]: undefined before and after
  std::span<const AdapterRows> adapters = {};
  int layer = 0;  // of theirs
  AddedProducts added_gate_up() const { return {adapters, layer, &AdapterLayer::gate_up}; }
  AddedProducts added_down() const { return {adapters, layer, &AdapterLayer::down}; }
};

}  // namespace quire
