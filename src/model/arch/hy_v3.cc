// Hunyuan 3 (Hy3): Qwen 3's attention, experts by sigmoids with a bias of the choice, a shared unit, dense first
// layers. Layers that guess ahead (nextn) stand behind the others and are left out (model/mtp.h).
#include "model/decoder.h"
#include "model/mtp.h"

namespace quire {
namespace {

class HyV3 final : public NormedHeads {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.normalised = true;
    return leave_out_nextn(file, prefix, c);
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"num_shared_experts"}, "expert_shared_count");
  hf.copy({"router_scaling_factor"}, "expert_weights_scale");
  QR_TRY_VOID(take_mtp_layers(hf));
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(ArchEntry,
            "hy_v3",
            ArchEntry{
                .summary = "Hunyuan 3: norms on heads, experts by sigmoids, a shared one",
                .no_gguf = "unknown to gguf 0.19.0; files that say this name open",
                .hf = {.model_types = {"hy_v3"},
                       .tensors = {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                   {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
                                   {"model.layers.{}.final_layernorm.weight", "blk.{}.nextn.shared_head_norm.weight"},
                                   {"model.layers.{}.mlp.router.gate.weight", "blk.{}.ffn_gate_inp.weight"},
                                   {"model.layers.{}.mlp.expert_bias", "blk.{}.exp_probs_b.bias"},
                                   {"model.layers.{}.mlp.shared_mlp.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight"},
                                   {"model.layers.{}.mlp.shared_mlp.up_proj.weight", "blk.{}.ffn_up_shexp.weight"},
                                   {"model.layers.{}.mlp.shared_mlp.down_proj.weight", "blk.{}.ffn_down_shexp.weight"}},
                       .facts = facts},
                .load = &load_decoder<HyV3>,
                .info = &decoder_info<HyV3>});

}  // namespace
}  // namespace quire
