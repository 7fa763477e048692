// How long a request took, in the form of llama.cpp's server.
#pragma once
#include <chrono>
#include <cstdint>

#include "base/json.h"
#include "serve/reply_writer.h"

namespace quire {

// {"cache_n","prompt_n","prompt_ms","prompt_per_token_ms","prompt_per_second","predicted_n",…}. The first token comes
// with the prompt's last step, so the rate of what is predicted is that of the others.
Json timings_of(const UsageTotals& usage);

// The same of an answer that is being made. Io thread, from the writer's making on.
class RunningTimings {
 public:
  void begin(int64_t n_prompt);  // the first that is heard of the request
  // The prompt is so far; nothing of the answer is there.
  Json of_prompt(const PromptProgress& progress);
  Json so_far(int64_t n_tokens);
  // {"total","cache","processed","time_ms"}
  Json progress(const PromptProgress& progress) const;

 private:
  using Clock = std::chrono::steady_clock;
  int64_t since(Clock::time_point from) const;

  Clock::time_point began_ = Clock::now(), first_{};  // first_: of the answer
  int64_t n_prompt_ = 0, n_cached_ = 0;
};

}  // namespace quire
