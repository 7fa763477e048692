// Metrics under the names of llama.cpp's server.
#pragma once
#include <string>

#include "engine/snapshot.h"

namespace quire {

// Lines of Prometheus' text format, "llamacpp:…".
std::string llama_lines(const EngineStats& stats, int64_t n_tokens_max);

}  // namespace quire
