// What Qwen 3's models share, dense or with experts: Llama's shape with a norm over each head of q and k before they
// turn.
#pragma once
#include "model/decoder.h"

namespace quire {

inline Status qwen3_facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  return hf.choose_windows();
}

inline ArchEntry qwen3_entry(std::string_view summary, std::string_view model_type) {
  return {.summary = summary,
          .hf = {.model_types = {model_type},
                 .tensors = {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                             {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}},
                 .facts = qwen3_facts},
          .load = &load_decoder<NormedHeads>,
          .info = &decoder_info<NormedHeads>};
}

}  // namespace quire
