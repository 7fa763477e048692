#include "serve/generation.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/rng.h"
#include "sample/filters.h"
#include "sample/rules.h"

namespace quire {
namespace {

float number(const Args& args, std::string_view name, double otherwise) {
  return static_cast<float>(args.number(name, otherwise));
}
int count(const Args& args, std::string_view name, int otherwise) {
  return static_cast<int>(std::clamp<int64_t>(args.integer(name, otherwise), -1, std::numeric_limits<int>::max()));
}

// A list of strings, none of them empty or longer than max_bytes.
ApiResult<std::vector<std::string>> read_strings(const Json& list, std::string_view path, int64_t max_bytes) {
  std::vector<std::string> out;
  const auto& items = *list.as_array();
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string at = at_index(path, static_cast<int64_t>(i));
    const std::string* text = items[i].as_string();
    if (text == nullptr) return refuse(bad_field(at, "must be a string", "invalid_type"));
    if (text->empty()) return refuse(bad_field(at, "is empty"));
    const auto n = static_cast<int64_t>(text->size());
    if (n > max_bytes) return refuse(over_limit(at, "bytes", n, max_bytes));
    out.push_back(*text);
  }
  return out;
}

ApiResult<void> read_stops(const Json& value,
                           std::string_view name,
                           const ServeLimits& limits,
                           std::vector<std::string>& out) {
  if (value.as_string() != nullptr) {
    out.push_back(*value.as_string());
  } else {
    const auto& list = *value.as_array();
    const auto n = static_cast<int64_t>(list.size());
    if (n > limits.n_stops)
      return refuse(over_limit(name, "entries", n, limits.n_stops, limit_note(&ServeLimits::n_stops)));
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].as_string() == nullptr)
        return refuse(bad_field(at_index(name, static_cast<int64_t>(i)), "must be a string", "invalid_type"));
      out.push_back(*list[i].as_string());
    }
  }
  for (const std::string& s : out) {
    const auto n = static_cast<int64_t>(s.size());
    if (n == 0) return refuse(bad_field(name, "holds an empty string"));
    if (n > limits.stop_bytes)
      return refuse(
          over_limit(name, "bytes in one string", n, limits.stop_bytes, limit_note(&ServeLimits::stop_bytes)));
  }
  return {};
}

// A number, or false: never.
ApiResult<float> read_bias(const Json& bias, const std::string& path) {
  if (bias.as_bool() != nullptr && !*bias.as_bool()) return -std::numeric_limits<float>::infinity();
  if (!bias.is_number()) return refuse(bad_field(path, "must be a number", "invalid_type"));
  const double v = bias.number();
  if (!(v >= -100.0 && v <= 100.0)) return refuse(bad_field(path, "must be from -100 to 100"));
  return static_cast<float>(v);
}

// What is added to a text's tokens or to one id; what comes later counts.
ApiResult<void> add_bias(const std::vector<Token>& ids, float v, const ServeLimits& limits, std::vector<Edit>& out) {
  const auto n = static_cast<int64_t>(out.size() + ids.size());
  if (n > limits.n_logit_bias)
    return refuse(over_limit("logit_bias", "tokens", n, limits.n_logit_bias, limit_note(&ServeLimits::n_logit_bias)));
  for (const Token id : ids) {
    const auto known = std::find_if(out.begin(), out.end(), [&](const Edit& edit) { return edit.id == id; });
    if (known == out.end())
      out.push_back({id, v, 1.0F});
    else
      known->add = v;
  }
  return {};
}

// {"15":-1,"word":false,…}: a key that is no whole number is a text.
ApiResult<void> read_bias_map(const Json::Object& map,
                              const ServeLimits& limits,
                              const Tokenizer& tokenizer,
                              std::vector<Edit>& out) {
  for (const auto& [key, bias] : map) {
    const std::string path = at_key("logit_bias", shown(key));
    QR_TRY(const float v, read_bias(bias, path));
    int64_t id = -1;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), id);
    std::vector<Token> ids;
    if (key.empty() || end != key.data() + key.size()) {
      QR_TRY_VOID(encode_text(tokenizer, key, {}, path, ids));
    } else if (ec != std::errc() || id < 0 || id >= tokenizer.n_vocab()) {
      return refuse(bad_field(path, "is no token id: ids go from 0 to " + std::to_string(tokenizer.n_vocab() - 1)));
    } else {
      ids.push_back(static_cast<Token>(id));
    }
    QR_TRY_VOID(add_bias(ids, v, limits, out));
  }
  return {};
}

// [[15,-1],["word",false],…]
ApiResult<void> read_bias_list(const Json::Array& list,
                               const ServeLimits& limits,
                               const Tokenizer& tokenizer,
                               std::vector<Edit>& out) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = at_index("logit_bias", static_cast<int64_t>(i));
    const Json::Array* pair = list[i].as_array();
    if (pair == nullptr || pair->size() != 2)
      return refuse(bad_field(path, "must be a pair: a token id or a text, and a number", "invalid_type"));
    std::vector<Token> ids;
    if (const std::string* text = (*pair)[0].as_string()) {
      QR_TRY_VOID(encode_text(tokenizer, *text, {}, path, ids));
    } else {
      QR_TRY(ids.emplace_back(), read_token_id((*pair)[0], path, 0, tokenizer.n_vocab()));
    }
    QR_TRY(const float v, read_bias((*pair)[1], path));
    QR_TRY_VOID(add_bias(ids, v, limits, out));
  }
  return {};
}

ApiResult<void> read_logit_bias(const Json& value,
                                const ServeLimits& limits,
                                const Tokenizer& tokenizer,
                                SharedList<Edit>& list) {
  std::vector<Edit> out;
  if (value.as_object() != nullptr) {
    QR_TRY_VOID(read_bias_map(*value.as_object(), limits, tokenizer, out));
  } else {
    QR_TRY_VOID(read_bias_list(*value.as_array(), limits, tokenizer, out));
  }
  list = std::move(out);
  return {};
}

// A word has the same text with and without a space before it, but other tokens: both are forbidden.
ApiResult<void> read_bad_words(const Args& args,
                               const ServeLimits& limits,
                               const Tokenizer& tokenizer,
                               SharedList<std::vector<Token>>& list) {
  std::vector<std::vector<Token>> out;
  if (const Json* words = args.find("bad_words")) {
    QR_TRY(const auto texts, read_strings(*words, "bad_words", limits.name_bytes));
    for (const std::string& text : texts) {
      for (const std::string& form : {text, " " + text}) {
        std::vector<Token> ids;
        QR_TRY_VOID(encode_text(tokenizer, form, {}, "bad_words", ids));
        if (!ids.empty() && std::find(out.begin(), out.end(), ids) == out.end()) out.push_back(std::move(ids));
      }
    }
  }
  if (const Json* given = args.find("bad_token_ids")) {
    std::vector<Token> ids;
    QR_TRY_VOID(read_token_ids(*given, "bad_token_ids", tokenizer.n_vocab(), ids));
    for (const Token id : ids) out.push_back({id});
  }
  list = std::move(out);
  return {};
}

// The tokens whose text holds a breaker.
std::vector<Token> breaker_ids(std::span<const std::string> breakers, const Tokenizer& tokenizer) {
  std::vector<Token> out;
  std::string text;
  for (Token id = 0; id < tokenizer.n_vocab(); ++id) {
    text.clear();
    tokenizer.append_bytes(id, true, text);
    const auto inside = [&](const std::string& b) { return text.find(b) != std::string::npos; };
    if (std::any_of(breakers.begin(), breakers.end(), inside)) out.push_back(id);
  }
  return out;
}

ApiResult<void> read_penalties(const Args& args,
                               const ServeLimits& limits,
                               const Tokenizer& tokenizer,
                               const SamplingDefaults& defaults,
                               SamplingParams& s) {
  s.repetition_penalty = number(args, "repetition_penalty", defaults.get("repetition_penalty", 1.0));
  s.presence_penalty = number(args, "presence_penalty", 0.0);
  s.frequency_penalty = number(args, "frequency_penalty", 0.0);
  if (args.has("repeat_last_n")) s.repeat_last_n = count(args, "repeat_last_n", -1);
  s.no_repeat_ngram_size = count(args, "no_repeat_ngram_size", 0);
  s.dry_multiplier = number(args, "dry_multiplier", 0.0);
  s.dry_base = number(args, "dry_base", 1.75);
  s.dry_allowed_length = count(args, "dry_allowed_length", 2);
  s.dry_last_n = count(args, "dry_penalty_last_n", -1);
  std::vector<std::string> breakers = {"\n", ":", "\"", "*"};
  if (const Json* list = args.find("dry_sequence_breakers")) {
    QR_TRY(breakers, read_strings(*list, "dry_sequence_breakers", limits.name_bytes));
  }
  if (s.dry_multiplier > 0.0F) s.dry_breakers = breaker_ids(breakers, tokenizer);
  return {};
}

// What the list leaves out does not act. Penalties are edits of the logits, so they can only stand in front.
ApiResult<void> read_samplers(const Json& list, SamplingParams& s) {
  const auto& items = *list.as_array();
  if (items.empty()) return {};
  s.order.clear();
  bool penalties = false, dry = false;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string at = at_index("samplers", static_cast<int64_t>(i));
    const std::string* name = items[i].as_string();
    if (name == nullptr) return refuse(bad_field(at, "must be a string", "invalid_type"));
    if (*name == "infill") continue;  // llama.cpp's, which editors ask for: not here
    const auto filter = find_filter(*name);
    const bool twice = filter ? std::find(s.order.begin(), s.order.end(), *filter) != s.order.end()
                              : (*name == "penalties" && penalties) || (*name == "dry" && dry);
    if (twice) return refuse(bad_field(at, "is '" + *name + "', which stands there already"));
    if (filter) {
      s.order.push_back(*filter);
      continue;
    }
    if (*name != "penalties" && *name != "dry")
      return refuse(bad_field(at, "is '" + shown(*name) + "': it must be one of penalties, dry, " + listed_filters()));
    if (!s.order.empty() || (*name == "penalties" && dry))
      return refuse(bad_field(at, "is '" + *name + "': penalties, then dry, act before the others"));
    (*name == "dry" ? dry : penalties) = true;
  }
  if (!penalties) {
    s.repetition_penalty = 1.0F;
    s.presence_penalty = s.frequency_penalty = 0.0F;
  }
  if (!dry) s.dry_multiplier = 0.0F;
  if (std::find(s.order.begin(), s.order.end(), kFilter<filters::Temperature>) == s.order.end()) s.temperature = 1.0F;
  return {};
}

ApiResult<void> read_filters(const Args& args, int n_vocab, const SamplingDefaults& defaults, SamplingParams& s) {
  for_each_filter_field(
      [&](const FilterField& field, auto& value) {
        using T = std::remove_reference_t<decltype(value)>;
        const double otherwise = defaults.get(field.name, field.neutral);
        if constexpr (std::is_integral_v<T>)
          value = taken<T>(field, count(args, field.name, static_cast<int>(otherwise)));
        else
          value = taken<T>(field, args.number(field.name, otherwise));
      },
      s);
  s.min_keep = std::max(count(args, "min_keep", 1), 1);
  s.mirostat = static_cast<int>(args.integer("mirostat", 0));
  s.mirostat_tau = number(args, "mirostat_tau", 5.0);
  s.mirostat_eta = number(args, "mirostat_eta", 0.1);
  s.top_p_decay = number(args, "top_p_decay", 1.0);
  s.top_p_min = number(args, "top_p_min", 1e-6);
  if (const Json* reset = args.find("top_p_reset_ids")) {
    const Json one = reset->as_array() != nullptr ? *reset : Json(Json::Array{*reset});
    std::vector<Token> ids;
    if (one.as_array()->size() > 1)
      return refuse(over_limit("top_p_reset_ids", "entries", static_cast<int64_t>(one.as_array()->size()), 1));
    QR_TRY_VOID(read_token_ids(one, "top_p_reset_ids", n_vocab, ids));
    if (!ids.empty()) s.top_p_reset_id = ids[0];
  }
  if (const Json* samplers = args.find("samplers")) QR_TRY_VOID(read_samplers(*samplers, s));
  return {};
}

ApiResult<void> read_lengths(const Args& args, const SamplingDefaults& defaults, Generation& g) {
  g.max_tokens = args.integer("max_tokens", static_cast<int64_t>(defaults.get("max_tokens", 0)));
  g.max_tokens_field = args.sent_as("max_tokens");
  g.prompt_only = args.has("max_tokens") && g.max_tokens == 0;
  g.max_tokens = std::max<int64_t>(g.max_tokens, 0);  // -1, -2: until the context is full
  const int64_t min_tokens = args.integer("min_tokens", 0);
  if (min_tokens > 0 && args.integer("max_tokens", -1) >= 0 && min_tokens > g.max_tokens)
    return refuse(bad_field(args.sent_as("min_tokens"), "is " + std::to_string(min_tokens) + ": " +
                                                            std::string(g.max_tokens_field) + " is only " +
                                                            std::to_string(g.max_tokens)));
  g.sampling.min_tokens = static_cast<int>(std::min<int64_t>(min_tokens, std::numeric_limits<int>::max()));
  g.thinking_tokens = args.integer("thinking_token_budget", -1);
  g.thinking_field = "thinking_token_budget";
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

ApiResult<Token> read_token_id(const Json& value, std::string_view path, size_t index, int n_vocab) {
  const auto at = [&] { return at_index(path, static_cast<int64_t>(index)); };
  int64_t id = -1;
  if (!value.is_number() || !read_integer(value, id))
    return refuse(bad_field(at(), "must be an integer", "invalid_type"));
  if (id < 0 || id >= n_vocab)
    return refuse(
        bad_field(at(), "is " + std::to_string(id) + ": token ids go from 0 to " + std::to_string(n_vocab - 1)));
  return static_cast<Token>(id);
}

ApiResult<void> read_token_ids(const Json& list, std::string_view path, int n_vocab, std::vector<Token>& out) {
  const auto& items = *list.as_array();
  out.reserve(out.size() + items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    QR_TRY(const Token id, read_token_id(items[i], path, i, n_vocab));
    out.push_back(id);
  }
  return {};
}

ApiResult<void> encode_text(const Tokenizer& tokenizer,
                            std::string_view text,
                            const EncodeOptions& options,
                            std::string_view path,
                            std::vector<Token>& out) {
  if (const Status done = tokenizer.encode(text, options, out); !done) return refuse(to_http_error(done.error(), path));
  return {};
}

ApiResult<void> check_prompts(
    std::string_view path, int64_t n, int64_t n_each, std::string_view product, const ServeLimits& limits) {
  if (n == 0) return refuse(bad_field(path, "is empty"));
  if (n > limits.n_prompts)
    return refuse(over_limit(path, "entries", n, limits.n_prompts, limit_note(&ServeLimits::n_prompts)));
  const int64_t n_sequences = n * n_each;
  if (n_sequences > limits.n_sequences)
    return refuse(over_limit(path, "sequences (" + std::string(product) + ")", n_sequences, limits.n_sequences,
                             limit_note(&ServeLimits::n_sequences)));
  return {};
}

ApiResult<Generation> read_generation(const Args& args,
                                      const ServeLimits& limits,
                                      const Tokenizer& tokenizer,
                                      const SamplingDefaults& defaults) {
  Generation g;
  const int n_vocab = tokenizer.n_vocab();
  QR_TRY_VOID(read_penalties(args, limits, tokenizer, defaults, g.sampling));
  QR_TRY_VOID(read_filters(args, n_vocab, defaults, g.sampling));
  QR_TRY_VOID(read_lengths(args, defaults, g));
  g.seed_given = args.has("seed") || defaults.seed.has_value();
  g.sampling.seed =
      args.has("seed") ? static_cast<uint64_t>(args.integer("seed", 0)) : defaults.seed.value_or(uint64_t{0});
  g.n = static_cast<int>(args.integer("n", 1));
  g.best_of = g.n;
  g.ignore_eos = args.flag("ignore_eos", false);
  g.include_stop = args.flag("include_stop_str_in_output", false);
  g.skip_special = args.flag("skip_special_tokens", true);
  g.sampling.n_prompt_logprobs = count(args, "prompt_logprobs", -1);
  g.priority = static_cast<int>(args.integer("priority", 0));
  g.deadline_ms = args.integer("deadline_ms", 0);
  g.kv_budget = static_cast<int>(std::min<int64_t>(args.integer("kv_budget", 0), std::numeric_limits<int>::max()));
  if (const Json* guesses = args.find("speculation")) {
    const bool* on = guesses->as_bool();
    g.max_draft = on == nullptr ? static_cast<int>(args.integer("speculation", -1)) : *on ? -1 : 0;
  }
  g.cache_salt = hash_salt(args.text("cache_salt"));
  g.match_prefix = !args.flag("skip_reading_prefix_cache", false) && args.flag("cache_prompt", true);
  if (const Json* stop = args.find("stop")) QR_TRY_VOID(read_stops(*stop, args.sent_as("stop"), limits, g.stops));
  if (const Json* ids = args.find("stop_token_ids"))
    QR_TRY_VOID(read_token_ids(*ids, "stop_token_ids", n_vocab, g.stop_ids));
  if (const Json* bias = args.find("logit_bias"))
    QR_TRY_VOID(read_logit_bias(*bias, limits, tokenizer, g.sampling.logit_bias));
  if (const Json* ids = args.find("allowed_token_ids")) {
    std::vector<Token> allowed;
    QR_TRY_VOID(read_token_ids(*ids, "allowed_token_ids", n_vocab, allowed));
    g.sampling.allowed_mask = mask_of(allowed, n_vocab);
    g.sampling.allowed_ids = std::move(allowed);
  }
  QR_TRY_VOID(read_bad_words(args, limits, tokenizer, g.sampling.bad_words));
  return g;
}

}  // namespace quire
