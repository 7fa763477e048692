// Mistral 4: DeepSeek's latent attention, whose queries grow with their position, and experts by softmaxes beside a
// shared one.
#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {
namespace {

class Mistral4 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.rope_pairs = RopePairs::interleaved;
    c.routing.expert_groups_by_two = c.routing.n_expert_groups > 1;
    QR_TRY(c.query_scale.by, file.meta.get_double_or(prefix + "attention.temperature_scale", 0.0, 1e3, 0.0));
    QR_TRY(c.query_scale.length,
           file.meta.get_int_or(prefix + "rope.scaling.original_context_length", 1, int64_t{1} << 28, c.n_ctx));
    return {};
  }
  bool takes_latent() const override { return true; }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  QR_TRY_VOID(hf.require_bool("rope_interleave", true));
  hf.copy({"rope_parameters.llama_4_scaling_beta"}, "attention.temperature_scale");
  return translate_latent(hf, LatentForm::cut);
}

std::vector<NameRule> names() {
  std::vector<NameRule> out = latent_names(LatentForm::cut);
  constexpr std::string_view kGateUp = "model.layers.{}.mlp.experts.gate_up_proj";
  out.push_back({.theirs = kGateUp, .ours = "blk.{}.ffn_gate_exps.weight", .reshape = first_rows});
  out.push_back({.theirs = kGateUp, .ours = "blk.{}.ffn_up_exps.weight", .reshape = last_rows});
  out.push_back({"model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight"});
  return out;
}

QR_REGISTER(ArchEntry,
            "mistral4",
            ArchEntry{.summary = "Mistral 4: latent attention, queries that grow with their position, experts",
                      .hf = {.model_types = {"mistral4"}, .tensors = names(), .facts = facts},
                      .load = &load_decoder<Mistral4>,
                      .info = &decoder_info<Mistral4>});

}  // namespace
}  // namespace quire
