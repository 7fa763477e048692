// StableLM 1.6B, 3B and 12B: layer norms, a part of a head turns, possibly parallel parts behind one norm. Norms of
// heads are refused.
#include "model/decoder.h"

namespace quire {
namespace {

class StableLm final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    if (file.find("blk.0.attn_q_norm.weight") != nullptr) {
      return fail(Code::unsupported, "tensor \"blk.0.attn_q_norm.weight\": layer norms of heads are not supported");
    }
    c.norm = NormKind::layer;
    QR_TRY(c.is_parallel, file.meta.get_bool_or(prefix + "use_parallel_residual", false));
    c.is_parallel = c.is_parallel && file.find("blk.0.ffn_norm.weight") == nullptr;
    return {};
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"use_parallel_residual"}, "use_parallel_residual");
  QR_TRY_VOID(hf.require_bool("qk_layernorm", false));
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(ArchEntry,
            "stablelm",
            ArchEntry{.summary = "StableLM: layer norms, partial rotation",
                      .hf = {.model_types = {"stablelm"}, .facts = facts},
                      .load = &load_decoder<StableLm>,
                      .info = &decoder_info<StableLm>});

}  // namespace
}  // namespace quire
