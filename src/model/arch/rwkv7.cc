// RWKV 7: a delta rule whose states fade by component and forget as much of a key as each row says, units of squares.
// Values of later layers are mixed with the first layer's, which go along with the residual stream.
#include "model/arch/rwkv.h"

namespace quire {
namespace {

class Rwkv7 final : public Rwkv {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;
  Tensor embed(const Pass& pass) const override;

 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override;
  void load_more(WeightLoader& load) override;
  void time_mix(const Tensor& out,
                const DecoderLayer& layer,
                const Tensor& x,
                const Tensor& stream,
                const Pass& pass) const override;
  void channel_mix(const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Pass& pass) const override;
  Tensor last_rows(const Tensor& x, const Pass& pass) const override {
    return Decoder::last_rows(x.columns(0, config().n_embd), pass);
  }

 private:
  struct Weights : Mixes {
    std::vector<ShortConv> shifts;  // of what r, decay, k, v, rate and gate are made of
    ShortConv channel_shift;
    LowRankMix value, rate, gate;  // no value in the first layer, a gate only in some models
  };
  // What v [n, n_embd] of this layer takes of the first one's, and of its own; the first one keeps its own in `first`.
  // a, b: room.
  struct ValueRows {
    Tensor v, first, a, b;
  };
  static void mix_values(const ValueRows& at, const Tensor& moved, const Weights& w, const Pass& pass);

  std::vector<Weights> weights_;  // by layer
};

Status Rwkv7::configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const {
  QR_TRY_VOID(Rwkv::configure(file, prefix, c));
  QR_TRY_VOID(file.meta.get_int_or(prefix + "token_shift_count", 2, 2, 2));
  const std::string at = prefix + "attention.";
  QR_TRY_VOID(check_rank(file, at + "decay_lora_rank", "blk.0.time_mix_w1.weight", 1));
  QR_TRY_VOID(check_rank(file, at + "iclr_lora_rank", "blk.0.time_mix_a1.weight", 1));
  QR_TRY_VOID(check_rank(file, at + "value_residual_mix_lora_rank", "blk.1.time_mix_v1.weight", 1));
  return check_rank(file, at + "gate_lora_rank", "blk.0.time_mix_g1.weight", 0);
}

void Rwkv7::load_more(WeightLoader& load) {
  const int64_t n = config().n_embd;
  weights_.resize(static_cast<size_t>(config().n_layers));
  for (size_t l = 0; l < weights_.size() && load.status(); ++l) {
    Weights& w = weights_[l];
    load.enter("blk." + std::to_string(l) + ".");
    load_mixes(load, w);
    load_low_rank(load, w.decay, "time_mix_w1", "time_mix_w2", "time_mix_w0.weight");
    load_low_rank(load, w.rate, "time_mix_a1", "time_mix_a2", "time_mix_a0.weight");
    if (l > 0) load_low_rank(load, w.value, "time_mix_v1", "time_mix_v2", "time_mix_v0.weight");
    const bool has_gate = load.has("time_mix_g1.weight");
    if (has_gate) load_low_rank(load, w.gate, "time_mix_g1", "time_mix_g2", "");
    load_shifts(load, w.shifts, "time_mix_lerp_fused.weight", has_gate ? 6 : 5);
    load.numbers(w.wkv.removal_scale, "time_mix_k_k.weight", n);
    load.numbers(w.wkv.rate_share, "time_mix_k_a.weight", n);
    load.numbers(w.wkv.bonus, "time_mix_r_k.weight", n);
    std::vector<ShortConv> channel;
    load_shifts(load, channel, "channel_mix_lerp_k.weight", 1);
    if (load.status()) w.channel_shift = channel.front();
  }
  load.enter("");
}

int64_t Rwkv7::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  int64_t rank = 0;
  for (const Weights& w : weights_)
    rank = std::max({rank, w.decay.rank(), w.rate.rank(), w.value.rank(), w.gate.rank()});
  const int64_t stream = Arena::row_stride(2 * int64_t{config().n_embd});
  return Decoder::arena_bytes(n_tokens, n_out) + n_tokens * (row_floats(rank) + stream) * 4 + 16 * Arena::kAlign;
}

Tensor Rwkv7::embed(const Pass& pass) const {
  const int64_t d = config().n_embd;
  const Tensor x = pass.arena->alloc_rows(pass.batch->ids.dim(0), 2 * d);  // [n, residual stream | first values]
  const auto mark = pass.arena->mark();
  pass.ops->gated(x.columns(0, d), Decoder::embed(pass), {}, Activation::none);
  pass.arena->release(mark);
  return x;
}

void Rwkv7::mix_values(const ValueRows& at, const Tensor& moved, const Weights& w, const Pass& pass) {
  Ops& ops = *pass.ops;
  if (w.value.a.empty()) return ops.gated(at.first, at.v, {}, Activation::none);
  low_rank(at.a, moved, w.value, Middle::plain, pass);
  ops.gated(at.b, at.v, {}, Activation::none);
  ops.scale(at.b, -1.0F);
  ops.add(at.b, at.first);
  ops.gated(at.b, at.a, at.b, Activation::sigmoid);
  ops.add(at.v, at.b);
}

void Rwkv7::time_mix(
    const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Tensor& stream, const Pass& pass) const {
  const Weights& w = weights_[static_cast<size_t>(number_of(layer))];
  Ops& ops = *pass.ops;
  const int64_t n = x.dim(0), d = config().n_embd;
  const auto mark = pass.arena->mark();
  Tensor moved, r, k, v, decay, rate, y, own;  // [n, n_embd] each
  for (Tensor* rows : {&moved, &r, &k, &v, &decay, &rate, &y, &own}) *rows = pass.arena->alloc_rows(n, d);
  const StateRows leaves = time_rows(layer, pass), reads = read_only(leaves, pass);
  const auto move = [&](size_t i) { ops.short_conv(moved, x, w.shifts[i], i + 1 == w.shifts.size() ? leaves : reads); };
  move(0);
  ops.linear(r, moved, w.r);
  move(2);
  ops.linear(k, moved, w.k);
  move(3);
  ops.linear(v, moved, w.v);
  mix_values({v, stream.columns(d, d), decay, rate}, moved, w, pass);
  move(1);
  low_rank(decay, moved, w.decay, Middle::tanh, pass);
  move(4);
  low_rank(rate, moved, w.rate, Middle::plain, pass);
  ops.wkv(y, own, WkvInput{r, k, v, decay, rate}, w.wkv, head_rows(layer, pass));
  norm_heads(y, w, pass);
  ops.add(y, own);
  if (!w.gate.a.empty()) {
    move(5);
    low_rank(decay, moved, w.gate, Middle::sigmoid, pass);
    ops.gated(y, decay, y, Activation::none);
  }
  ops.linear(out, y, w.out);
  pass.arena->release(mark);
}

void Rwkv7::channel_mix(const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Pass& pass) const {
  const Weights& w = weights_[static_cast<size_t>(number_of(layer))];
  const auto mark = pass.arena->mark();
  const Tensor moved = pass.arena->alloc_rows(x.dim(0), config().n_embd);  // [n, n_embd]
  pass.ops->short_conv(moved, x, w.channel_shift, channel_rows(layer, pass));
  unit_of_squares(out, moved, w, pass);
  pass.arena->release(mark);
}

QR_REGISTER(ArchEntry,
            "rwkv7",
            ArchEntry{.summary = "RWKV 7: a delta rule with rates of each row's own in every layer, units of squares",
                      .no_folder = "GGUF alone",
                      .hf = {},
                      .load = &load_decoder<Rwkv7>,
                      .info = &decoder_info<Rwkv7>});

}  // namespace
}  // namespace quire
