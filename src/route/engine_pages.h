// What is told of local engines, in the words of those who ask: OpenAI's list of models with llama.cpp's status beside
// it, and Ollama's lists of what is here and what is loaded. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "route/local_engines.h"

namespace quire {

// Entries of /v1/models: the local ones, as their engine lists them where it runs, then the rest of `listed`.
Json::Array model_entries(const std::vector<LocalModelState>& local, Json::Array listed);

// Entries of /api/tags, and of /api/ps: those that are loaded, and until when. `now_s`: since 1970.
Json::Array tag_entries(const std::vector<LocalModelState>& local);
Json::Array ps_entries(const std::vector<LocalModelState>& local, int64_t now_s);

}  // namespace quire
