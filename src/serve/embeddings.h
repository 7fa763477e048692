// What the dialects of embeddings share: reading inputs, and a vector for each of them in each dialect's form.
#pragma once
#include <string_view>

#include "serve/api.h"

namespace quire {

struct EmbeddingForm {
  // {"data":[{"embedding":[…]}]}; {"embeddings":[[…]]} and {"embedding":[…]} of Ollama's two endpoints;
  // [{"index":0,"embedding":[[…]]}] of llama.cpp.
  enum class Json : uint8_t { openai, ollama, ollama_one, llama };
  Json json = Json::openai;
  bool base64 = false;  // of little-endian floats, instead of a list
  bool normalize = true;
  int64_t n_embd = 0;  // above 0: a vector for each token, each of so many numbers. llama.cpp's form only
};

// How inputs become tokens.
struct InputReader {
  const EncodeOptions& options;
  const Reading& reading;
  const ServeEnv& env;
};

// A job's beginning, without inputs. Refuses where the model gives no vectors, or none of the length that the field
// "dimensions" asks for.
ApiResult<Job> begin_embedding(const ApiRequest& request, std::string_view model, const ServeEnv& env);
// A string, a list with ids in it, an object {"prompt_string"} or {"content":[{"type":"text","text"}]}, or a list of
// such, each into a prompt of the job; texts and ids in one list are one prompt. `input` may be null.
ApiResult<void> add_inputs(const Json* input, const std::string& path, const InputReader& reader, Job& job);
// REQUIRES a generation and prompts that came from the field `prompt_field`.
Call embedding_job(Job&& job, Pool pool, const EmbeddingForm& form, const ServeEnv& env);

}  // namespace quire
