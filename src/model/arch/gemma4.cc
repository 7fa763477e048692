// Gemma 4, text: five layers of six behind a window, whose heads are narrower than the others'; those have no
// values but what their keys are made of where the file has no others; a layer's own embedding of a token behind both
// parts, and a factor of the residual stream behind it all; experts beside a unit, each with norms of its own, whose
// shares have a gain.
#include <algorithm>

#include "model/adapter_experts.h"
#include "model/arch/gemma_own.h"
#include "model/step_tables.h"
#include "quant/weights/f4_64.h"

namespace quire {
namespace {

constexpr int kPeriod = 6;  // of local and global layers

// Factors of the residual stream, of those layers that have one.
Status read_layer_scales(const ModelFile& file, DecoderConfig& c) {
  for (int l = 0; l < c.n_layers; ++l) {
    const std::string name = "blk." + std::to_string(l) + ".layer_output_scale.weight";
    const HostWeight* weight = file.find(name);
    const std::optional<double> scale = weight != nullptr ? single_number(*weight) : std::optional(1.0);
    if (!scale || !std::isfinite(*scale)) {
      return fail(Code::corrupt, "tensor " + file.shown(name) + ": must be one finite number");
    }
    c.layer_scales.push_back(static_cast<float>(*scale));
  }
  return {};
}

constexpr const char* kGains = "ffn_down_exps.scale";
// A share's gain is of W + B·A; where it is a factor of W, and times others, B·A would be added without it.
constexpr const char* kNoOwnGains =
    "the gains of its experts are part of their weights in NVFP4 and unknown by themselves";

// The largest gain of an expert's share, of all layers. Beside experts in NVFP4 the reader has taken them for the
// weight's factors, which comes to the same product. Code::corrupt names the tensor.
Result<float> largest_gain(const ModelFile& file, const DecoderConfig& c) {
  float most = 0.0F;
  for (int l = 0; l < c.n_layers; ++l) {
    const std::string layer = "blk." + std::to_string(l) + ".", name = layer + kGains;
    const HostWeight* experts = file.find(layer + "ffn_down_exps.weight");
    if (experts != nullptr && experts->format->name == F4_64::kName && file.find(name) == nullptr) {
      most = std::max(most, 1.0F);
      continue;
    }
    QR_TRY(const HostWeight* weight, file.get(name, {c.n_experts}));
    for (int e = 0; e < c.n_experts; ++e) {
      float gain = 0.0F;
      if (weight->format->block == 1) weight->format->decode(weight->data.data() + e * weight->format->bytes, &gain);
      if (!std::isfinite(gain) || gain <= 0.0F) {
        return fail(Code::corrupt, "tensor " + file.shown(name) + ": must hold numbers above 0, unquantised");
      }
      most = std::max(most, gain);
    }
  }
  return most;
}

// Of a layer with experts, beside what all have.
struct MixtureWeights {
  Tensor router_norm;                                          // [n_embd], in front of the router
  Tensor gains;                                                // [n_experts]
  Tensor experts_norm, behind_unit_norm, behind_experts_norm;  // [n_embd]
};

class Gemma4 final : public Decoder {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override {
    const int64_t found = config().n_experts > 0 ? Arena::row_stride(config().n_embd) : 0;
    return Decoder::arena_bytes(n_tokens, n_out) + n_tokens * found * 4;
  }

 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    if (c.n_experts > 0) {
      c.routing.scoring = Routing::Scoring::sigmoid;
      c.routing.normalised = false;
      QR_TRY(c.routing.scale, largest_gain(file, c));
    }
    QR_TRY_VOID(configure_gemma(file, prefix, kPeriod, 0.0, c));
    return read_layer_scales(file, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_post_norms(load, layer);
    load_head_norms(load, layer);
    load_attention(load, layer);
    load_unit(load, layer);
    if (config().n_experts > 0) load_experts(load, layer);
    load_own_part(load, layer, config());
  }
  void load_more(WeightLoader& load) override;
  void feed_forward(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const override;

 private:
  std::vector<MixtureWeights> mixtures_;  // by layer; empty: none has experts
};

void Gemma4::load_more(WeightLoader& load) {
  const DecoderConfig& c = config();
  if (c.n_experts == 0) return;
  mixtures_.resize(static_cast<size_t>(c.n_layers));
  for (size_t l = 0; l < mixtures_.size() && load.status(); ++l) {
    MixtureWeights& w = mixtures_[l];
    load.enter("blk." + std::to_string(l) + ".");
    load.vector(w.router_norm, "ffn_gate_inp.scale", c.n_embd);
    if (load.has(kGains)) {
      load.vector(w.gains, kGains, c.n_experts);
    } else {
      load.constant(w.gains, c.n_experts, 1.0F);
      refuse_adapted_downs(static_cast<int>(l), kNoOwnGains);
    }
    load.vector(w.experts_norm, "pre_ffw_norm_2.weight", c.n_embd);
    load.vector(w.behind_unit_norm, "post_ffw_norm_1.weight", c.n_embd);
    load.vector(w.behind_experts_norm, "post_ffw_norm_2.weight", c.n_embd);
  }
  load.enter("");
}

void Gemma4::feed_forward(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const {
  unit(out, layer, in, pass);
  if (layer.router.empty()) return;
  Ops& ops = *pass.ops;
  const DecoderConfig& c = config();
  const MixtureWeights& w = mixtures_[static_cast<size_t>(number_of(layer))];
  const int64_t n = in.x.dim(0);
  const auto mark = pass.arena->mark();
  const Tensor scores = pass.arena->alloc(DType::f32, {n, c.n_experts});  // [n, n_experts]
  const Tensor found = pass.arena->alloc_rows(n, c.n_embd);               // [n, n_embd]
  const Tensor scratch = pass.arena->alloc_rows(n * c.routing.n_used, c.n_embd + 3 * int64_t{c.n_ff_expert});
  ops.rms_norm(out, out, w.behind_unit_norm, in.eps);
  ops.rms_norm(in.normed, in.x, w.router_norm, in.eps);
  ops.scale(in.normed, 1.0F / std::sqrt(static_cast<float>(c.n_embd)));
  ops.linear(scores, in.normed, layer.router);
  add_beside_experts(scores, in.normed, shared_unit_entry(c.n_layers, number_of(layer)), kRouter, pass);
  pass.ops->finish();
  gain_shares(scores, c.routing.n_used, w.gains, c.routing.scale);
  ops.rms_norm(in.normed, in.x, w.experts_norm, in.eps);
  run_experts(found, MoeInput{in.normed, scores, scratch}, layer.experts,
              first_expert_entry(c.n_layers, c.n_experts, number_of(layer)), pass);
  ops.rms_norm(found, found, w.behind_experts_norm, in.eps);
  ops.add(out, found);
  pass.arena->release(mark);
}

// Sizes of heads by kind of layer. Newer folders list the layers that differ, older ones name the global layers' sizes.
Status head_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t local_dim, hf.get_int("head_dim", 1, kMaxHeadDim));
  QR_TRY(const int64_t local_kv, hf.get_int("num_key_value_heads", 1, 4096));
  const MetaValue* kinds = hf.find("layer_types");
  const auto* list = kinds != nullptr ? std::get_if<std::vector<std::string>>(kinds) : nullptr;
  if (list == nullptr || list->size() != static_cast<size_t>(n_layers)) {
    return fail(Code::corrupt,
                "key \"layer_types\": must be a list of " + std::to_string(n_layers) + " kinds of layers");
  }
  const auto first = std::ranges::find(*list, "full_attention") - list->begin();
  const std::string of_layer = "per_layer_config." + std::to_string(first) + ".";
  const bool is_listed = hf.find(of_layer + "head_dim") != nullptr;
  QR_TRY(const int64_t dim, hf.get_int_or(is_listed ? of_layer + "head_dim" : "global_head_dim", 1, kMaxHeadDim, 512));
  QR_TRY(const bool fewer, hf.get_bool_or("attention_k_eq_v", false));
  const std::string kv_key = is_listed ? of_layer + "num_key_value_heads" : "num_global_key_value_heads";
  QR_TRY(const int64_t named, hf.get_int_or(kv_key, 1, 4096, local_kv));
  const int64_t n_kv = is_listed || fewer ? named : local_kv;
  std::vector<int64_t> heads;
  for (const std::string& kind : *list) heads.push_back(kind == "full_attention" ? n_kv : local_kv);
  hf.set("attention.head_count_kv", std::move(heads), kv_key);
  for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    hf.set(key, dim, "global_head_dim");
  }
  for (const char* key : {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"}) {
    hf.set(key, local_dim, "head_dim");
  }
  return {};
}

// Units of layers that read others' keys may be twice as wide.
Status unit_facts(HfFacts& hf) {
  QR_TRY(const bool wider, hf.get_bool_or("use_double_wide_mlp", false));
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t n_readers, hf.get_int_or("num_kv_shared_layers", 0, n_layers, 0));
  if (!wider || n_readers == 0) return {};
  QR_TRY(const int64_t n_ff, hf.get_int("intermediate_size", 1, 1 << 21));
  std::vector<int64_t> of_layers(static_cast<size_t>(n_layers), n_ff);
  std::fill(of_layers.end() - n_readers, of_layers.end(), 2 * n_ff);
  hf.set("feed_forward_length", std::move(of_layers), "intermediate_size");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(gemma_own_facts(hf));
  QR_TRY(const bool has_experts, hf.get_bool_or("enable_moe_block", false));
  if (!has_experts) hf.set("expert_count", int64_t{0}, "enable_moe_block");
  hf.copy({"top_k_experts"}, "expert_used_count");
  QR_TRY_VOID(hf.require("use_bidirectional_attention", {"vision"}));  // of images alone
  QR_TRY_VOID(head_facts(hf));
  return unit_facts(hf);
}

std::vector<NameRule> names() {
  std::vector<NameRule> out = gemma_own_names();
  const NameRule own[] = {{"model.layers.{}.layer_scalar", "blk.{}.layer_output_scale.weight"},
                          {"model.layers.{}.router.proj.weight", "blk.{}.ffn_gate_inp.weight"},
                          {"model.layers.{}.router.scale", "blk.{}.ffn_gate_inp.scale"},
                          {"model.layers.{}.router.per_expert_scale", "blk.{}.ffn_down_exps.scale"},
                          {"model.layers.{}.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps.weight"},
                          {"model.layers.{}.experts.down_proj", "blk.{}.ffn_down_exps.weight"},
                          {"model.layers.{}.pre_feedforward_layernorm_2.weight", "blk.{}.pre_ffw_norm_2.weight"},
                          {"model.layers.{}.post_feedforward_layernorm_1.weight", "blk.{}.post_ffw_norm_1.weight"},
                          {"model.layers.{}.post_feedforward_layernorm_2.weight", "blk.{}.post_ffw_norm_2.weight"}};
  out.insert(out.end(), std::begin(own), std::end(own));
  return out;
}

QR_REGISTER(ArchEntry,
            "gemma4",
            ArchEntry{.summary = "Gemma 4, text: own embeddings of layers, windows with heads of their own",
                      .hf = {.model_types = {"gemma4_text", "gemma4"}, .tensors = names(), .facts = facts},
                      .load = &load_decoder<Gemma4>,
                      .info = &decoder_info<Gemma4>});

}  // namespace
}  // namespace quire
