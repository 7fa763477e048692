// Mamba and Falcon Mamba, which GGUF has under one name: layers that keep a state, with steps of each column's own, and
// have nothing else. Falcon Mamba has norms without weights within them.
#include "model/arch/mamba.h"

#include "model/arch/states_alone.h"

namespace quire {
namespace {

class Mamba final : public StatesAlone {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(check_no_heads(file, prefix, c));
    return read_column_config(file, prefix, c);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(states_alone_facts(hf));
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
