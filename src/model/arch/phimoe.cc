// Phi-3.5 MoE: layer norms, two experts of a row by SparseMixer (model/step_tables.h), longrope whose magnitudes the
// file names.
#include "model/decoder.h"

namespace quire {
namespace {

constexpr double kJitter = 0.01;  // where the file does not say
constexpr const char* kJitterKey = "expert_jitter";

class PhiMoe final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.norm = NormKind::layer;
    QR_TRY(const double jitter, file.meta.get_double_or(prefix + kJitterKey, 1e-6, 1.0, kJitter));
    c.jitter = static_cast<float>(jitter);
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.normalised = false;
    if (c.routing.n_used == 2) return {};
    return fail(Code::unsupported, "key " + file.meta.shown(prefix + "expert_used_count") +
                                       ": only 2 is supported, is " + std::to_string(c.routing.n_used));
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"router_jitter_noise"}, kJitterKey);
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(
    ArchEntry,
    "phimoe",
    ArchEntry{
        .summary = "Phi-3.5 MoE: layer norms, two experts by SparseMixer",
        .hf = {.model_types = {"phimoe"},
               .tensors = {{"lm_head.bias", "output.bias"},
                           {"model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w1.weight", "blk.{}.ffn_gate.{}.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w3.weight", "blk.{}.ffn_up.{}.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w2.weight", "blk.{}.ffn_down.{}.weight"}},
               .facts = facts},
        .load = &load_decoder<PhiMoe>,
        .info = &decoder_info<PhiMoe>});

}  // namespace
}  // namespace quire
