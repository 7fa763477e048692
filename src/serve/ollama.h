// What the files of Ollama's dialect share.
#pragma once
#include <string_view>

namespace quire {

// "name" and "name:latest" are one model to this dialect's clients.
std::string_view plain_name(std::string_view name);

}  // namespace quire
