// RecurrentGemma (Griffin): gated linear recurrences in most layers, attention behind a window in few, gates of GELU, a
// scaled embedding. Hugging Face stores norms' weights less one. GGUF has no architecture of this name: its files are
// what `quire quantize` makes of a folder. Source: De et al., "Griffin: mixing gated linear recurrences with local
// attention".
#include <algorithm>
#include <cmath>

#include "io/in_quotes.h"
#include "model/decoder.h"
#include "model/hf_reshape.h"
#include "ops/parts.h"
#include "ops/state_sizes.h"
#include "quant/f16.h"

namespace quire {
namespace {

constexpr int64_t kPositions = 8192;  // configurations name none: what the models were trained for
constexpr double kSoftCap = 30.0;     // of logits, where the file does not say
constexpr double kFade = -8.0;        // of a recurrence, times the softplus of its parameter
constexpr double kLeastStep = 1e-30;  // smaller ones change nothing, and what is divided by them stays a number
constexpr const char* kWidth = "ssm.inner_size";

// Of one layer, head by head: what of its rows a recurrence forgets, and what it takes.
struct GateWeights {
  std::vector<Linear> forget, take;  // width / n_heads → the same
};

class RecurrentGemma final : public Decoder {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;

 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override;
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override;
  void load_more(WeightLoader& load) override;
  void run_layer(const DecoderLayer& layer,
                 NormedRows& in,
                 Tensor delta,
                 const Rotation& rotation,
                 const Pass& pass) const override;

 private:
  int64_t width() const { return config().state.n_inner(); }
  void load_recurrence(WeightLoader& load, StateMixer& mixer) const;
  void run_recurrence(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const;
  // out [n, width]: x, head by head, by these.
  void by_head(const Tensor& out, const Tensor& x, const std::vector<Linear>& heads, const Pass& pass) const;

  std::vector<GateWeights> gates_;  // by layer
};

Status RecurrentGemma::configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const {
  const Metadata& meta = file.meta;
  if (c.n_heads == 0) {
    return fail(Code::unsupported, "key " + meta.shown(prefix + "attention.head_count") + ": must be 1 at least, is 0");
  }
  c.activation = Activation::gelu_tanh;
  c.embed_scale = bf16_to_f32(f32_to_bf16(std::sqrt(static_cast<float>(c.n_embd))));
  QR_TRY(const double cap, meta.get_double_or(prefix + "final_logit_softcapping", 0.0, 1e6, kSoftCap));
  c.logit_soft_cap = static_cast<float>(cap);
  if (c.is_state.empty()) return {};
  QR_TRY(const int64_t n_taps, meta.get_int(prefix + "ssm.conv_kernel", 1, kMostTaps));
  QR_TRY(const int64_t width, meta.get_int(prefix + kWidth, 1, 1 << 20));
  if (width % c.n_heads != 0) {
    return fail(Code::corrupt, "key " + meta.shown(prefix + kWidth) + ": must be a multiple of the " +
                                   std::to_string(c.n_heads) + " heads, is " + std::to_string(width));
  }
  c.state.n_taps = static_cast<int>(n_taps);
  c.state.head_dim = static_cast<int>(width);
  c.state.n_heads = c.state.n_head_groups = c.state.state_dim = c.state.n_step_rank = 1;
  return {};
}

void RecurrentGemma::load_layer(WeightLoader& load, DecoderLayer& layer) const {
  if (!layer.keeps_state) return Decoder::load_layer(load, layer);
  load_norms(load, layer);
  load_recurrence(load, layer.state);
  if (layer.has_unit) load_feed_forward(load, layer);
}

void RecurrentGemma::load_recurrence(WeightLoader& load, StateMixer& mixer) const {
  const int64_t n_embd = config().n_embd, n = width();
  load.linear(mixer.in, "ssm_in", n, n_embd);
  load.linear(mixer.in, "ssm_gate", n, n_embd);
  load.load_transposed(mixer.conv.w, "ssm_conv1d.weight", n, config().state.n_taps);
  if (load.has("ssm_conv1d.bias")) load.vector(mixer.conv.b, "ssm_conv1d.bias", n);
  ScanParams& p = mixer.scan;
  p.n_heads = p.n_head_groups = p.state_dim = 1;
  p.head_dim = static_cast<int>(n);
  p.by_component = true;
  load.constant(p.dt_bias, n, 0.0F);
  load.constant(p.d, n, 0.0F);
  load.load_transposed(p.a, "ssm_a", n, 1);
  load.linear(mixer.out, "ssm_out", n_embd, n);
}

void RecurrentGemma::load_more(WeightLoader& load) {
  const int64_t n_heads = config().n_heads;
  gates_.resize(static_cast<size_t>(config().n_layers));
  for (size_t l = 0; l < gates_.size() && load.status(); ++l) {
    if (config().is_state.empty() || !config().is_state[l]) continue;
    const int64_t dim = width() / n_heads;
    load.enter("blk." + std::to_string(l) + ".");
    load.stacked(gates_[l].forget, "ssm_forget_gate", {n_heads, dim, dim});
    load.stacked(gates_[l].take, "ssm_take_gate", {n_heads, dim, dim});
  }
  load.enter("");
}

int64_t RecurrentGemma::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  const int64_t row = Arena::row_stride(2 * width()) + 3 * Arena::row_stride(width()) + Arena::row_stride(1);
  return Decoder::arena_bytes(n_tokens, n_out) + n_tokens * row * 4 + 5 * Arena::kAlign;
}

void RecurrentGemma::by_head(const Tensor& out,
                             const Tensor& x,
                             const std::vector<Linear>& heads,
                             const Pass& pass) const {
  const int64_t dim = width() / config().n_heads;
  for (size_t h = 0; h < heads.size(); ++h) {
    const int64_t at = static_cast<int64_t>(h) * dim;
    pass.ops->linear(out.columns(at, dim), x.columns(at, dim), std::span(heads).subspan(h, 1));
  }
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// What a scan reads, so that its state h becomes α · h + √(1 − α²) · take · x with α = exp(a · forget): its steps are
// what is forgotten, which it makes of `forget` as log(1 + exp(·)), and multiply its x too. At position 0 there is
// nothing before, and x comes in whole.  x, forget, take [n, d]; pos i32 [n]; a f32 [1, d].
void fill_scan(const Tensor& x, const Tensor& forget, const Tensor& take, const Tensor& pos, const Tensor& a) {
  const float* fades = a.ptr<float>();
  for (int64_t row = 0; row < x.dim(0); ++row) {
    float* value = x.row<float>(row);
    float* step = forget.row<float>(row);
    const float* taken = take.row<float>(row);
    const bool is_first = pos.ptr<int32_t>()[row] == 0;
    for (int64_t k = 0; k < x.dim(1); ++k) {
      const double by = std::max(sigmoid(static_cast<double>(step[k])), kLeastStep);
      const double share = is_first ? 1.0 : std::sqrt(-std::expm1(2.0 * by * static_cast<double>(fades[k])));
      value[k] =
          static_cast<float>(static_cast<double>(value[k]) * sigmoid(static_cast<double>(taken[k])) * share / by);
      step[k] = static_cast<float>(std::log(std::expm1(by)));
    }
  }
}

void RecurrentGemma::run_recurrence(Tensor out,
                                    const DecoderLayer& layer,
                                    const NormedRows& in,
                                    const Pass& pass) const {
  const StateMixer& mixer = layer.state;
  const GateWeights& w = gates_[static_cast<size_t>(number_of(layer))];
  const int64_t n = in.x.dim(0), d = width();
  const auto mark = pass.arena->mark();
  const Tensor all = pass.arena->alloc_rows(n, 2 * d);  // [n, x | gate]
  const Tensor mixed = pass.arena->alloc_rows(n, d);    // [n, width]
  const Tensor forget = pass.arena->alloc_rows(n, d);   // [n, width]
  const Tensor take = pass.arena->alloc_rows(n, d);     // [n, width]
  const Tensor ones = pass.arena->alloc_rows(n, 1);     // [n, 1]: a state is written and read as it is
  const Tensor y = all.columns(0, d);                   // when x is not read any more
  norm_rows(*pass.ops, in);
  pass.ops->linear(all, in.input(), mixer.in);
  pass.ops->short_conv(mixed, all.columns(0, d), mixer.conv, state_rows(mixer, mixer.conv_offset, pass));
  by_head(forget, mixed, w.forget, pass);
  by_head(take, mixed, w.take, pass);
  pass.ops->finish();
  fill_scan(mixed, forget, take, pass.batch->pos, mixer.scan.a);
  for (int64_t row = 0; row < n; ++row) *ones.row<float>(row) = 1.0F;
  pass.ops->scan(y, ScanInput{mixed, ones, ones, forget}, mixer.scan, state_rows(mixer, mixer.scan_offset, pass));
  pass.ops->gated(y, all.columns(d, d), y, Activation::gelu_tanh);
  pass.ops->linear(out, y, mixer.out);
  pass.arena->release(mark);
}

void RecurrentGemma::run_layer(
    const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const {
  if (!layer.keeps_state) return Decoder::run_layer(layer, in, delta, rotation, pass);
  in.w = layer.attn_norm;
  run_recurrence(delta, layer, in, pass);
  in.delta = delta;
  if (!layer.has_unit) return;
  in.w = layer.ffn_norm;
  feed_forward(delta, layer, in, pass);
}

// Kinds of layers, as often as there are layers.
Status layer_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t n_heads, hf.get_int("num_attention_heads", 1, 4096));
  QR_TRY(const int64_t n_kv_heads, hf.get_int_or("num_key_value_heads", 1, n_heads, n_heads));
  std::vector<std::string> kinds = {"recurrent", "recurrent", "attention"};
  const MetaValue* value = hf.find("block_types");
  const auto* said = value != nullptr ? std::get_if<std::vector<std::string>>(value) : nullptr;
  if (value != nullptr && (said == nullptr || said->empty())) {
    return fail(Code::corrupt, "key \"block_types\": must be a list of kinds of layers");
  }
  if (said != nullptr) kinds = *said;
  for (const std::string& kind : kinds) {
    if (kind == "recurrent" || kind == "attention") continue;
    return fail(Code::unsupported,
                "key \"block_types\": " + in_quotes(kind) + " is not supported; known: recurrent attention");
  }
  std::vector<int64_t> heads;
  for (int64_t l = 0; l < n_layers; ++l) {
    heads.push_back(kinds[static_cast<size_t>(l) % kinds.size()] == "attention" ? n_kv_heads : 0);
  }
  hf.set("attention.head_count_kv", std::move(heads), "block_types");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_activation", {"gelu_pytorch_tanh"}));
  QR_TRY_VOID(layer_facts(hf));
  QR_TRY(const int64_t n_embd, hf.get_int("hidden_size", 1, 1 << 20));
  QR_TRY(const int64_t n_heads, hf.get_int("num_attention_heads", 1, 4096));
  QR_TRY(const int64_t n_ff, hf.get_int("intermediate_size", 2, 1 << 23));
  QR_TRY(const int64_t window, hf.get_int_or("attention_window_size", 1, int64_t{1} << 30, 2048));
  QR_TRY(const int64_t width, hf.get_int_or("lru_width", 1, 1 << 20, n_embd));
  QR_TRY(const int64_t n_taps, hf.get_int_or("conv1d_width", 1, kMostTaps, 4));
  hf.set("feed_forward_length", n_ff / 2, "intermediate_size");
  hf.set("attention.sliding_window", window, "attention_window_size");
  hf.set(kWidth, width, "lru_width");
  hf.set("ssm.conv_kernel", n_taps, "conv1d_width");
  hf.set("final_logit_softcapping", kSoftCap, "logits_soft_cap");
  if (hf.find("logits_soft_cap") != nullptr) hf.copy({"logits_soft_cap"}, "final_logit_softcapping");
  if (hf.find("rms_norm_eps") == nullptr) hf.set("attention.layer_norm_rms_epsilon", 1e-6, "rms_norm_eps");
  if (hf.find("max_position_embeddings") == nullptr) hf.set("context_length", kPositions, "max_position_embeddings");
  const bool says_turns =
      hf.find("partial_rotary_factor") != nullptr || hf.find("rope_parameters.partial_rotary_factor") != nullptr;
  if (!says_turns) hf.set("rope.dimension_count", n_embd / n_heads / 2, "partial_rotary_factor");
  return {};
}

// Parameters [n] → what a state fades by, [n, 1], as F32.
Status fades(const HostWeight& theirs, const Metadata&, HostWeight& ours, ModelFile& file) {
  if (theirs.shape.size() != 1 || theirs.format->block != 1) {
    return fail(Code::corrupt, "tensor " + in_quotes(theirs.name) + ": must be one row of floats");
  }
  const auto n = static_cast<size_t>(theirs.shape[0]);
  const WeightFormat& f32 = *find_weight_format("f32");
  auto bytes = std::make_shared<std::vector<std::byte>>(n * sizeof(float));
  for (size_t i = 0; i < n; ++i) {
    float value = 0;
    theirs.format->decode(theirs.data.data() + i * static_cast<size_t>(theirs.format->bytes), &value);
    const auto x = static_cast<double>(value);
    value = static_cast<float>(kFade * (std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))));
    f32.encode(&value, bytes->data() + i * sizeof(float));
  }
  ours.format = &f32;
  ours.shape = {theirs.shape[0], 1};
  ours.data = *bytes;
  file.owned.push_back(std::move(bytes));
  return {};
}

std::vector<NameRule> tensors() {
  return {{"model.final_norm.weight", "output_norm.weight", true},
          {"model.layers.{}.temporal_pre_norm.weight", "blk.{}.attn_norm.weight", true},
          {"model.layers.{}.channel_pre_norm.weight", "blk.{}.ffn_norm.weight", true},
          {"model.layers.{}.temporal_block.q_proj.weight", "blk.{}.attn_q.weight"},
          {"model.layers.{}.temporal_block.k_proj.weight", "blk.{}.attn_k.weight"},
          {"model.layers.{}.temporal_block.v_proj.weight", "blk.{}.attn_v.weight"},
          {"model.layers.{}.temporal_block.q_proj.bias", "blk.{}.attn_q.bias"},
          {"model.layers.{}.temporal_block.k_proj.bias", "blk.{}.attn_k.bias"},
          {"model.layers.{}.temporal_block.v_proj.bias", "blk.{}.attn_v.bias"},
          {"model.layers.{}.temporal_block.o_proj.weight", "blk.{}.attn_output.weight"},
          {"model.layers.{}.temporal_block.o_proj.bias", "blk.{}.attn_output.bias"},
          {"model.layers.{}.temporal_block.linear_x.weight", "blk.{}.ssm_in.weight"},
          {"model.layers.{}.temporal_block.linear_x.bias", "blk.{}.ssm_in.bias"},
          {"model.layers.{}.temporal_block.linear_y.weight", "blk.{}.ssm_gate.weight"},
          {"model.layers.{}.temporal_block.linear_y.bias", "blk.{}.ssm_gate.bias"},
          {"model.layers.{}.temporal_block.linear_out.weight", "blk.{}.ssm_out.weight"},
          {"model.layers.{}.temporal_block.linear_out.bias", "blk.{}.ssm_out.bias"},
          {.theirs = "model.layers.{}.temporal_block.conv_1d.weight",
           .ours = "blk.{}.ssm_conv1d.weight",
           .reshape = without_middle},
          {"model.layers.{}.temporal_block.conv_1d.bias", "blk.{}.ssm_conv1d.bias"},
          {.theirs = "model.layers.{}.temporal_block.rg_lru.recurrent_param", .ours = "blk.{}.ssm_a", .reshape = fades},
          {.theirs = "model.layers.{}.temporal_block.rg_lru.recurrent_gate_weight",
           .ours = "blk.{}.ssm_forget_gate.weight",
           .reshape = transposed},
          {"model.layers.{}.temporal_block.rg_lru.recurrent_gate_bias", "blk.{}.ssm_forget_gate.bias"},
          {.theirs = "model.layers.{}.temporal_block.rg_lru.input_gate_weight",
           .ours = "blk.{}.ssm_take_gate.weight",
           .reshape = transposed},
          {"model.layers.{}.temporal_block.rg_lru.input_gate_bias", "blk.{}.ssm_take_gate.bias"},
          {"model.layers.{}.mlp_block.gate_proj.weight", "blk.{}.ffn_gate.weight"},
          {"model.layers.{}.mlp_block.gate_proj.bias", "blk.{}.ffn_gate.bias"},
          {"model.layers.{}.mlp_block.up_proj.weight", "blk.{}.ffn_up.weight"},
          {"model.layers.{}.mlp_block.up_proj.bias", "blk.{}.ffn_up.bias"},
          {"model.layers.{}.mlp_block.down_proj.weight", "blk.{}.ffn_down.weight"},
          {"model.layers.{}.mlp_block.down_proj.bias", "blk.{}.ffn_down.bias"}};
}

QR_REGISTER(ArchEntry,
            "recurrent_gemma",
            ArchEntry{
                .summary = "RecurrentGemma: gated linear recurrences in most layers, windows in the others",
                .no_gguf = "unknown to gguf 0.19.0; files that say this name open",
                .hf = {.model_types = {"recurrent_gemma"}, .tensors = tensors(), .facts = facts, .lists_parts = true},
                .load = &load_decoder<RecurrentGemma>,
                .info = &decoder_info<RecurrentGemma>});

}  // namespace
}  // namespace quire
