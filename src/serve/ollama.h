// What the files of Ollama's dialect share.
#pragma once
#include <string>
#include <string_view>

#include "http/message.h"

namespace quire {

// The body of a refusal: {"error":"…"}.
std::string ollama_error(const HttpError& error);
// "name" and "name:latest" are one model to this dialect's clients.
std::string_view plain_name(std::string_view name);

}  // namespace quire
