// Medusa's heads: small networks that tell from one hidden state of a model not its next token but those behind it
// (Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads"). A folder as it
// is published beside the model that it was trained for: config.json and medusa_lm_head.safetensors, in which head i
// has the blocks "i.j.linear.weight" and ".bias", x + SiLU(W·x + b), and behind them "i.<blocks>.weight" over the
// vocabulary. Constant once it is loaded.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "ops/ops.h"

namespace quire {

inline constexpr int kMostMedusaHeads = 64, kMostMedusaBlocks = 16;

struct MedusaHeads {
  std::vector<std::vector<Linear>> blocks;  // by block, then by head: n_embd → n_embd, with a bias
  std::vector<Linear> out;                  // by head: n_embd → n_vocab
  int64_t weight_bytes = 0;                 // in the formats that were loaded
  int n_heads() const { return static_cast<int>(out.size()); }
};

// Whether `folder` says that it has such heads: it has a config.json with "medusa_num_heads".
bool is_medusa_folder(const std::string& folder);
// Bytes of its weights' file; no number of it is read. Errors as load_medusa's.
Result<int64_t> medusa_bytes(const std::string& folder);
// Reads `folder`, whose heads must be of `model`'s n_embd and vocabulary, as many as its file has: published folders
// say less in "medusa_num_heads". `ops` will compute them and keeps their weights. Errors begin with the folder and
// name file, key or tensor, what is wanted and what was found: Code::corrupt, Code::not_found, or Code::unsupported for
// another kind of file, a tensor that heads do not have, or a dtype.
// Matrices are converted to `as` where they fit it and get smaller (fitting_format); null: they stay as they are.
Result<std::unique_ptr<MedusaHeads>> load_medusa(const std::string& folder,
                                                 const ModelInfo& model,
                                                 Ops& ops,
                                                 const WeightFormat* as = nullptr);

}  // namespace quire
