// EAGLE's heads: one decoder layer that tells from hidden states of a model, and from the token that came, the next
// tokens one after the other. Of EAGLE-3 (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language
// Models via Training-Time Test") it reads states from behind several layers and has a vocabulary of its own; of EAGLE
// (Li et al. 2024, "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty"), whose head EAGLE-2 has too,
// it reads those behind the model's last norm, tells what will stand there next, and the model's own product makes
// tokens of it. A folder as it is published beside the model that it was trained for: config.json, of EAGLE-3 with
// "draft_vocab_size", and model.safetensors. Constant once it is loaded; the pass over it is eagle_pass.h.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  std::optional<Linear> embedding;  // of its own; none: the model's
  // EAGLE-3: taps · n_embd → n_embd, of the model's states; the layer then reads token | state. Of the first form,
  // which joins: 2 · n_embd → n_embd, of token | state, and the layer reads and adds to that.
  std::vector<Linear> fc;
  bool joins = false;
  Tensor model_norm;  // [n_embd]: the model's last one, of the states that a head reads which joins
  float model_norm_eps = 0.0F;
  Tensor token_norm, state_norm;      // [n_embd]: of the token's embedding, of the state before; none where it joins
  std::vector<Linear> qkv, attn_out;  // (joins ? 1 : 2) · n_embd → q | k | v; → n_embd
  Tensor ffn_norm;                    // [n_embd]
  std::vector<Linear> gate_up, down;  // n_embd → n_ff | n_ff; → n_embd
  Tensor out_norm;                    // [n_embd]; none where it joins
  std::vector<Linear> out;            // n_embd → n_draft; of a head that joins maybe the model's
  std::vector<Token> tokens;          // of each output the model's token; n_draft of them
  AttnParams attn;
  KvLayout kv_layout;  // of the layer alone
  Rope rope;
  int64_t weight_bytes = 0;  // matrices and norms, in the formats that were loaded
  int n_draft() const { return static_cast<int>(tokens.size()); }
};

// The tokens that outputs of a head stand for, of its tensor "d2t": I64, of output i how far its token lies behind i.
// Code::corrupt for one that is none of the n_vocab of that model, which the error calls `whose`. Any thread.
Result<std::vector<Token>> tokens_of_offsets(std::span<const std::byte> d2t, int n_vocab, std::string_view whose);

// Whether `folder` has such a head: a config.json with "draft_vocab_size", or of one layer beside weights with
// "fc.weight", or beside a pickle, which may have it.
bool is_eagle_folder(const std::string& folder);
// Bytes of its weights' file; no number of it is read. Errors as load_eagle's.
Result<int64_t> eagle_bytes(const std::string& folder);
// The model that a head is for.
struct EagleTarget {
  const ModelInfo& info;
  // Where it comes from, and how: a head of the first form has its last norm, and, where the head's folder has no
  // "lm_head.weight", its product over the vocabulary once more. Null: only heads of EAGLE-3 can be read.
  // Where how->weights is a format, the head's matrices are converted to it, too, where they get smaller.
  const ModelFile* file = nullptr;
  const LoadOptions* how = nullptr;
};
// Reads `folder`, whose head must be of the model's n_embd and vocabulary. `ops` will compute it and keeps its weights.
// Errors begin with the folder and name file, key or tensor, what is wanted and what was found: Code::corrupt,
// Code::not_found, or Code::unsupported for another kind of file, a tensor that a head does not have, or a dtype.
Result<std::unique_ptr<EagleHead>> load_eagle(const std::string& folder, const EagleTarget& model, Ops& ops);

}  // namespace quire
