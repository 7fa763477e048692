// Mamba and Falcon Mamba, which GGUF has under one name: layers that keep a state, with steps of each column's own, and
// have nothing else. Falcon Mamba has norms without weights within them.
#include "model/arch/mamba.h"

namespace quire {
namespace {

constexpr int64_t kPositions = 1 << 20;  // configurations name none: a state takes a sequence of any length

class Mamba final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    if (c.n_heads == 0) return read_column_config(file, prefix, c);
    return fail(Code::unsupported, "key " + file.meta.shown(prefix + "attention.head_count") + ": must be 0, is " +
                                       std::to_string(c.n_heads));
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load.vector(layer.attn_norm, "attn_norm.weight", config().n_embd);
    load_mixers(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu", "swish"}));
  hf.set("attention.head_count", int64_t{0}, "num_attention_heads");
  hf.set("feed_forward_length", int64_t{0}, "intermediate_size");
  hf.set("context_length", kPositions, "max_position_embeddings");
  hf.copy({"layer_norm_epsilon"}, "attention.layer_norm_rms_epsilon");
  const MetaValue* kind = hf.find("model_type");
  if (kind != nullptr && *kind == MetaValue(std::string("falcon_mamba"))) {
    hf.set("ssm.dt_b_c_rms", true, "model_type");
    hf.set(kPartEpsilon, 1e-6, "mixer_rms_eps");
    if (hf.find("mixer_rms_eps") != nullptr) hf.copy({"mixer_rms_eps"}, kPartEpsilon);
  }
  return mamba_facts(hf, {"conv_kernel", "state_size", "time_step_rank", "expand", "intermediate_size"});
}

QR_REGISTER(ArchEntry,
            "mamba",
            ArchEntry{.summary = "Mamba and Falcon Mamba: states alone, with steps of columns",
                      .hf = {.model_types = {"mamba", "falcon_mamba"},
                             .tensors = mamba_tensors(kMambaAlone,
                                                      {{"backbone.embeddings.weight", "token_embd.weight"},
                                                       {"backbone.norm_f.weight", "output_norm.weight"},
                                                       {"backbone.layers.{}.norm.weight", "blk.{}.attn_norm.weight"}}),
                             .facts = facts,
                             .lists_parts = true},
                      .load = &load_decoder<Mamba>,
                      .info = &decoder_info<Mamba>});

}  // namespace
}  // namespace quire
