// LoRA adapters as llama.cpp's converter writes them: a GGUF file of type "adapter", whose tensors are NAME.lora_a
// [rank, n_in] and NAME.lora_b [n_out, rank] of the model's tensors NAME ("blk.0.attn_q.weight"), rows as GGUF has
// them. Of the embedding, which is looked up, "token_embd.weight.lora_a" is [n_vocab, rank], one row a token, and
// lora_b [n_embd, rank].
#pragma once
#include <memory>
#include <string>

#include "model/base_rows.h"
#include "model/model.h"
#include "ops/ops.h"

namespace quire {

// Reads the file for a model of this shape, as load_lora does a folder. REQUIRES a model that takes adapters. Errors
// name key or tensor, what is wanted and what was found, not the file.
Result<std::shared_ptr<const Adapter>> read_gguf_lora(
    const std::string& path, const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes);

}  // namespace quire
