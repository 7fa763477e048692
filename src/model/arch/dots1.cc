// dots.llm1: Qwen 3's attention with DeepSeek's experts: sigmoids, a bias of the choice, groups, a shared unit, dense
// first layers.
#include "model/decoder.h"

namespace quire {
namespace {

class Dots1 final : public NormedHeads {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.expert_groups_by_two = true;
    return {};
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(ArchEntry,
            "dots1",
            ArchEntry{.summary = "dots.llm1: norms on heads, experts by sigmoids, a shared one",
                      .hf = {.model_types = {"dots1"},
                             .tensors = {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                         {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}},
                             .facts = facts},
                      .load = &load_decoder<Dots1>,
                      .info = &decoder_info<Dots1>});

}  // namespace
}  // namespace quire
