// What is told of local engines, in the words of those who ask: OpenAI's list of models with llama.cpp's status beside
// it, and Ollama's lists of what is here and what is loaded, and what it shows of one. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "route/local_engines.h"

namespace quire {

// Entries of /v1/models: the local ones, as their engine lists them where it runs, then the rest of `listed`. A model
// whose file is gone is left out, also while its engine still runs and lists it.
Json::Array model_entries(const std::vector<LocalModelState>& local, Json::Array listed);

// Entries of /api/tags, and of /api/ps: those that are loaded, and until when. `now_s`: since 1970.
Json::Array tag_entries(const std::vector<LocalModelState>& local);
Json::Array ps_entries(const std::vector<LocalModelState>& local, int64_t now_s);

// What /api/show says of it, its file's words where they are known.
std::string show_page(const LocalModelState& model);

}  // namespace quire
