// The names of sampling and engine fields, of every server whose clients we know: what is used, what is ignored, and
// what is a 400 because it would change the answer and is not supported. One table beside those of the filters, which
// have their fields in their own files; generation.cc reads it.
#include <type_traits>
#include <vector>

#include "engine/request.h"
#include "http/keys.h"
#include "sample/filters.h"
#include "serve/generation.h"

namespace quire {
namespace {

constexpr double kMaxInt32 = 2147483647.0;
constexpr double kTwo63 = 9223372036854775808.0;
constexpr double kMaxPriority = 1000.0;
constexpr double kMaxDryLength = 65536.0;

// Beside those of the filters.
constexpr Field kSampling[] = {
    integer_field("min_keep", 0, kMaxInt32),
    field_of("samplers", kArray, &ServeLimits::n_samplers),
    integer_field("mirostat", 0, 2),
    number_field("mirostat_tau", 0, 100),
    number_field("mirostat_eta", 0, 1),
    number_field("top_p_decay", 0.01, 1),
    number_field("top_p_min", 0, 1),
    field_of("top_p_reset_ids", kInteger | kArray),

    number_field("repetition_penalty", 0.01, 100),
    other_name("repeat_penalty", "repetition_penalty"),
    number_field("presence_penalty", -2, 2),
    number_field("frequency_penalty", -2, 2),
    integer_field("repeat_last_n", -1, kMaxInt32),
    number_field("dry_multiplier", 0, 100),
    number_field("dry_base", 1, 100),
    integer_field("dry_allowed_length", 1, kMaxDryLength),
    integer_field("dry_penalty_last_n", -1, kMaxInt32),
    field_of("dry_sequence_breakers", kArray, &ServeLimits::n_dry_breakers),
    integer_field("no_repeat_ngram_size", 0, kMaxInt32),

    field_of("logit_bias", kObject | kArray, &ServeLimits::n_logit_bias),
    field_of("allowed_token_ids", kArray, &ServeLimits::n_allowed_ids),
    field_of("bad_words", kArray, &ServeLimits::n_bad_words),
    field_of("bad_token_ids", kArray, &ServeLimits::n_bad_words),

    integer_field("seed", -kTwo63, kTwo63),
    other_name("sampling_seed", "seed"),
    other_name("random_seed", "seed"),
    count_field("n", 1, &ServeLimits::n_choices),
    other_name("n_cmpl", "n"),
    integer_field("max_tokens", -2, kNoMax),
    other_name("max_completion_tokens", "max_tokens"),
    other_name("max_new_tokens", "max_tokens"),
    other_name("n_predict", "max_tokens"),
    integer_field("min_tokens", 0, kNoMax),
    integer_field("thinking_token_budget", 0, kNoMax),
    other_name("min_new_tokens", "min_tokens"),
    field_of("stop", kString | kArray),
    other_name("stop_words_str", "stop"),
    field_of("stop_token_ids", kArray, &ServeLimits::n_stop_ids),
    flag_field("include_stop_str_in_output"),
    other_name("no_stop_trim", "include_stop_str_in_output"),
    flag_field("ignore_eos"),
    flag_field("skip_special_tokens"),
    count_field("prompt_logprobs", 0, &ServeLimits::n_logprobs),
    field_of("cache_salt", kString, &ServeLimits::name_bytes),
    field_of("prefix", kString, &ServeLimits::name_bytes),
    flag_field("skip_reading_prefix_cache"),
    flag_field("cache_prompt"),
    integer_field("priority", -kMaxPriority, kMaxPriority),
    integer_field("deadline_ms", 1, double{kMostDeadlineMs}),
    integer_field("kv_budget", 1, kNoMax),
    {.name = "speculation", .kinds = kBool | kInteger, .min = 0, .max = kMostDraft},

    field_of("response_format", kObject),
    field_of("structured_outputs", kObject),
    field_of("json_schema", kObject | kBool | kString),
    field_of("regex", kString),
    field_of("ebnf", kString),
    field_of("grammar", kString),
    field_of("choice", kArray),
    field_of("structural_tag", kObject | kString),
    field_of("guided_json", kObject | kBool | kString),
    flag_field("guided_json_object"),
    field_of("guided_regex", kString),
    field_of("guided_choice", kArray),
    field_of("guided_grammar", kString),
    unsupported("guided_whitespace_pattern"),

    unsupported("adaptive_target", "-1"),
    unsupported("beam_width", "1"),
    unsupported("beam_width_array", "[]"),
    unsupported("use_beam_search", "false"),
    unsupported("beam_search_diversity_rate", "0"),
    unsupported("prompt_ignore_length", "0"),
    unsupported("embedding_bias", "[]"),
    unsupported("stop_regex", "[]"),
    unsupported("stop_words_list", "[]"),
    unsupported("logprob_token_ids", "[]"),
    unsupported("repetition_detection"),
    unsupported("repetition_ngram_size", "0"),
    unsupported("logits_processors", "[]"),
    unsupported("num_assistant_tokens"),
    unsupported("assistant_confidence_threshold"),
    unsupported("max_ngram_size"),
    unsupported("stream_interval", "1"),
    unsupported("lora", "[]"),

    foreign_object("sampling_params"),
    foreign_object("parameters"),
    foreign_object("options"),

    // These only tune something above; while that is off they change nothing.
    ignored_field("adaptive_decay"),
    ignored_field("length_penalty"),
    ignored_field("early_stopping"),
    ignored_field("spaces_between_special_tokens"),
    ignored_field("repetition_threshold"),
    ignored_field("guided_decoding_backend"),
};

constexpr Field kForeign[] = {
    unsupported("n_probs", "0"),           unsupported("post_sampling_probs", "false"),
    unsupported("return_tokens", "false"), unsupported("n_keep", "0"),
    unsupported("n_discard", "0"),         unsupported("t_max_predict_ms", "0"),
    unsupported("t_max_prompt_ms", "0"),   ignored_field("id_slot"),
};

// Of streams, in dialects that have no place for it.
constexpr Field kNoProgress[] = {unsupported("return_progress", "false"), unsupported("timings_per_token", "false")};

constexpr Field kOpenai[] = {
    flag_field("return_progress"),
    flag_field("return_accepted"),
    flag_field("timings_per_token"),
    field_of("model", kString, &ServeLimits::name_bytes),
    flag_field("stream"),
    flag_field("include_cost"),
    field_of("stream_options", kObject),
    ignored_field("user"),
    ignored_field("metadata"),
    ignored_field("safety_identifier"),
    ignored_field("service_tier"),
    ignored_field("prompt_cache_key"),
    field_of("prompt_cache_retention", kString, &ServeLimits::name_bytes),
    field_of("kv_cache_retention_config", kObject),
};

std::vector<Field> filter_fields() {
  std::vector<Field> out;
  const SamplingParams types;
  for_each_filter_field(
      [&out](const FilterField& field, const auto& value) {
        using T = std::remove_cvref_t<decltype(value)>;
        out.push_back(std::is_integral_v<T> ? integer_field(field.name, field.lo, field.hi)
                                            : number_field(field.name, field.lo, field.hi));
        if (!field.other_name.empty()) out.push_back(other_name(field.other_name, field.name));
      },
      types);
  return out;
}

}  // namespace

std::span<const Field> sampling_fields() {
  static const std::vector<Field> kAll = [] {
    std::vector<Field> out = filter_fields();
    out.insert(out.end(), std::begin(kSampling), std::end(kSampling));
    return out;
  }();
  return kAll;
}
std::span<const Field> foreign_fields() { return kForeign; }
std::span<const Field> no_progress_fields() { return kNoProgress; }
std::span<const Field> openai_fields() { return kOpenai; }

}  // namespace quire
