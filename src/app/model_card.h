// What a model's file says of it to those who ask, without loading it. Reads the file's head, and its tokenizer.
#pragma once
#include <string>

#include "app/wire.h"
#include "serve/model_card.h"

namespace quire {

// Empty where it cannot be read. Without what only a loaded model knows: n_embd and digest.
ModelCard model_card(const std::string& path);
// With both.
ModelCard model_card(const LoadedModel& loaded);

// What Ollama's /api/show answers of it, JSON; empty where it cannot be read.
std::string shown_model(const std::string& path);

}  // namespace quire
