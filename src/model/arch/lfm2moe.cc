// LFM2 with experts by sigmoids, with a bias of the choice; dense first layers.
#include "model/arch/lfm2.h"

namespace quire {
namespace {

class Lfm2Moe final : public Lfm2 {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.routing.scoring = Routing::Scoring::sigmoid;
    return Lfm2::configure(file, prefix, c);
  }
};

QR_REGISTER(ArchEntry,
            "lfm2moe",
            ArchEntry{.summary = "LFM2 with experts by sigmoids",
                      .hf = {.model_types = {"lfm2_moe"},
                             .tensors = lfm2_tensors(
                                 {{"model.layers.{}.feed_forward.gate.weight", "blk.{}.ffn_gate_inp.weight"},
                                  {"model.layers.{}.feed_forward.expert_bias", "blk.{}.exp_probs_b.bias"},
                                  {"model.layers.{}.feed_forward.experts.{}.w1.weight", "blk.{}.ffn_gate.{}.weight"},
                                  {"model.layers.{}.feed_forward.experts.{}.w3.weight", "blk.{}.ffn_up.{}.weight"},
                                  {"model.layers.{}.feed_forward.experts.{}.w2.weight", "blk.{}.ffn_down.{}.weight"}}),
                             .facts = lfm2_facts,
                             .state_layers = {"conv"}},
                      .load = &load_decoder<Lfm2Moe>,
                      .info = &decoder_info<Lfm2Moe>});

}  // namespace
}  // namespace quire
