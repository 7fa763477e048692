// LoRA adapters, as PEFT saves them or as GGUF files: to weights of attention and of dense feed-forward units B·A of
// low rank is added. They may be loaded while the model computes, and go when the last row that has them is done.
#pragma once
#include <memory>
#include <string>

#include "model/base_rows.h"
#include "model/model.h"
#include "ops/ops.h"

namespace quire {

// Reads `path`, a folder with adapter_config.json and adapter_model.safetensors or a GGUF file (model/lora_gguf.h),
// made for a model of this shape, whose `ops` will compute it; at most `most_bytes` of matrices as floats. `base` is
// where the model came from, whose rows DoRA is loaded with. Any thread.
// Errors begin with the path and name file, key or tensor, what is wanted and what was found: Code::corrupt,
// Code::exhausted where there is no room, or Code::unsupported for what is another kind of adapter, an unknown key,
// tensor or dtype.
Result<std::shared_ptr<const Adapter>> load_lora(
    const std::string& path, const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes);

}  // namespace quire
