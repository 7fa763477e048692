#include "serve/limits.h"

namespace quire {
namespace {

constexpr LimitRow kRows[] = {
    {"n_choices", &ServeLimits::n_choices, "largest n and best_of"},
    {"n_prompts", &ServeLimits::n_prompts, "entries of a list of prompts"},
    {"n_sequences", &ServeLimits::n_sequences, "prompts × best_of of one request"},
    {"n_logprobs", &ServeLimits::n_logprobs, "largest logprobs and top_logprobs"},
    {"n_logit_bias", &ServeLimits::n_logit_bias, "entries of logit_bias"},
    {"n_allowed_ids", &ServeLimits::n_allowed_ids, "entries of allowed_token_ids"},
    {"n_bad_words", &ServeLimits::n_bad_words, "entries of bad_words and of bad_token_ids"},
    {"n_dry_breakers", &ServeLimits::n_dry_breakers, "entries of dry_sequence_breakers"},
    {"n_samplers", &ServeLimits::n_samplers, "entries of samplers"},
    {"n_stops", &ServeLimits::n_stops, "entries of stop"},
    {"stop_bytes", &ServeLimits::stop_bytes, "bytes of one stop string"},
    {"n_stop_ids", &ServeLimits::n_stop_ids, "entries of stop_token_ids"},
    {"n_messages", &ServeLimits::n_messages, "messages of a conversation"},
    {"n_parts", &ServeLimits::n_parts, "parts of one message's content"},
    {"n_tools", &ServeLimits::n_tools, "entries of tools, and names of a choice among them"},
    {"tools_bytes", &ServeLimits::tools_bytes, "bytes of all tools of a request together, as JSON"},
    {"n_calls", &ServeLimits::n_calls, "entries of one message's tool_calls"},
    {"n_template_kwargs", &ServeLimits::n_template_kwargs, "entries of chat_template_kwargs"},
    {"name_bytes", &ServeLimits::name_bytes, "bytes of model, user, cache_salt and other short strings"},
    {"n_warned", &ServeLimits::n_warned, "unknown fields named in x-quire-warning"},
    {"n_detokenize", &ServeLimits::n_detokenize, "token ids of a detokenize request"},
    {"n_metadata", &ServeLimits::n_metadata, "entries of a response's metadata"},
    {"n_pins", &ServeLimits::n_pins, "prompts that are pinned at once"},
    {"n_pins_each", &ServeLimits::n_pins_each, "those of one key"},
    {"n_retention_ranges", &ServeLimits::n_retention_ranges,
     "entries of `kv_cache_retention_config.token_range_retention_configs`"},
    {"n_explained_turns", &ServeLimits::n_explained_turns,
     "earlier turns, the last ones, that `/v1/cache/explain` renders as they were asked"},
    {"n_adapters", &ServeLimits::n_adapters, "adapters that have a name"},
    {"adapter_bytes", &ServeLimits::adapter_bytes, "bytes of all adapters in memory"},
    {"grammar_bytes", &ServeLimits::grammar_bytes, "bytes of compiled grammars that are kept"},
    {"stored_bytes", &ServeLimits::stored_bytes, "bytes of the answers of /v1/responses that are kept"},
    {"stored_bytes_each", &ServeLimits::stored_bytes_each,
     "bytes of those of one key, or address where no key is asked for"},
    {"stored_s", &ServeLimits::stored_s, "seconds that they are kept"},
    {"resumable_bytes", &ServeLimits::resumable_bytes, "bytes of a resumable stream's newest events that are kept"},
    {"resumable_s", &ServeLimits::resumable_s, "seconds that it waits for a client that was cut off"},
    {"n_resumable", &ServeLimits::n_resumable, "resumable streams at once"},
    {"n_resumable_each", &ServeLimits::n_resumable_each, "those of one key, or address where no key is asked for"},
    {"answer_bytes", &ServeLimits::answer_bytes, "bytes of an answer that is made as a whole, told from its fields"},
    {"answers_bytes", &ServeLimits::answers_bytes, "bytes of all answers together that wait for their ends or clients"},
    {"unread_bytes", &ServeLimits::unread_bytes, "unread tokens of one streamed answer before it is cancelled"},
    {"channel_bytes", &ServeLimits::channel_bytes, "likewise of one of its sequences"},
    {"prep_queue", &ServeLimits::prep_queue, "requests waiting to be parsed and tokenised"},
    {"prep_bytes", &ServeLimits::prep_bytes, "bytes of their bodies together"},
    {"max_retry_after_s", &ServeLimits::max_retry_after_s, "bound of the predicted Retry-After"},
};

}  // namespace

std::span<const LimitRow> limit_rows() { return kRows; }

std::string limit_note(int64_t ServeLimits::* limit) {
  for (const LimitRow& row : kRows)
    if (row.value == limit) return " (" + std::string(row.name) + ")";
  return "";
}

}  // namespace quire
