// What Cohere's models share.
#pragma once
#include "model/decoder.h"

namespace quire {

inline Status configure_cohere(const ModelFile& file, const std::string& prefix, DecoderConfig& c) {
  if (file.find("blk.0.attn_q_norm.weight") != nullptr) {
    return fail(Code::unsupported, "tensor \"blk.0.attn_q_norm.weight\": layer norms of heads are not supported");
  }
  QR_TRY(const double logits, file.meta.get_double_or(prefix + "logit_scale", 1e-6, 1e6, 1.0));
  c.logit_scale = static_cast<float>(logits);
  c.norm = NormKind::layer;
  c.is_parallel = true;
  c.rope_pairs = RopePairs::interleaved;
  return {};
}

inline Status cohere_facts(HfFacts& hf) {
  hf.copy({"logit_scale"}, "logit_scale");
  return hf.require("hidden_act", {"silu"});
}

}  // namespace quire
