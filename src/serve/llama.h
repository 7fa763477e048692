// What llama.cpp's own endpoints share (/completion, /infill): their fields beside those of every dialect, and their
// answers.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/api.h"

namespace quire {

// Beside sampling_fields(). What would make an answer depend on time (t_max_predict_ms) is taken and not kept, and the
// client is told; so are n_indent and the sampler "infill".
std::span<const Field> llama_fields();

struct LlamaCommon {
  bool timings = false;                                     // in each event of a stream
  bool drawn = false;                                       // probabilities are of what was drawn from
  bool tokens = false;                                      // ids in a whole answer; a stream has them anyway
  std::optional<std::vector<std::string>> response_fields;  // "content", "timings/prompt_ms": all that is answered
};
// REQUIRES args checked with llama_fields(), sampling_fields() and handover_fields(). A job with everything but its
// prompts and writer.
ApiResult<Job> begin_llama(const ApiRequest& request, const ServeEnv& env, LlamaCommon& common);
// {"prompt","tokens_evaluated","generation_settings"}: what of the job is computed, the prompt with all of its control
// tokens. REQUIRES one prompt.
std::string llama_verbose(const ServeEnv& env, const Job& job);
// Gives the job its writer. REQUIRES its prompts.
void add_llama_writer(const ServeEnv& env, LlamaCommon common, Job& job);

}  // namespace quire
