// DeepSeek V2 and V3, and what shares their shape (Kimi K2, GLM 4.7 Flash): latent attention, experts of which those of
// the best groups are chosen from, shared ones beside them, dense first layers. V2's shares are softmaxes, V3's
// sigmoids with a bias of the choice. Layers that guess ahead (nextn) stand behind the others and are left out
// (model/mtp.h).
#include "model/decoder.h"
#include "model/mtp.h"

namespace quire {
namespace {

constexpr int64_t kSigmoids = 2;  // GGUF's number

class DeepSeek2 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.rope_pairs = RopePairs::interleaved;
    c.routing.expert_groups_by_two = c.routing.scoring == Routing::Scoring::sigmoid;
    QR_TRY(c.routing.normalised, file.meta.get_bool_or(prefix + "expert_weights_norm", false));
    return leave_out_nextn(file, prefix, c);
  }
  bool takes_latent() const override { return true; }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  QR_TRY_VOID(hf.require_bool("rope_interleave", true));
  QR_TRY_VOID(translate_latent(hf, LatentForm::cut));
  QR_TRY_VOID(take_mtp_layers(hf));
  const MetaValue* type = hf.find("model_type");
  if (type != nullptr && *type == MetaValue(std::string("deepseek_v2"))) {
    QR_TRY_VOID(hf.require("topk_method", {"greedy", "group_limited_greedy"}));
    QR_TRY_VOID(hf.require("scoring_func", {"softmax"}));
    QR_TRY_VOID(hf.require_bool("norm_topk_prob", false));
    const MetaValue* method = hf.find("topk_method");
    const bool of_groups = method != nullptr && *method == MetaValue(std::string("group_limited_greedy"));
    if (!of_groups) hf.set("expert_group_count", int64_t{1}, "n_group");
    if (!of_groups) hf.set("expert_group_used_count", int64_t{1}, "topk_group");
    return {};
  }
  QR_TRY_VOID(hf.require("topk_method", {"noaux_tc"}));
  QR_TRY_VOID(hf.require("scoring_func", {"sigmoid"}));
  hf.set("expert_gating_func", kSigmoids, "scoring_func");
  if (hf.find("norm_topk_prob") == nullptr) hf.set("expert_weights_norm", true, "norm_topk_prob");
  return {};
}

QR_REGISTER(ArchEntry,
            "deepseek2",
            ArchEntry{.summary = "DeepSeek V2 and V3: latent attention, experts in groups, shared ones",
                      .hf = {.model_types = {"deepseek_v2", "deepseek_v3", "kimi_k2", "kimi_k25", "glm4_moe_lite"},
                             .tensors = latent_names(LatentForm::cut),
                             .facts = facts},
                      .load = &load_decoder<DeepSeek2>,
                      .info = &decoder_info<DeepSeek2>});

}  // namespace
}  // namespace quire
