// Llama 2/3 and what shares its shape: RMS norm, rotary positions on interleaved pairs (GGUF stores q and k permuted
// for them), grouped-query attention, SiLU-gated feed forward, no biases, output possibly tied to the embedding.
#include <algorithm>
#include <bit>
#include <cmath>

#include "model/config.h"
#include "model/model.h"

namespace quire {
namespace {

struct Layer {
  Tensor attn_norm, ffn_norm;    // [n_embd]
  std::vector<Linear> qkv;       // n_embd → n_heads·head_dim | n_kv_heads·head_dim | n_kv_heads·head_dim
  std::vector<Linear> attn_out;  // n_heads·head_dim → n_embd
  std::vector<Linear> gate_up;   // n_embd → n_ff | n_ff
  std::vector<Linear> down;      // n_ff → n_embd
  AttnParams attn;
};

class Llama final : public Model {
 public:
  static Result<std::unique_ptr<Model>> load(const ModelFile& file, Ops& ops, const LoadOptions& options);

  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;
  Tensor embed(const Pass& pass) const override;
  Tensor layers(Tensor x, LayerRange range, const Pass& pass) const override;
  Tensor head(Tensor x, const Pass& pass) const override;

 private:
  Status load_layer(const ModelFile& file, Ops& ops, int l);
  Status load_ends(const ModelFile& file, Ops& ops);
  Tensor attention(const Layer& layer, Tensor normed, Tensor turn, const Pass& pass) const;
  Tensor feed_forward(const Layer& layer, Tensor normed, const Pass& pass) const;

  DecoderConfig config_;
  std::vector<Layer> layers_;
  Linear embedding_;            // [n_vocab, n_embd]
  std::vector<Linear> output_;  // n_embd → n_vocab; the embedding itself where they are tied
  Tensor output_norm_;          // [n_embd]
  std::vector<int64_t> freq_;   // bits of the rotation per position, one f64 a pair
};

// Loads weights one by one, remembering the first failure, so that a layer reads as a list.
class Loader {
 public:
  Loader(const ModelFile& file, Ops& ops) : file_(file), ops_(ops) {}

  void vector(Tensor& out, const std::string& name, int64_t n) {
    const HostWeight* weight = get(name, {n});
    if (weight != nullptr) take(out, ops_.load_vector(*weight));
  }
  void linear(std::vector<Linear>& out, const std::string& name, int64_t n_out, int64_t n_in) {
    const HostWeight* weight = get(name, {n_out, n_in});
    if (weight != nullptr) take(out.emplace_back(), ops_.load_linear(*weight, nullptr, Shard{}));
  }
  Status status() const { return status_; }

 private:
  const HostWeight* get(const std::string& name, const std::vector<int64_t>& shape) {
    if (!status_) return nullptr;
    const Result<const HostWeight*> found = file_.get(name, shape);
    if (!found) status_ = tl::make_unexpected(found.error());
    return found ? *found : nullptr;
  }
  template <class T>
  void take(T& out, Result<T> loaded) {
    if (loaded) {
      out = std::move(*loaded);
    } else {
      status_ = tl::make_unexpected(std::move(loaded).error());
    }
  }

  const ModelFile& file_;
  Ops& ops_;
  Status status_;
};

Status Llama::load_layer(const ModelFile& file, Ops& ops, int l) {
  const DecoderConfig& c = config_;
  const int64_t q_dim = int64_t{c.n_heads} * c.head_dim;
  const int64_t kv_dim = int64_t{c.n_kv_heads} * c.head_dim;
  const std::string prefix = "blk." + std::to_string(l) + ".";
  Layer& layer = layers_.emplace_back();
  Loader load(file, ops);
  load.vector(layer.attn_norm, prefix + "attn_norm.weight", c.n_embd);
  load.linear(layer.qkv, prefix + "attn_q.weight", q_dim, c.n_embd);
  load.linear(layer.qkv, prefix + "attn_k.weight", kv_dim, c.n_embd);
  load.linear(layer.qkv, prefix + "attn_v.weight", kv_dim, c.n_embd);
  load.linear(layer.attn_out, prefix + "attn_output.weight", c.n_embd, q_dim);
  load.vector(layer.ffn_norm, prefix + "ffn_norm.weight", c.n_embd);
  load.linear(layer.gate_up, prefix + "ffn_gate.weight", c.n_ff, c.n_embd);
  load.linear(layer.gate_up, prefix + "ffn_up.weight", c.n_ff, c.n_embd);
  load.linear(layer.down, prefix + "ffn_down.weight", c.n_embd, c.n_ff);
  return load.status();
}

Status Llama::load_ends(const ModelFile& file, Ops& ops) {
  const DecoderConfig& c = config_;
  Loader load(file, ops);
  std::vector<Linear> embedding;
  load.linear(embedding, "token_embd.weight", c.n_vocab, c.n_embd);
  load.vector(output_norm_, "output_norm.weight", c.n_embd);
  if (file.find("output.weight") != nullptr) load.linear(output_, "output.weight", c.n_vocab, c.n_embd);
  QR_TRY_VOID(load.status());
  embedding_ = embedding[0];
  if (output_.empty()) output_.push_back(embedding_);
  return {};
}

Result<std::unique_ptr<Model>> Llama::load(const ModelFile& file, Ops& ops, const LoadOptions& options) {
  auto model = std::make_unique<Llama>();
  QR_TRY(model->config_, read_decoder_config(file));
  const DecoderConfig& c = model->config_;
  QR_TRY(const std::string scaling, file.meta.get_string_or("llama.rope.scaling.type", "none"));
  if (scaling != "none" || file.find("rope_freqs.weight") != nullptr) {
    return fail(Code::unsupported, file.path + ": rope scaling is not supported yet");
  }
  model->info_ = make_model_info(file, c);
  for (int i = 0; i < c.n_rope / 2; ++i) {
    model->freq_.push_back(std::bit_cast<int64_t>(std::pow(c.rope_theta, -2.0 * i / c.n_rope)));
  }
  const int64_t row_bytes = options.k_codec->row_bytes(c.head_dim) + options.v_codec->row_bytes(c.head_dim);
  for (int l = 0; l < c.n_layers; ++l) {
    QR_TRY_VOID(model->load_layer(file, ops, l));
    const KvClaim claim = model->info_.kv_layout.claim(KvGroup{}, c.n_kv_heads * row_bytes);
    model->layers_.back().attn = AttnParams{.group = claim.group,
                                            .kv_offset = claim.offset,
                                            .k_codec = options.k_codec,
                                            .v_codec = options.v_codec,
                                            .n_heads = c.n_heads,
                                            .n_kv_heads = c.n_kv_heads,
                                            .k_dim = c.head_dim,
                                            .v_dim = c.head_dim,
                                            .scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim))};
  }
  QR_TRY_VOID(model->load_ends(file, ops));
  return model;
}

int64_t Llama::arena_bytes(int64_t n, int64_t n_out) const {
  const DecoderConfig& c = config_;
  const int64_t attn = (2 * int64_t{c.n_heads} + 2 * int64_t{c.n_kv_heads}) * c.head_dim;  // q, k, v and the result
  const int64_t widest = std::max(attn, 3 * int64_t{c.n_ff});
  const int64_t per_token = 4 * int64_t{c.n_embd} + c.n_rope + widest;  // x, normed, two deltas, turn, the block's own
  const int64_t per_out = 2 * int64_t{c.n_embd} + c.n_vocab;
  return (n * per_token + n_out * per_out) * 4 + 16 * Arena::kAlign;
}

Tensor Llama::embed(const Pass& pass) const {
  const int64_t n = pass.batch->ids.dim(0);
  Tensor x = pass.arena->alloc(DType::f32, {n, config_.n_embd});  // [n, n_embd]
  pass.ops->embed(x, pass.batch->ids, embedding_);
  return x;
}

Tensor Llama::attention(const Layer& layer, Tensor normed, Tensor turn, const Pass& pass) const {
  const int64_t n = normed.dim(0);
  const int64_t q_dim = int64_t{config_.n_heads} * config_.head_dim;
  const int64_t kv_dim = int64_t{config_.n_kv_heads} * config_.head_dim;
  Ops& ops = *pass.ops;
  Tensor delta = pass.arena->alloc(DType::f32, {n, config_.n_embd});  // [n, n_embd]
  const int64_t mark = pass.arena->mark();
  Tensor qkv = pass.arena->alloc(DType::f32, {n, q_dim + 2 * kv_dim});  // [n, q | k | v]
  Tensor mixed = pass.arena->alloc(DType::f32, {n, q_dim});             // [n, n_heads·head_dim]
  ops.linear(qkv, normed, layer.qkv);
  Tensor v = qkv.columns(q_dim + kv_dim, kv_dim);                                            // [n, n_kv_heads·head_dim]
  ops.rope(qkv.columns(0, q_dim + kv_dim), turn, config_.head_dim, RopePairs::interleaved);  // q and k at once
  ops.kv_write(qkv.columns(q_dim, kv_dim), v, pass.batch->slots, pass.kv, layer.attn);
  ops.attend(mixed, qkv.columns(0, q_dim), pass.kv, pass.batch->attn, layer.attn);
  ops.linear(delta, mixed, layer.attn_out);
  pass.arena->release(mark);
  return delta;
}

Tensor Llama::feed_forward(const Layer& layer, Tensor normed, const Pass& pass) const {
  const int64_t n = normed.dim(0);
  Tensor delta = pass.arena->alloc(DType::f32, {n, config_.n_embd});  // [n, n_embd]
  const int64_t mark = pass.arena->mark();
  Tensor gate_up = pass.arena->alloc(DType::f32, {n, 2 * int64_t{config_.n_ff}});  // [n, gate | up]
  Tensor hidden = pass.arena->alloc(DType::f32, {n, config_.n_ff});                // [n, n_ff]
  pass.ops->linear(gate_up, normed, layer.gate_up);
  pass.ops->gated(hidden, gate_up.columns(0, config_.n_ff), gate_up.columns(config_.n_ff, config_.n_ff),
                  Activation::silu);
  pass.ops->linear(delta, hidden, layer.down);
  pass.arena->release(mark);
  return delta;
}

Tensor Llama::layers(Tensor x, LayerRange range, const Pass& pass) const {
  const int64_t n = x.dim(0);
  Ops& ops = *pass.ops;
  const auto n_freq = static_cast<int64_t>(freq_.size());
  Tensor turn = pass.arena->alloc(DType::f32, {n, n_freq, 2});         // cos, sin
  Tensor normed = pass.arena->alloc(DType::f32, {n, config_.n_embd});  // [n, n_embd]
  const int64_t mark = pass.arena->mark();
  ops.rope_table(turn, pass.batch->pos, Tensor::dense(const_cast<int64_t*>(freq_.data()), DType::i64, {n_freq}));
  for (int l = range.begin; l < range.end; ++l) {
    const Layer& layer = layers_[static_cast<size_t>(l)];
    ops.rms_norm(normed, x, layer.attn_norm, config_.norm_eps);
    ops.add_rms_norm(normed, x, attention(layer, normed, turn, pass), layer.ffn_norm, config_.norm_eps);
    ops.add(x, feed_forward(layer, normed, pass));
    pass.arena->release(mark);
  }
  return x;
}

Tensor Llama::head(Tensor x, const Pass& pass) const {
  const int64_t n_out = pass.batch->out_rows.dim(0);
  Tensor last = pass.arena->alloc(DType::f32, {n_out, config_.n_embd});     // [n_out, n_embd]
  Tensor normed = pass.arena->alloc(DType::f32, {n_out, config_.n_embd});   // [n_out, n_embd]
  Tensor logits = pass.arena->alloc(DType::f32, {n_out, config_.n_vocab});  // [n_out, n_vocab]
  pass.ops->rows(last, x, pass.batch->out_rows);
  pass.ops->rms_norm(normed, last, output_norm_, config_.norm_eps);
  pass.ops->linear(logits, normed, output_);
  return logits;
}

QR_REGISTER(ArchEntry, "llama", ArchEntry{&Llama::load});

}  // namespace
}  // namespace quire
