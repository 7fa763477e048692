// EAGLE-3's head: one decoder layer that tells from hidden states of a model, and from the token that came, the next
// tokens one after the other (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via
// Training-Time Test"). A folder as it is published beside the model that it was trained for: config.json with
// "draft_vocab_size", and model.safetensors. Constant once it is loaded; the pass over it is eagle_pass.h.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv/layout.h"
#include "model/model.h"
#include "model/rope.h"
#include "ops/ops.h"

namespace quire {

struct EagleHead {
  std::vector<int> taps;     // behind so many layers of the model its states are read; ascending
  int n_embd = 0, n_ff = 0;  // of the model and the head
  float norm_eps = 0.0F;
  std::optional<Linear> embedding;    // of its own; none: the model's
  std::vector<Linear> fc;             // taps · n_embd → n_embd
  Tensor token_norm, state_norm;      // [n_embd]: of the token's embedding, of the state before
  std::vector<Linear> qkv, attn_out;  // 2 · n_embd → q | k | v; → n_embd
  Tensor ffn_norm;                    // [n_embd]
  std::vector<Linear> gate_up, down;  // n_embd → n_ff | n_ff; → n_embd
  Tensor out_norm;                    // [n_embd]
  std::vector<Linear> out;            // n_embd → n_draft
  std::vector<Token> tokens;          // of each output the model's token; n_draft of them
  AttnParams attn;
  KvLayout kv_layout;  // of the layer alone
  Rope rope;
  int64_t weight_bytes = 0;  // matrices and norms, as the file has them
  int n_draft() const { return static_cast<int>(tokens.size()); }
};

// Whether `folder` says that it has such a head: it has a config.json with "draft_vocab_size".
bool is_eagle_folder(const std::string& folder);
// Bytes of its weights' file; no number of it is read. Errors as load_eagle's.
Result<int64_t> eagle_bytes(const std::string& folder);
// Reads `folder`, whose head must be of `model`'s n_embd and vocabulary. `ops` will compute it and keeps its weights.
// Errors begin with the folder and name file, key or tensor, what is wanted and what was found: Code::corrupt,
// Code::not_found, or Code::unsupported for another kind of file, a tensor that a head does not have, or a dtype.
Result<std::unique_ptr<EagleHead>> load_eagle(const std::string& folder, const ModelInfo& model, Ops& ops);

}  // namespace quire
