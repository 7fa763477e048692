// MiMo-V2 Flash: layers with a window have more heads of keys than the others, frequencies of their own and a learned
// sink beside the keys of every head; values are narrower than keys; what attention finds has a factor; experts by
// sigmoids with a bias of the choice, dense first layers.
#include "model/decoder.h"

namespace quire {
namespace {

constexpr int64_t kSigmoids = 2;       // GGUF's number
constexpr double kPart = 0.334;        // of a head that turns, where the folder does not say
constexpr double kValueScale = 0.707;  // where the folder does not say
constexpr double kLocalTheta = 10000.0;
constexpr int64_t kPeriod = 6;  // of layers, of which the last, and the first of all, have no window; likewise

class MiMo2 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.expert_groups_by_two = true;
    QR_TRY(const double values, file.meta.get_double_or(prefix + "attention.value_scale", 1e-6, 1e6, 1.0));
    c.value_scale = static_cast<float>(values);
    QR_TRY(const double theta, file.meta.get_double_or(prefix + "rope.freq_base_swa", 1.0, 1e12, kLocalTheta));
    c.rope_local = plain_rope(c.local.n_kv > 0 ? c.local.n_rope : c.n_rope, theta);
    return leave_out_nextn(file, prefix, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    Decoder::load_layer(load, layer);
    if (load.has("attn_sinks.weight")) load.vector(layer.attn.sinks, "attn_sinks.weight", config().n_heads);
  }
};

// Which layers have a window, and heads of keys: those have twice as many. Folders list the kinds of layers, older ones
// say the same by numbers or leave it out.
Status head_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_kv, hf.get_int("num_key_value_heads", 1, 2048));
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  std::vector<int64_t> local;
  for (int64_t l = 0; l < n_layers; ++l) local.push_back(l > 0 && (l + 1) % kPeriod != 0 ? 1 : 0);
  const MetaValue* kinds = hf.find("layer_types");
  const MetaValue* pattern = hf.find("hybrid_layer_pattern");
  if (const auto* list = kinds != nullptr ? std::get_if<std::vector<std::string>>(kinds) : nullptr) {
    local.clear();
    for (const std::string& kind : *list) local.push_back(kind == "sliding_attention" ? 1 : 0);
  } else if (const auto* marks = pattern != nullptr ? std::get_if<std::vector<int64_t>>(pattern) : nullptr) {
    local = *marks;
  }
  if (local.size() != static_cast<size_t>(n_layers)) {
    return fail(Code::corrupt, "key \"layer_types\": must have " + std::to_string(n_layers) + " entries, has " +
                                   std::to_string(local.size()));
  }
  std::vector<int64_t> heads;
  heads.reserve(local.size());
  for (const int64_t is_local : local) heads.push_back(is_local != 0 ? 2 * n_kv : n_kv);
  hf.set("attention.head_count_kv", std::move(heads), "num_key_value_heads");
  hf.set("attention.sliding_window_pattern", std::move(local), "layer_types");
  if (hf.find("sliding_window_size") == nullptr) return {};
  QR_TRY(const int64_t behind, hf.get_int("sliding_window_size", 1, 1 << 29));
  hf.set("attention.sliding_window", behind + 1, "sliding_window_size");  // it does not count the row itself
  return {};
}

// The part of a head that turns, of both kinds of layers.
Status rope_facts(HfFacts& hf) {
  QR_TRY(const int64_t dim, hf.get_int("head_dim", 2, kMaxHeadDim));
  for (const auto& [kind, ours] : {std::pair{"full_attention", "rope.dimension_count"},
                                   std::pair{"sliding_attention", "rope.dimension_count_swa"}}) {
    const std::string theirs = std::string("rope_parameters.") + kind + ".partial_rotary_factor";
    QR_TRY(const double part, hf.get_double_or(theirs, 1e-3, 1.0, kPart));
    hf.set(ours, static_cast<int64_t>(static_cast<double>(dim) * part), theirs);
  }
  QR_TRY_VOID(hf.require("rope_parameters.sliding_attention.rope_type", {"default"}));
  hf.copy({"rope_parameters.sliding_attention.rope_theta", "swa_rope_theta"}, "rope.freq_base_swa");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  hf.copy({"v_head_dim"}, "attention.value_length");
  QR_TRY(const double values, hf.get_double_or("attention_value_scale", 1e-6, 1e6, kValueScale));
  hf.set("attention.value_scale", values, "attention_value_scale");
  hf.set("expert_gating_func", kSigmoids, "scoring_func");
  QR_TRY_VOID(head_facts(hf));
  return rope_facts(hf);
}

QR_REGISTER(ArchEntry,
            "mimo2",
            ArchEntry{.summary = "MiMo-V2 Flash: windows with heads and sinks of their own, experts by sigmoids",
                      .hf = {.model_types = {"mimo_v2_flash"},
                             .tensors = {{"model.layers.{}.self_attn.attention_sink_bias", "blk.{}.attn_sinks.weight"},
                                         {"model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"}},
                             .facts = facts},
                      .load = &load_decoder<MiMo2>,
                      .info = &decoder_info<MiMo2>});

}  // namespace
}  // namespace quire
