// LFM3: short convolutions in most layers, attention behind a window in some, which turns by frequencies of its own,
// and over all in others, where a part of each head turns; norms before and behind both parts; a gate of each head.
// GGUF has no architecture of this name: its files are what `quire quantize` makes of a folder.
#include "model/arch/lfm2.h"
#include "model/layer_kinds.h"

namespace quire {
namespace {

constexpr double kLocalTheta = 10000.0;  // where the folder does not say
constexpr const char* kGates = "attention.head_gates";
constexpr const char* kNormsBehind = "norms_behind_parts";

// Whether layers have what the file says that they have.
Status check_parts(const ModelFile& file, const std::string& prefix, const DecoderConfig& c) {
  QR_TRY(const bool gates, file.meta.get_bool_or(prefix + kGates, true));
  QR_TRY(const bool norms, file.meta.get_bool_or(prefix + kNormsBehind, true));
  const auto check = [&](const std::string& name, bool said, const char* key) -> Status {
    const bool has = file.find(name) != nullptr;
    if (has == said) return {};
    return fail(Code::corrupt, "tensor " + file.shown(name) + (has ? ": is there" : ": is missing") + ", and key " +
                                   file.meta.shown(prefix + key) + " is " + (said ? "true" : "false"));
  };
  for (size_t l = 0; l < static_cast<size_t>(c.n_layers); ++l) {
    const std::string layer = "blk." + std::to_string(l) + ".";
    const bool attends = c.is_state.empty() || !c.is_state[l];
    if (attends) QR_TRY_VOID(check(layer + "attn_gate.weight", gates, kGates));
    QR_TRY_VOID(check(layer + "post_attention_norm.weight", norms, kNormsBehind));
    QR_TRY_VOID(check(layer + "post_ffw_norm.weight", norms, kNormsBehind));
  }
  return {};
}

class Lfm3 final : public Lfm2 {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY(const double theta, file.meta.get_double_or(prefix + "rope.freq_base_swa", 1.0, 1e12, kLocalTheta));
    c.rope_local = plain_rope(c.n_rope, theta);
    QR_TRY_VOID(check_parts(file, prefix, c));
    return Lfm2::configure(file, prefix, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    Lfm2::load_layer(load, layer);
    if (load.has("post_attention_norm.weight")) load_post_norms(load, layer);
    if (layer.attends && load.has("attn_gate.weight")) {
      load.linear(layer.attn_gate, "attn_gate", layer.attn.n_heads, config().n_embd);
    }
  }
};

// Which layers have heads, and which of those see a window.
Status layer_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t n_heads, hf.get_int("num_attention_heads", 1, 4096));
  QR_TRY(const int64_t n_kv_heads, hf.get_int_or("num_key_value_heads", 1, n_heads, n_heads));
  std::vector<std::string> kinds;
  kinds.reserve(static_cast<size_t>(n_layers));
  for (int64_t l = 0; l < n_layers; ++l) {
    kinds.emplace_back(l % 4 == 2 ? "full_attention" : l % 4 == 0 && l > 0 ? "sliding_attention" : "conv");
  }
  QR_TRY(kinds, layer_kinds(hf, "layer_types", {"conv", "full_attention", "sliding_attention"}, std::move(kinds)));
  std::vector<int64_t> heads, is_local;
  for (const std::string& kind : kinds) {
    heads.push_back(kind == "conv" ? 0 : n_kv_heads);
    is_local.push_back(kind == "sliding_attention" ? 1 : 0);
  }
  const bool has_windows = std::ranges::count(is_local, 1) > 0;
  if (has_windows) QR_TRY_VOID(hf.get_int("sliding_window", 1, int64_t{1} << 30));
  hf.set("attention.head_count_kv", std::move(heads), "layer_types");
  hf.set("attention.sliding_window_pattern", std::move(is_local), "layer_types");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require_bool("attention_bias", false));
  QR_TRY_VOID(hf.require("rope_parameters.sliding_attention.rope_type", {"default"}));
  hf.copy({"rope_parameters.sliding_attention.rope_theta"}, "rope.freq_base_swa");
  hf.copy({"conv_L_cache"}, "shortconv.l_cache");
  hf.copy({"use_attention_gate"}, kGates);
  hf.copy({"use_sandwich_norm"}, kNormsBehind);
  return layer_facts(hf);
}

QR_REGISTER(ArchEntry,
            "lfm3",
            ArchEntry{.summary = "LFM3: short convolutions, windows and attention over all, gates of heads",
                      .no_gguf = "GGUF has no name for it",
                      .hf = {.model_types = {"lfm3"},
                             .tensors = lfm2_tensors(
                                 {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                  {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
                                  {"model.layers.{}.self_attn.gate_proj.weight", "blk.{}.attn_gate.weight"},
                                  {"model.layers.{}.post_operator_norm.weight", "blk.{}.post_attention_norm.weight"},
                                  {"model.layers.{}.post_ffn_norm.weight", "blk.{}.post_ffw_norm.weight"}}),
                             .facts = facts,
                             .lists_parts = true},
                      .load = &load_decoder<Lfm3>,
                      .info = &decoder_info<Lfm3>});

}  // namespace
}  // namespace quire
