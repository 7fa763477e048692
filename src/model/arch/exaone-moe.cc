// K-EXAONE: EXAONE 4's attention behind norms in front of the parts, with DeepSeek's experts: sigmoids, a bias of the
// choice, groups, a shared unit, dense first layers. Layers that guess ahead (nextn) stand behind the others and are
// left out.
#include "model/decoder.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;  // of local and global layers

class ExaoneMoe final : public NormedHeads {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.expert_groups_by_two = true;
    QR_TRY_VOID(read_windows(file, kPeriod, c));
    c.is_still = c.is_local;
    c.is_still.flip();
    return leave_out_nextn(file, prefix, c);
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"num_shared_experts"}, "expert_shared_count");
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(ArchEntry,
            "exaone-moe",
            ArchEntry{.summary = "K-EXAONE: EXAONE 4's attention, experts by sigmoids, a shared one",
                      .hf = {.model_types = {"exaone_moe"},
                             .tensors = {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                         {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
                                         {"model.layers.{}.mlp.e_score_correction_bias", "blk.{}.exp_probs_b.bias"}},
                             .facts = facts},
                      .load = &load_decoder<ExaoneMoe>,
                      .info = &decoder_info<ExaoneMoe>});

}  // namespace
}  // namespace quire
