// What a request asks of the engine, in any dialect: the union of the sampling names that servers share, checked and
// turned into values. One table of fields, one reader.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sample/sampling_params.h"
#include "serve/retention.h"
#include "serve/sampling_defaults.h"
#include "serve/schema.h"
#include "serve/served_prefix.h"
#include "serve/structured.h"
#include "text/tokenizer.h"

namespace quire {

struct Adapter;

struct Generation {
  SamplingParams sampling;  // the seed is that of the first choice; choice i gets seed + i
  bool seed_given = false;
  int64_t max_tokens = 0;                            // 0: as many as the context has room for
  std::string_view max_tokens_field = "max_tokens";  // as its client calls it; a constant
  bool prompt_only = false;                          // max_tokens was given as 0: nothing of an answer is wanted
  std::vector<std::string> stops;                    // none of them empty
  std::vector<Token> stop_ids;                       // beside the model's end tokens
  bool ignore_eos = false;
  bool include_stop = false;               // the stop string is part of the text
  bool skip_special = true;                // control tokens have no text
  int n = 1;                               // choices of each prompt in the answer
  int best_of = 1;                         // ≥ n: sequences run for each prompt
  const ServedPrefix* prefix = nullptr;    // the environment's; null: nothing before the prompt
  std::shared_ptr<const Adapter> adapter;  // null: the model as it is
  std::string adapter_name;                // that it was asked for by
  uint64_t cache_salt = 0;
  bool match_prefix = true;  // may use cached prefixes
  int priority = 0;
  int64_t deadline_ms = 0;  // for the first token; 0: as its key has it
  Retention retention;      // of what is cached of it
  // Tokens that it may think at most, and the field that says so; -1: as many as it likes (limit_thinking).
  int64_t thinking_tokens = -1;
  std::string_view thinking_field;  // a constant
  int kv_budget = 0;                // tokens of the prompt that are kept behind it; 0: all
  int max_draft = -1;               // tokens guessed ahead at a time at most; -1: as the server does
  MaybeGrammar grammar;             // what the answer has to be; `sampling.constraint` once it is compiled (constrain)

  // Tokens of the context that stand before the prompt.
  int64_t n_virtual() const { return prefix != nullptr ? prefix->n_tokens : 0; }
};

// Sampling and engine fields, supported and not; and what every dialect of OpenAI's knows beside them.
std::span<const Field> sampling_fields();
// For dialects other than llama.cpp's: what only that one keeps (llama.h).
std::span<const Field> foreign_fields();
std::span<const Field> openai_fields();
std::span<const Field> no_progress_fields();  // what dialects without those refuse

// REQUIRES args checked by a schema with sampling_fields(). n_logprobs, the seed where none was given, and whether
// prompt_only makes sense, are left to the caller. `defaults` stand for what the request does not say.
ApiResult<Generation> read_generation(const Args& args,
                                      const ServeLimits& limits,
                                      const Tokenizer& tokenizer,
                                      const SamplingDefaults& defaults);

// The token id `value`, in [0, n_vocab), which is entry `index` of the list at `path`.
ApiResult<Token> read_token_id(const Json& value, std::string_view path, size_t index, int n_vocab);
// A list of token ids. Appends to `out`.
ApiResult<void> read_token_ids(const Json& list, std::string_view path, int n_vocab, std::vector<Token>& out);
// The tokens of a text that came in the field `path`. Appends to `out`.
ApiResult<void> encode_text(const Tokenizer& tokenizer,
                            std::string_view text,
                            const EncodeOptions& options,
                            std::string_view path,
                            std::vector<Token>& out);
// `n` entries of the field `path`, with n_each sequences for each: refuses what is beyond n_prompts and n_sequences.
// `product`: what the sequences are, in the client's words.
ApiResult<void> check_prompts(
    std::string_view path, int64_t n, int64_t n_each, std::string_view product, const ServeLimits& limits);

}  // namespace quire
