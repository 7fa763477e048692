// What RWKV 6 and 7 share: layers of a time mix and a channel mix, which keep a state and have no heads of attention.
// Each mix reads its rows moved towards the rows before them: short convolutions of two taps, all of the same rows, so
// that their state is one row. Source: Peng et al., "Eagle and Finch" (arXiv:2404.05892) and "RWKV-7 Goose"
// (arXiv:2503.14456).
#pragma once
#include <string>
#include <vector>

#include "io/in_quotes.h"
#include "model/decoder.h"
#include "ops/parts.h"
#include "ops/state_sizes.h"

namespace quire {

// B·act(A·x), of low rank.
struct LowRankMix {
  std::vector<Linear> a, b;
  int64_t rank() const { return a.empty() ? 0 : a.front().n_out; }
};

// Who reads the states of these rows and leaves none.
inline StateRows read_only(const StateRows& rows, const Pass& pass) {
  StateRows out = rows;
  out.to = pass.arena->alloc(DType::i32, {rows.to.dim(0)});
  pass.ops->finish();
  for (int64_t i = 0; i < rows.to.dim(0); ++i) out.to.ptr<int32_t>()[i] = -1;
  return out;
}

class Rwkv : public Decoder {
 protected:
  static constexpr int64_t kMostHeads = 4096;

  // What both have in their mixes.
  struct Mixes {
    std::vector<Linear> r, k, v, out;  // n_embd → n_embd
    LowRankMix decay;
    WkvParams wkv;
    Tensor norm, norm_bias;        // [n_embd], of heads
    std::vector<Linear> up, down;  // n_embd → n_ff → n_embd, of the channel mix
  };

  bool has_units_without_heads() const override { return true; }

  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    if (c.n_heads != 0) {
      return fail(Code::unsupported, "key " + file.meta.shown(prefix + "attention.head_count") + ": must be 0, is " +
                                         std::to_string(c.n_heads));
    }
    const std::string key = prefix + "wkv.head_size";
    QR_TRY(const int64_t dim, file.meta.get_int(key, 1, kMostStateDim));
    if (c.n_embd % dim != 0) {
      return fail(Code::corrupt, "key " + file.meta.shown(key) + ": must divide " +
                                     file.meta.shown(prefix + "embedding_length") + ", which is " +
                                     std::to_string(c.n_embd) + ", is " + std::to_string(dim));
    }
    if (c.n_embd / dim > kMostHeads) {
      return fail(Code::unsupported, "key " + file.meta.shown(key) + ": leaves " + std::to_string(c.n_embd / dim) +
                                         " heads, at most " + std::to_string(kMostHeads) + " are supported");
    }
    c.norm = NormKind::layer;
    c.has_embed_norm = true;
    c.state.head_dim = c.state.state_dim = static_cast<int>(dim);
    c.state.n_heads = c.state.n_head_groups = static_cast<int>(c.n_embd / dim);
    c.state.n_taps = 2;
    c.state.n_channels = 2 * c.n_embd;  // the last row that each mix read
    return {};
  }

  // Fails where `key` says another number than tensor `name` has rows, or rows for each of its `parts`.
  static Status check_rank(
      const ModelFile& file, const std::string& key, const std::string& name, int64_t least, int64_t parts = 1) {
    const HostWeight* weight = file.find(name);
    const int64_t found = weight != nullptr && !weight->shape.empty() ? weight->shape[0] / parts : 0;
    QR_TRY(const int64_t said, file.meta.get_int_or(key, least, 1 << 16, std::max<int64_t>(found, least)));
    if (weight == nullptr || said == found) return {};
    return fail(Code::corrupt, "key " + file.meta.shown(key) + ": is " + std::to_string(said) + ", and tensor " +
                                   file.shown(weight->name) + " has " + std::to_string(found) +
                                   (parts == 1 ? " rows" : " rows for each part"));
  }

  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    const int64_t n = config().n_embd;
    load.vector(layer.attn_norm, "attn_norm.weight", n);
    load.vector(layer.attn_norm_bias, "attn_norm.bias", n);
    load.vector(layer.ffn_norm, "attn_norm_2.weight", n);
    load.vector(layer.ffn_norm_bias, "attn_norm_2.bias", n);
  }

  void load_mixes(WeightLoader& load, Mixes& mix) const {
    const int64_t n = config().n_embd;
    load.linear(mix.r, "time_mix_receptance", n, n);
    load.linear(mix.k, "time_mix_key", n, n);
    load.linear(mix.v, "time_mix_value", n, n);
    load.linear(mix.out, "time_mix_output", n, n);
    load.numbers(mix.norm, "time_mix_ln.weight", n);
    load.numbers(mix.norm_bias, "time_mix_ln.bias", n);
    load.linear(mix.up, "channel_mix_key", config().n_ff, n);
    load.linear(mix.down, "channel_mix_value", n, config().n_ff);
    mix.wkv.n_heads = config().state.n_heads;
    mix.wkv.dim = config().state.head_dim;
  }

  // `a` [rank, n_embd] and `b` [n_embd, rank]; `bias`, unless it is empty, is added behind them.
  void load_low_rank(
      WeightLoader& load, LowRankMix& out, const std::string& a, const std::string& b, const std::string& bias) const {
    const int64_t n = config().n_embd, rank = load.extent(a + ".weight", 0);
    load.linear(out.a, a, rank, n);
    load.linear(out.b, b, n, rank);
    if (!bias.empty() && load.status()) load.numbers(out.b.front().bias, bias, n);
  }

  // Appends a convolution for each n_embd of the tensor's numbers: y = x + share · (the row before − x).
  void load_shifts(WeightLoader& load, std::vector<ShortConv>& out, const std::string& name, int64_t n_shifts) const {
    const int64_t n = config().n_embd;
    const std::vector<float> shares = load.host_numbers(name, n_shifts * n);
    for (int64_t i = 0; i < n_shifts && load.status(); ++i) {
      std::vector<float> taps(shares.begin() + i * n, shares.begin() + (i + 1) * n);
      for (int64_t j = 0; j < n; ++j) taps.push_back(1.0F - taps[static_cast<size_t>(j)]);
      load_taps(load, out, taps);
    }
  }
  static void load_taps(WeightLoader& load, std::vector<ShortConv>& out, const std::vector<float>& taps) {
    ShortConv& shift = out.emplace_back();
    load.given(shift.w, taps);
    if (load.status()) shift.w = Tensor::dense(shift.w.data, DType::f32, {2, std::ssize(taps) / 2});
  }

  // Numbers of the arena that the parts of a layer take for each row, without low ranks.
  int64_t row_floats(int64_t rank) const {
    return 10 * Arena::row_stride(config().n_embd) + Arena::row_stride(config().n_ff) + Arena::row_stride(rank) + 2;
  }

  // out [n, n_embd] = down · relu²(up · x);  x [n, n_embd].
  void unit_of_squares(const Tensor& out, const Tensor& x, const Mixes& mix, const Pass& pass) const {
    const auto mark = pass.arena->mark();
    const Tensor hidden = pass.arena->alloc_rows(x.dim(0), config().n_ff);  // [n, n_ff]
    pass.ops->linear(hidden, x, mix.up);
    pass.ops->gated(hidden, hidden, {}, Activation::relu2);
    pass.ops->linear(out, hidden, mix.down);
    pass.arena->release(mark);
  }

  // The states of a layer's time mix, of its channel mix, and of its heads.
  static StateRows time_rows(const DecoderLayer& layer, const Pass& pass) {
    return state_rows(layer.state, layer.state.conv_offset, pass);
  }
  StateRows channel_rows(const DecoderLayer& layer, const Pass& pass) const {
    return state_rows(layer.state, layer.state.conv_offset + int64_t{config().n_embd} * 4, pass);
  }
  static StateRows head_rows(const DecoderLayer& layer, const Pass& pass) {
    return state_rows(layer.state, layer.state.scan_offset, pass);
  }

  enum class Middle : uint8_t { plain, tanh, sigmoid };
  // out [n, n_embd] = by(x);  x [n, n_embd].
  static void low_rank(const Tensor& out, const Tensor& x, const LowRankMix& by, Middle middle, const Pass& pass) {
    const auto mark = pass.arena->mark();
    const Tensor low = pass.arena->alloc_rows(x.dim(0), by.rank());  // [n, rank]
    pass.ops->linear(low, x, by.a);
    if (middle == Middle::tanh) pass.ops->soft_cap(low, 1.0F);
    if (middle == Middle::sigmoid) pass.ops->gated(low, low, {}, Activation::sigmoid);
    pass.ops->linear(out, low, by.b);
    pass.arena->release(mark);
  }

  // y [n, n_embd], head by head.
  static void norm_heads(const Tensor& y, const Mixes& mix, const Pass& pass) {
    constexpr float kEps = 64e-5F;
    const int64_t dim = mix.wkv.dim;
    const auto some = [dim](const Tensor& of, int64_t at) {
      return Tensor::dense(of.ptr<float>() + at, DType::f32, {dim});
    };
    for (int64_t at = 0; at < y.dim(1); at += dim) {
      const Tensor head = y.columns(at, dim);
      pass.ops->layer_norm(head, head, some(mix.norm, at), some(mix.norm_bias, at), kEps);
    }
  }

  // out [n, n_embd]: what each mix finds of x [n, n_embd]. `stream` is all that goes from layer to layer.
  virtual void time_mix(
      const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Tensor& stream, const Pass& pass) const = 0;
  virtual void channel_mix(const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Pass& pass) const = 0;

  void run_layer(const DecoderLayer& layer,
                 NormedRows& in,
                 Tensor delta,
                 const Rotation& /*rotation*/,
                 const Pass& pass) const override {
    NormedRows part = in;
    part.x = in.x.columns(0, config().n_embd);
    part.w = layer.attn_norm;
    part.b = layer.attn_norm_bias;
    norm_rows(*pass.ops, part);
    time_mix(delta, layer, part.normed, in.x, pass);
    pass.ops->add(part.x, delta);
    part.w = layer.ffn_norm;
    part.b = layer.ffn_norm_bias;
    norm_rows(*pass.ops, part);
    channel_mix(delta, layer, part.normed, pass);
    pass.ops->add(part.x, delta);
    if (config().layer_scales.empty()) return;
    const float by = config().layer_scales[static_cast<size_t>(number_of(layer))];
    if (by != 1.0F) pass.ops->scale(part.x, by);
  }
};

}  // namespace quire
