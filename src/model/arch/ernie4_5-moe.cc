// ERNIE 4.5 with experts: a softmax whose choice has a bias, a shared unit, dense first layers, pairs side by side.
#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {
namespace {

class ErnieMoe final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.rope_pairs = RopePairs::interleaved;
    c.routing.normalised = true;
    return {};
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"moe_num_experts"}, "expert_count");
  hf.copy({"moe_k"}, "expert_used_count");
  hf.copy({"moe_num_shared_experts"}, "expert_shared_count");
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(ArchEntry,
            "ernie4_5-moe",
            ArchEntry{.summary = "ERNIE 4.5 with experts and shared ones",
                      .hf = {.model_types = {"ernie4_5_moe"},
                             .tensors = {{.theirs = "model.layers.{}.mlp.moe_statics.e_score_correction_bias",
                                          .ours = "blk.{}.exp_probs_b.bias",
                                          .reshape = flattened}},
                             .facts = facts},
                      .load = &load_decoder<ErnieMoe>,
                      .info = &decoder_info<ErnieMoe>});

}  // namespace
}  // namespace quire
