// What the files of Ollama's dialect share.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/model_card.h"

namespace quire {

// "name" and "name:latest" are one model to this dialect's clients.
std::string_view plain_name(std::string_view name);

// "details" and what they are, as a member of a JSON object.
void append_ollama_details(std::string& out, const ModelCard& card);

// What /api/show answers. `chat`: the source of the chat template; `n_ctx`: 0: not known.
std::string ollama_show(const ModelCard& card, std::string_view chat, int64_t n_ctx, bool takes_tools);

}  // namespace quire
