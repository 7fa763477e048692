#include "serve/generation.h"

#include <charconv>

#include "base/rng.h"

namespace quire {
namespace {

constexpr double kMaxTemperature = 100.0;
constexpr double kMinTemperature = 1e-4;  // below it 1 / temperature leaves float's useful range: greedy
constexpr double kMinTopP = 1e-9;         // 0 keeps the most probable token, as a tiny value does
constexpr double kMaxInt32 = 2147483647.0;
constexpr double kTwo63 = 9223372036854775808.0;
constexpr double kMaxPriority = 1000.0;

constexpr Field kSampling[] = {
    number_field("temperature", 0, kMaxTemperature),
    number_field("top_p", 0, 1),
    integer_field("top_k", -1, kMaxInt32),
    number_field("min_p", 0, 1),
    integer_field("seed", -kTwo63, kTwo63),
    other_name("sampling_seed", "seed"),
    other_name("random_seed", "seed"),
    count_field("n", 1, &ServeLimits::n_choices),
    other_name("n_cmpl", "n"),
    integer_field("max_tokens", 1, kNoMax),
    other_name("max_completion_tokens", "max_tokens"),
    other_name("max_new_tokens", "max_tokens"),
    other_name("n_predict", "max_tokens"),
    field_of("stop", kString | kArray),
    field_of("stop_token_ids", kArray, &ServeLimits::n_stop_ids),
    flag_field("include_stop_str_in_output"),
    flag_field("ignore_eos"),
    flag_field("skip_special_tokens"),
    field_of("logit_bias", kObject, &ServeLimits::n_logit_bias),
    field_of("cache_salt", kString, &ServeLimits::name_bytes),
    integer_field("priority", -kMaxPriority, kMaxPriority),

    unsupported("presence_penalty", "0"),
    unsupported("frequency_penalty", "0"),
    unsupported("repetition_penalty", "1"),
    unsupported("repeat_penalty", "1"),
    unsupported("typical_p", "1"),
    unsupported("typ_p", "1"),
    unsupported("top_n_sigma", "0", "-1"),
    unsupported("xtc_probability", "0"),
    unsupported("dynatemp_range", "0"),
    unsupported("mirostat", "0"),
    unsupported("adaptive_target", "-1"),
    unsupported("top_p_decay", "1"),
    unsupported("dry_multiplier", "0"),
    unsupported("allowed_token_ids", "[]"),
    unsupported("bad_words", "[]"),
    unsupported("bad_token_ids", "[]"),
    unsupported("beam_width", "1"),
    unsupported("beam_width_array", "[]"),
    unsupported("use_beam_search", "false"),
    unsupported("beam_search_diversity_rate", "0"),
    unsupported("no_repeat_ngram_size", "0"),
    unsupported("min_tokens", "0"),
    unsupported("min_new_tokens", "0"),
    unsupported("min_keep", "0"),
    unsupported("stop_regex", "[]"),
    unsupported("stop_words_str", "[]"),
    unsupported("stop_words_list", "[]"),
    unsupported("no_stop_trim", "false"),
    unsupported("prompt_logprobs", "0"),
    unsupported("logprob_token_ids", "[]"),
    unsupported("n_probs", "0"),
    unsupported("post_sampling_probs", "false"),
    unsupported("return_tokens", "false"),
    unsupported("return_progress", "false"),
    unsupported("timings_per_token", "false"),
    unsupported("n_keep", "0"),
    unsupported("n_discard", "0"),
    unsupported("t_max_predict_ms", "0"),
    unsupported("t_max_prompt_ms", "0"),
    unsupported("samplers", "[]"),
    unsupported("grammar", "\"\""),
    unsupported("json_schema", "{}"),
    unsupported("regex", "\"\""),
    unsupported("ebnf", "\"\""),
    unsupported("choice", "[]"),
    unsupported("structural_tag", "\"\""),
    unsupported("structured_outputs"),
    unsupported("guided_json"),
    unsupported("guided_regex"),
    unsupported("guided_choice"),
    unsupported("guided_grammar"),
    unsupported("response_format", "{\"type\":\"text\"}"),
    unsupported("thinking_token_budget"),
    unsupported("repetition_detection"),
    unsupported("repetition_ngram_size", "0"),
    unsupported("logits_processors", "[]"),
    unsupported("num_assistant_tokens"),
    unsupported("assistant_confidence_threshold"),
    unsupported("max_ngram_size"),
    unsupported("stream_interval", "1"),
    unsupported("skip_reading_prefix_cache", "false"),
    unsupported("cache_prompt", "true"),
    unsupported("lora", "[]"),

    // These only tune something above; while that is off they change nothing.
    ignored_field("xtc_threshold"),
    ignored_field("dynatemp_exponent"),
    ignored_field("mirostat_tau"),
    ignored_field("mirostat_eta"),
    ignored_field("adaptive_decay"),
    ignored_field("top_p_min"),
    ignored_field("top_p_reset_ids"),
    ignored_field("dry_base"),
    ignored_field("dry_allowed_length"),
    ignored_field("dry_penalty_last_n"),
    ignored_field("dry_sequence_breakers"),
    ignored_field("repeat_last_n"),
    ignored_field("prompt_ignore_length"),
    ignored_field("length_penalty"),
    ignored_field("early_stopping"),
    ignored_field("spaces_between_special_tokens"),
    ignored_field("repetition_threshold"),
    ignored_field("id_slot"),
};

constexpr Field kOpenai[] = {
    field_of("model", kString, &ServeLimits::name_bytes),
    flag_field("stream"),
    flag_field("include_cost"),
    field_of("stream_options", kObject),
    ignored_field("user"),
    ignored_field("metadata"),
    ignored_field("safety_identifier"),
    ignored_field("service_tier"),
    ignored_field("prompt_cache_key"),
    ignored_field("prompt_cache_retention"),
};

ApiResult<void> read_stops(const Json& value, const ServeLimits& limits, std::vector<std::string>& out) {
  if (value.as_string() != nullptr) {
    out.push_back(*value.as_string());
  } else {
    const auto& list = *value.as_array();
    const auto n = static_cast<int64_t>(list.size());
    if (n > limits.n_stops) return refuse(over_limit("stop", "entries", n, limits.n_stops));
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].as_string() == nullptr)
        return refuse(bad_field(at_index("stop", static_cast<int64_t>(i)), "must be a string", "invalid_type"));
      out.push_back(*list[i].as_string());
    }
  }
  for (const std::string& s : out) {
    const auto n = static_cast<int64_t>(s.size());
    if (n == 0) return refuse(bad_field("stop", "holds an empty string"));
    if (n > limits.stop_bytes) return refuse(over_limit("stop", "bytes in one string", n, limits.stop_bytes));
  }
  return {};
}

ApiResult<void> read_logit_bias(const Json& value, int n_vocab, std::vector<Edit>& out) {
  for (const auto& [key, bias] : *value.as_object()) {
    const std::string path = at_key("logit_bias", shown(key));
    Token id = -1;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (ec != std::errc() || end != key.data() + key.size() || id < 0 || id >= n_vocab)
      return refuse(bad_field(path, "is no token id: ids go from 0 to " + std::to_string(n_vocab - 1)));
    if (!bias.is_number()) return refuse(bad_field(path, "must be a number", "invalid_type"));
    const double v = bias.number();
    if (!(v >= -100.0 && v <= 100.0)) return refuse(bad_field(path, "must be from -100 to 100"));
    out.push_back({id, static_cast<float>(v), 1.0F});
  }
  return {};
}

// Tenants choose their salts; equal ones must agree in every process, so the hash has no secret.
uint64_t hash_salt(std::string_view salt) {
  if (salt.empty()) return 0;
  uint64_t h = mix64(salt.size());
  for (const char c : salt) h = mix64(h ^ static_cast<unsigned char>(c));
  return h == 0 ? 1 : h;
}

}  // namespace

std::span<const Field> sampling_fields() { return kSampling; }
std::span<const Field> openai_fields() { return kOpenai; }

ApiResult<void> read_token_ids(const Json& list, std::string_view path, int n_vocab, std::vector<Token>& out) {
  const auto& items = *list.as_array();
  out.reserve(out.size() + items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    int64_t id = -1;
    if (!items[i].is_number() || !read_integer(items[i], id))
      return refuse(bad_field(at_index(path, static_cast<int64_t>(i)), "must be an integer", "invalid_type"));
    if (id < 0 || id >= n_vocab)
      return refuse(bad_field(at_index(path, static_cast<int64_t>(i)),
                              "is " + std::to_string(id) + ": token ids go from 0 to " + std::to_string(n_vocab - 1)));
    out.push_back(static_cast<Token>(id));
  }
  return {};
}

ApiResult<Generation> read_generation(const Args& args, const ServeLimits& limits, int n_vocab) {
  Generation g;
  const double temperature = args.number("temperature", 1.0);
  g.sampling.temperature = temperature < kMinTemperature ? 0.0F : static_cast<float>(temperature);
  g.sampling.top_p = static_cast<float>(std::max(args.number("top_p", 1.0), kMinTopP));
  g.sampling.top_k = static_cast<int>(std::max<int64_t>(args.integer("top_k", 0), 0));
  g.sampling.min_p = static_cast<float>(args.number("min_p", 0.0));
  g.seed_given = args.has("seed");
  g.sampling.seed = static_cast<uint64_t>(args.integer("seed", 0));
  g.max_tokens = args.integer("max_tokens", 0);
  g.n = static_cast<int>(args.integer("n", 1));
  g.best_of = g.n;
  g.ignore_eos = args.flag("ignore_eos", false);
  g.include_stop = args.flag("include_stop_str_in_output", false);
  g.skip_special = args.flag("skip_special_tokens", true);
  g.priority = static_cast<int>(args.integer("priority", 0));
  g.cache_salt = hash_salt(args.text("cache_salt"));
  if (const Json* stop = args.find("stop")) QR_TRY_VOID(read_stops(*stop, limits, g.stops));
  if (const Json* ids = args.find("stop_token_ids"))
    QR_TRY_VOID(read_token_ids(*ids, "stop_token_ids", n_vocab, g.stop_ids));
  if (const Json* bias = args.find("logit_bias")) QR_TRY_VOID(read_logit_bias(*bias, n_vocab, g.sampling.logit_bias));
  return g;
}

}  // namespace quire
