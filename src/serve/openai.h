// What OpenAI's generating endpoints share: reading the common fields, and writing chunks and whole answers around the
// part in which they differ. A chunk is a prefix built once per request, the delta, and a fixed tail.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "serve/api.h"
#include "serve/timings.h"

namespace quire {

// Common fields into `job`: generation, seed, stream, warnings.
struct OpenaiCommon {
  bool include_usage = false;
  bool continuous_usage = false;  // each chunk says how many tokens there are so far
  bool timings = false;           // llama.cpp's: how long it takes, in each chunk and in the answer
  bool accepted = false;          // each choice says which of its tokens were guessed
  std::string verbose{};          // JSON that the answer shows as "__verbose"; empty: nothing is
};
ApiResult<OpenaiCommon> read_openai(const ApiRequest& request, const ServeEnv& env, Job& job);
// What a model's name asks for beside the model: the name of a learned prefix or of an adapter, behind a model's name
// and ':', or of an adapter alone.
struct AskedModel {
  const ServedPrefix* prefix = nullptr;
  std::shared_ptr<const Adapter> adapter;
  std::string adapter_name;
};
// 404 for another model's name with strict_model, otherwise a warning; nothing for our own.
ApiResult<AskedModel> check_model(std::string_view model, const ServeEnv& env, Warnings& warnings);
// Puts that, or what the field "prefix" asks for, into `out`. Refuses a field that names none that is loaded, or
// another one than the model's name does.
ApiResult<void> read_learned(const Args& args, AskedModel asked, const ServeEnv& env, Generation& out);
// Every name that a model may be asked for by: the model's, each with every prefix, the adapters', each model's with
// every adapter.
std::vector<std::string> served_names(const ServeEnv& env);
// The model as answers name it, with the prefix or the adapter that was asked for.
std::string answering_model(const ServeEnv& env, const Generation& generation);
// For dialects whose answers have no place for a prompt's tokens: read_generation without max_tokens 0 and
// prompt_logprobs, with a seed, the constraint and what the model's name asks for.
ApiResult<Generation> read_answer(const Args& args, AskedModel asked, const Reading& reading, const ServeEnv& env);
// The same where max_tokens 0 is taken: nothing but the prompt is computed.
ApiResult<Generation> read_answer_or_prompt(const Args& args,
                                            AskedModel asked,
                                            const Reading& reading,
                                            const ServeEnv& env);
// Their jobs' beginning: "model" is checked, generation and stream are read.
ApiResult<Job> begin_answer(const ApiRequest& request, const ServeEnv& env);
// {"token_ids":[…]}
std::string rendered(std::span<const Token> tokens);
// {"prompt_tokens":…,"completion_tokens":…,"total_tokens":…,"prompt_tokens_details":{"cached_tokens":…,"cached_tokens_by_tier":{"memory":…,"disk":…,"remote":…}}};
// with "cost" behind them, as docs/serve.md has it.
void append_openai_usage(std::string& out, const UsageTotals& usage, bool include_cost);

class OpenaiWriter : public ReplyWriter {
 public:
  struct Form {
    std::string_view id_prefix, object, chunk_object;
    bool prompt_logprobs_by_choice;  // where prompt_logprobs stands: in each choice, or once in the answer
  };
  OpenaiWriter(Form form, const ServeEnv& env, const Job& job, const OpenaiCommon& common);

  void begin(int64_t n_prompt, std::string& out) override;
  void progress(int choice, const PromptProgress& progress, std::string& out) override;
  void delta(int choice, const Delta& delta, std::string& out) override;
  void finish(int choice, const Ending& ending, std::string& out) override;
  void end(const UsageTotals& usage, std::string& out) override;
  void error(const HttpError& error, std::string& out) override;
  bool repeats_prompts() const override { return prompt_logprobs_by_choice_; }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override;

 protected:
  using Shared = std::shared_ptr<const ChoiceResult>;
  // What a choice holds in a chunk, and in a whole answer: "text":"…" or "delta":{…}, without index and logprobs.
  virtual void append_delta(int choice, const Delta& delta, std::string& out) = 0;
  virtual void add_whole(const Shared& choice, Pieces& out) = 0;
  // An object, or null.
  virtual void append_logprobs(int choice, std::span<const TokenText> tokens, std::string& out) = 0;
  virtual void add_logprobs(const Shared& choice, Pieces& out) = 0;
  // A chunk for what begins a choice's stream.
  void append_chunk(int choice, std::string_view content, std::string& out);
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  int n_choices() const { return n_choices_; }
  bool want_logprobs() const { return want_logprobs_; }

 private:
  void add_prompt(const Shared& choice, Pieces& out) const;
  // `more`: members of the chunk, each with a comma before it.
  void close_chunk(std::string_view finish, int64_t n_tokens, std::string_view more, std::string& out);
  void open_chunk(int choice, std::string& out) const;

  const Tokenizer* tokenizer_;
  const int n_choices_;
  const bool want_logprobs_, include_usage_, continuous_usage_, include_cost_, prompt_logprobs_by_choice_;
  const int n_prompt_logprobs_;
  const bool timings_, accepted_;
  std::string verbose_;  // until it has been told
  RunningTimings running_;
  int64_t n_prompt_ = 0;
  std::string head_, chunk_head_;  // up to "choices":[
};

}  // namespace quire
