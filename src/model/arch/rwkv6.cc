// RWKV 6: a recurrence that fades by component, mixes whose shares follow from each row, gated units of squares.
#include "model/arch/rwkv.h"

namespace quire {
namespace {

// What a time mix makes of its rows, in the order of GGUF's tensors.
enum Made : uint8_t { kDecay, kKey, kValue, kReceptance, kGate, kMade };

class Rwkv6 final : public Rwkv {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;

 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override;
  void load_more(WeightLoader& load) override;
  void time_mix(const Tensor& out,
                const DecoderLayer& layer,
                const Tensor& x,
                const Tensor& stream,
                const Pass& pass) const override;
  void channel_mix(const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Pass& pass) const override;

 private:
  struct Weights : Mixes {
    std::vector<ShortConv> shifts;           // of what is made, before each row's own share
    std::vector<ShortConv> share_shift;      // of what the shares are made of
    std::vector<ShortConv> difference;       // the row before − the row
    std::vector<Linear> shares_a, shares_b;  // n_embd → kMade · rank; rank → n_embd each
    std::vector<Linear> gate;                // n_embd → n_embd
    std::vector<ShortConv> channel_shifts;   // of the unit, and of its gate
    std::vector<Linear> channel_gate;        // n_embd → n_embd
    int64_t share_rank() const { return shares_a.empty() ? 0 : shares_a.front().n_out / kMade; }
  };
  void load_shares(WeightLoader& load, Weights& w) const;

  std::vector<Weights> weights_;  // by layer
};

Status Rwkv6::configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const {
  QR_TRY_VOID(Rwkv::configure(file, prefix, c));
  QR_TRY_VOID(check_rank(file, prefix + "time_mix_extra_dim", "blk.0.time_mix_w1.weight", 1, kMade));
  QR_TRY_VOID(check_rank(file, prefix + "time_decay_extra_dim", "blk.0.time_mix_decay_w1.weight", 1));
  QR_TRY(const int64_t every, file.meta.get_int_or(prefix + "rescale_every_n_layers", 0, 1 << 20, 0));
  for (int l = 1; every > 0 && l <= c.n_layers; ++l) c.layer_scales.push_back(l % every == 0 ? 0.5F : 1.0F);
  return {};
}

void Rwkv6::load_shares(WeightLoader& load, Weights& w) const {
  const int64_t n = config().n_embd;
  const int64_t rank = std::max<int64_t>(1, load.extent("time_mix_w1.weight", 0) / kMade);
  load.linear(w.shares_a, "time_mix_w1", kMade * rank, n);
  load.stacked(w.shares_b, "time_mix_w2", {kMade, n, rank});
  load_shifts(load, w.share_shift, "time_mix_lerp_x.weight", 1);
  if (load.has("time_mix_lerp_fused.weight")) {
    load_shifts(load, w.shifts, "time_mix_lerp_fused.weight", kMade);
  } else {
    for (const char* name : {"w", "k", "v", "r", "g"}) {
      load_shifts(load, w.shifts, std::string("time_mix_lerp_") + name + ".weight", 1);
    }
  }
  std::vector<float> taps(static_cast<size_t>(n), 1.0F);
  taps.resize(static_cast<size_t>(2 * n), -1.0F);
  load_taps(load, w.difference, taps);
}

void Rwkv6::load_more(WeightLoader& load) {
  const int64_t n = config().n_embd;
  weights_.resize(static_cast<size_t>(config().n_layers));
  for (size_t l = 0; l < weights_.size() && load.status(); ++l) {
    Weights& w = weights_[l];
    load.enter("blk." + std::to_string(l) + ".");
    load_mixes(load, w);
    load_shares(load, w);
    load_low_rank(load, w.decay, "time_mix_decay_w1", "time_mix_decay_w2", "time_mix_decay.weight");
    load.linear(w.gate, "time_mix_gate", n, n);
    load.numbers(w.wkv.bonus, "time_mix_first.weight", n);
    load_shifts(load, w.channel_shifts, "channel_mix_lerp_k.weight", 1);
    load_shifts(load, w.channel_shifts, "channel_mix_lerp_r.weight", 1);
    load.linear(w.channel_gate, "channel_mix_receptance", n, n);
  }
  load.enter("");
}

int64_t Rwkv6::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  int64_t rank = 0, shares = 0;
  for (const Weights& w : weights_) {
    rank = std::max(rank, w.decay.rank());
    shares = std::max(shares, kMade * w.share_rank());
  }
  return Decoder::arena_bytes(n_tokens, n_out) + n_tokens * (row_floats(rank) + Arena::row_stride(shares)) * 4 +
         16 * Arena::kAlign;
}

void Rwkv6::time_mix(
    const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Tensor& /*stream*/, const Pass& pass) const {
  const Weights& w = weights_[static_cast<size_t>(number_of(layer))];
  Ops& ops = *pass.ops;
  const int64_t n = x.dim(0), d = config().n_embd, rank = w.share_rank();
  const auto mark = pass.arena->mark();
  Tensor moved, difference, share, r, k, v, decay, gate, y, own;  // [n, n_embd] each
  for (Tensor* rows : {&moved, &difference, &share, &r, &k, &v, &decay, &gate, &y, &own}) {
    *rows = pass.arena->alloc_rows(n, d);
  }
  const Tensor shares = pass.arena->alloc_rows(n, kMade * rank);  // [n, kMade · rank]
  const StateRows leaves = time_rows(layer, pass), reads = read_only(leaves, pass);
  ops.short_conv(difference, x, w.difference.front(), reads);
  ops.short_conv(moved, x, w.share_shift.front(), reads);
  ops.linear(shares, moved, w.shares_a);
  ops.soft_cap(shares, 1.0F);
  for (const Made made : {kDecay, kKey, kValue, kReceptance, kGate}) {
    ops.short_conv(moved, x, w.shifts[made], made == kGate ? leaves : reads);
    ops.linear(share, shares.columns(made * rank, rank), std::span(w.shares_b).subspan(made, 1));
    ops.gated(share, share, difference, Activation::none);
    ops.add(moved, share);
    if (made == kDecay) low_rank(decay, moved, w.decay, Middle::tanh, pass);
    if (made == kKey) ops.linear(k, moved, w.k);
    if (made == kValue) ops.linear(v, moved, w.v);
    if (made == kReceptance) ops.linear(r, moved, w.r);
    if (made == kGate) ops.linear(gate, moved, w.gate);
  }
  ops.wkv(y, own, WkvInput{r, k, v, decay, {}}, w.wkv, head_rows(layer, pass));
  ops.add(y, own);
  norm_heads(y, w, pass);
  ops.gated(y, gate, y, Activation::silu);
  ops.linear(out, y, w.out);
  pass.arena->release(mark);
}

void Rwkv6::channel_mix(const Tensor& out, const DecoderLayer& layer, const Tensor& x, const Pass& pass) const {
  const Weights& w = weights_[static_cast<size_t>(number_of(layer))];
  Ops& ops = *pass.ops;
  const auto mark = pass.arena->mark();
  const Tensor moved = pass.arena->alloc_rows(x.dim(0), config().n_embd);  // [n, n_embd]
  const Tensor gate = pass.arena->alloc_rows(x.dim(0), config().n_embd);   // [n, n_embd]
  const StateRows leaves = channel_rows(layer, pass), reads = read_only(leaves, pass);
  ops.short_conv(moved, x, w.channel_shifts[0], reads);
  unit_of_squares(out, moved, w, pass);
  ops.short_conv(moved, x, w.channel_shifts[1], leaves);
  ops.linear(gate, moved, w.channel_gate);
  ops.gated(out, gate, out, Activation::sigmoid);
  pass.arena->release(mark);
}

QR_REGISTER(ArchEntry,
            "rwkv6",
            ArchEntry{.summary = "RWKV 6: a recurrence that fades by component in every layer, gated units of squares",
                      .no_folder = "GGUF alone",
                      .hf = {},
                      .load = &load_decoder<Rwkv6>,
                      .info = &decoder_info<Rwkv6>});

}  // namespace
}  // namespace quire
