// Hunyuan A13B: experts by a softmax and a shared unit beside them.
#include "model/arch/hunyuan.h"

namespace quire {
namespace {

class HunyuanMoe final : public Hunyuan {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(Hunyuan::configure(file, prefix, c));
    if (c.n_ff_shared == 0) c.n_ff_shared = c.n_ff;
    return {};
  }
};

// A number, or a list of one for each layer: all of them the same.
Status one_number(HfFacts& hf, std::string_view theirs, std::string_view ours) {
  const MetaValue* value = hf.find(theirs);
  const auto* list = value != nullptr ? std::get_if<std::vector<int64_t>>(value) : nullptr;
  if (list == nullptr) {
    hf.copy({theirs}, ours);
    return {};
  }
  for (const int64_t one : *list) {
    if (one != list->front()) {
      return fail(Code::unsupported, "key \"" + std::string(theirs) + "\": must be the same in all layers, has " +
                                         std::to_string(list->front()) + " and " + std::to_string(one));
    }
  }
  if (!list->empty()) hf.set(ours, list->front(), theirs);
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(one_number(hf, "num_experts", "expert_count"));
  QR_TRY_VOID(one_number(hf, "moe_topk", "expert_used_count"));
  QR_TRY_VOID(hf.require_bool("use_mixed_mlp_moe", true));
  hf.copy({"intermediate_size"}, "expert_feed_forward_length");
  hf.copy({"intermediate_size"}, "expert_shared_feed_forward_length");
  return hunyuan_facts(hf);
}

QR_REGISTER(ArchEntry,
            "hunyuan-moe",
            ArchEntry{.summary = "Hunyuan with experts and a shared one",
                      .hf = {.model_types = {"hunyuan_v1_moe"},
                             .tensors = hunyuan_tensors(
                                 {{"model.layers.{}.mlp.gate.wg.weight", "blk.{}.ffn_gate_inp.weight"},
                                  {"model.layers.{}.mlp.shared_mlp.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight"},
                                  {"model.layers.{}.mlp.shared_mlp.up_proj.weight", "blk.{}.ffn_up_shexp.weight"},
                                  {"model.layers.{}.mlp.shared_mlp.down_proj.weight", "blk.{}.ffn_down_shexp.weight"}}),
                             .facts = facts},
                      .load = &load_decoder<HunyuanMoe>,
                      .info = &decoder_info<HunyuanMoe>});

}  // namespace
}  // namespace quire
