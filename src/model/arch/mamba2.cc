// Mamba 2: layers that keep a state and have nothing else.
#include "model/arch/mamba2.h"

namespace quire {
namespace {

constexpr int64_t kPositions = 1 << 20;  // configurations name none: a state takes a sequence of any length

class Mamba2 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    if (c.n_heads == 0) return read_state_config(file, prefix, c);
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
  return mamba2_facts(hf, {"conv_kernel", "state_size", "num_heads", "head_dim", "n_groups"});
}

QR_REGISTER(ArchEntry,
            "mamba2",
            ArchEntry{
                .summary = "Mamba 2: states alone",
                .hf = {.model_types = {"mamba2"}, .tensors = mamba2_tensors({}), .facts = facts, .lists_parts = true},
                .load = &load_decoder<Mamba2>,
                .info = &decoder_info<Mamba2>});

}  // namespace
}  // namespace quire
