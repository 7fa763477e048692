// What a worker says itself that it has to do, whoever gave it: requests that run and requests that wait. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

struct WorkerWord {
  int64_t n_running = 0, n_waiting = 0;
  int64_t n() const { return n_running + n_waiting; }
  bool operator==(const WorkerWord&) const = default;
};

inline constexpr int64_t kMostSaidRequests = 1'000'000;  // a larger number is no worker's

// Of the body of `quire serve`'s GET /load. Nullopt: it says no such numbers.
std::optional<WorkerWord> word_of_load(std::string_view body);
// Of a page of metrics in Prometheus's text form, of vLLM, SGLang, llama.cpp's server or TGI; where a name stands there
// several times, by engine or by model, their sum. Nullopt: no name that is known, or a value that is no such number.
std::optional<WorkerWord> word_of_metrics(std::string_view text);

}  // namespace quire
