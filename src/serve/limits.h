// Every limit of the wire dialects, with its default: the one table. A limit that refuses a request is named in the
// error with its value and what was received. Limits of sockets, heads and bodies are http's (http/limits.h), those of
// templates text's, and the lengths of queue and context the engine's. Plain values, read-only once the server runs.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire {

struct ServeLimits {
  int64_t n_choices = 128;               // n, best_of
  int64_t n_prompts = 1024;              // entries of a list of prompts
  int64_t n_sequences = 1024;            // prompts × best_of of one request
  int64_t n_logprobs = 20;               // logprobs, top_logprobs
  int64_t n_logit_bias = 1024;           // entries of logit_bias
  int64_t n_allowed_ids = 1 << 18;       // entries of allowed_token_ids
  int64_t n_bad_words = 1024;            // entries of bad_words and of bad_token_ids
  int64_t n_dry_breakers = 64;           // entries of dry_sequence_breakers
  int64_t n_samplers = 16;               // entries of samplers
  int64_t n_stops = 16;                  // entries of stop
  int64_t stop_bytes = 1024;             // each of them
  int64_t n_stop_ids = 128;              // entries of stop_token_ids
  int64_t n_messages = 4096;             // of a conversation
  int64_t n_parts = 4096;                // of one message's content
  int64_t n_tools = 512;                 // of a request; also names of a choice among them
  int64_t tools_bytes = 1 << 20;         // of them together, as JSON
  int64_t n_calls = 512;                 // of one message
  int64_t n_template_kwargs = 64;        // chat_template_kwargs
  int64_t name_bytes = 256;              // model, user, cache_salt and other short strings
  int64_t n_warned = 16;                 // unknown fields named in x-quire-warning
  int64_t n_detokenize = 1 << 20;        // token ids to detokenise
  int64_t n_metadata = 16;               // entries of a response's metadata
  int64_t n_pins = 1024;                 // prompts that are pinned, those of --warm-prompts too
  int64_t n_pins_each = 64;              // of one key, or of all clients where no key is asked for
  int64_t n_retention_ranges = 16;       // entries of kv_cache_retention_config's token_range_retention_configs
  int64_t n_explained_turns = 8;         // earlier turns that are rendered anew to explain a miss of the cache
  int64_t n_adapters = 64;               // that have a name
  int64_t adapter_bytes = 1 << 30;       // of all in memory, those that requests still hold with them
  int64_t grammar_bytes = 128 << 20;     // compiled grammars that are kept for the next requests; the oldest go first
  int64_t stored_bytes = 64 << 20;       // answers of /v1/responses that are kept; whoever keeps most gives first
  int64_t stored_bytes_each = 16 << 20;  // of one tenant; its oldest go first
  int64_t stored_s = 3600;               // for so long
  int64_t resumable_bytes = 1 << 20;     // newest events of a resumable stream that are remembered
  int64_t resumable_s = 60;              // it waits so long for a client that was cut off
  int64_t n_resumable = 256;             // such streams; beyond it a stream is none
  int64_t n_resumable_each = 32;         // of one tenant; its oldest that are over go first
  int64_t answer_bytes = 128 << 20;      // of an answer that is made before it is sent, as its fields foretell
  int64_t answers_bytes = 512 << 20;     // of all answers together that are held until their clients have them
  int64_t unread_bytes = 16 << 20;       // tokens of one streamed answer that the client has not read; more cancels it
  int64_t channel_bytes = 1 << 20;       // of one of its sequences
  int64_t prep_queue = 2048;             // requests waiting to be parsed and tokenised; more are refused
  int64_t prep_bytes = 256 << 20;        // of their bodies together
  int64_t max_retry_after_s = 60;        // bound of the Retry-After that is predicted
};

struct LimitRow {
  std::string_view name;
  int64_t ServeLimits::* value;
  std::string_view what;
};
// One row per member, in their order.
std::span<const LimitRow> limit_rows();
// " (n_stops)", for the end of an error's message; empty for null.
std::string limit_note(int64_t ServeLimits::* limit);

}  // namespace quire
