// The fields of a recording's lines, each named once for writing and reading. Included by recording.cc and its reader.
#pragma once
#include <concepts>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/recording.h"
#include "sample/constraint.h"
#include "sample/filters.h"
#include "sample/thinking_budget.h"

namespace quire::recording {

template <class F>
void fields(EngineOptions& o, F&& f) {
  f("max_seqs", o.max_seqs);
  f("step_tokens", o.step_tokens);
  f("max_chunk", o.max_chunk);
  f("n_ctx", o.n_ctx);
  f("kv_bytes", o.kv_bytes);
  f("block_tokens", o.block_tokens);
  f("max_queue", o.max_queue);
  f("prefix_cache", o.prefix_cache);
  f("itl_target_ms", o.itl_target_ms);
  f("step_target_ms", o.step_target_ms);
  f("policy", o.policy);
  f("allowance", o.allowance);
  f("kv_policy", o.kv_policy);
  f("retain_share", o.retain_share);
  f("recompute_share", o.recompute_share);
  f("swap_bytes", o.swap_bytes);
  f("proposer", o.proposer);
  f("max_draft", o.max_draft);
  f("max_side", o.max_side);
}

template <class F>
void fields(SamplingParams& p, F&& f) {
  for_each_filter_field(
      [&](const FilterField& field, auto& value) {
        f(field.name.data(), value);  // NOLINT(bugprone-suspicious-stringview-data-usage): names are literals
      },
      p);
  f("min_keep", p.min_keep);
  f("order", p.order);
  f("mirostat", p.mirostat);
  f("mirostat_tau", p.mirostat_tau);
  f("mirostat_eta", p.mirostat_eta);
  f("top_p_decay", p.top_p_decay);
  f("top_p_min", p.top_p_min);
  f("top_p_reset_id", p.top_p_reset_id);
  f("repetition_penalty", p.repetition_penalty);
  f("presence_penalty", p.presence_penalty);
  f("frequency_penalty", p.frequency_penalty);
  f("repeat_last_n", p.repeat_last_n);
  f("dry_multiplier", p.dry_multiplier);
  f("dry_base", p.dry_base);
  f("dry_allowed_length", p.dry_allowed_length);
  f("dry_last_n", p.dry_last_n);
  f("dry_breakers", p.dry_breakers);
  f("no_repeat_ngram_size", p.no_repeat_ngram_size);
  f("logit_bias", p.logit_bias);
  f("allowed_ids", p.allowed_ids);
  f("bad_words", p.bad_words);
  f("min_tokens", p.min_tokens);
  f("constraint", p.constraint);
  f("thinking", p.thinking);
  f("seed", p.seed);
  f("n_logprobs", p.n_logprobs);
  f("n_prompt_logprobs", p.n_prompt_logprobs);
}

// Compiled again where it is needed: what it was compiled to is not recorded.
template <class F>
void fields(Constraint& c, F&& f) {
  f("source", c.source);
  f("field", c.field);
}

// Likewise without the vocabulary.
template <class F>
void fields(ThinkingBudget& b, F&& f) {
  f("n_tokens", b.n_tokens);
  f("field", b.field);
  f("open", b.open);
  f("close", b.close);
  f("open_id", b.open_id);
  f("close_id", b.close_id);
  f("closing", b.closing);
}

template <class F>
void fields(Edit& e, F&& f) {
  f("id", e.id);
  f("add", e.add);
  f("mul", e.mul);
}

template <class F>
void fields(RecordedPrefix& p, F&& f) {
  f("content", p.content);
  f("n", p.n);
}

template <class F>
void fields(RetentionRange& r, F&& f) {
  f("begin", r.begin);
  f("end", r.end);
  f("priority", r.priority);
  f("duration_ns", r.duration_ns);
}

template <class F>
void fields(RecordedRequest& r, F&& f) {
  f("id", r.id);
  f("at", r.at_ns);
  f("prompt", r.request.prompt);
  f("max_tokens", r.request.max_tokens);
  f("stop_ids", r.request.stop_ids);
  f("ignore_eos", r.request.ignore_eos);
  f("salt", r.request.cache_salt);
  f("n_public", r.request.n_public);
  f("prefix", r.request.prefix);
  f("priority", r.request.priority);
  f("tenant", r.request.tenant);
  f("weight", r.request.weight);
  f("deadline", r.request.deadline_ns);
  f("sampling", r.request.sampling);
  f("match_prefix", r.request.match_prefix);
  f("pool", r.request.pool);
  f("max_draft", r.request.max_draft);
  f("retention", r.request.retention);
}

template <class T>
concept Text64 = std::same_as<T, uint64_t>;
template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

template <class T>
Json write(const T& value);
template <class T>
Json write(const std::vector<T>& values);
template <class T>
Json write(const SharedList<T>& values);
template <class T>
Json write(const std::shared_ptr<const T>& value);
template <class T>
Json write(const std::optional<T>& value) {
  return value ? write(*value) : Json();
}
template <>
inline Json write(const bool& v) {
  return v;
}
template <>
inline Json write(const std::string& v) {
  return v;
}
template <class T>
Json write(const T& value) {
  if constexpr (Text64<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    // Edits may be infinite, and JSON has no such number.
    const double most = std::numeric_limits<float>::max();
    return double{value} > most ? Json("inf") : double{value} < -most ? Json("-inf") : Json(double{value});
  } else if constexpr (Number<T>) {
    return static_cast<int64_t>(value);
  } else {
    Json out = Json::Object{};
    fields(const_cast<T&>(value), [&out](const char* name, const auto& v) { out.set(name, write(v)); });
    return out;
  }
}
template <class T>
Json write(const std::vector<T>& values) {
  Json::Array out;
  out.reserve(values.size());
  for (const T& v : values) out.push_back(write(v));
  return out;
}

template <class T>
Json write(const std::shared_ptr<const T>& value) {
  return value != nullptr ? write(*value) : Json();
}

template <class T>
Json write(const SharedList<T>& values) {
  return write(std::vector<T>(values.begin(), values.end()));
}

// All readers: false when the value is of another kind or outside the type's range. `wrong` then names the field.
template <class T>
bool read(const Json& json, T& out, std::string& wrong);

inline bool read_u64(const Json& json, uint64_t& out) {
  const std::string* text = json.as_string();
  if (text == nullptr || text->empty() || text->size() > 20) return false;
  uint64_t value = 0;
  for (const char c : *text) {
    if (c < '0' || c > '9' || __builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(c - '0'), &value)) {
      return false;
    }
  }
  out = value;
  return true;
}
template <class T>
bool read_float(const Json& json, T& out) {
  if (const std::string* text = json.as_string()) {
    out = std::numeric_limits<T>::infinity() * static_cast<T>(*text == "-inf" ? -1 : 1);
    return *text == "inf" || *text == "-inf";
  }
  out = static_cast<T>(json.number());
  return json.is_number();
}
template <class T>
bool read(const Json& json, std::optional<T>& out, std::string& wrong) {
  if (!json.is_null()) return read(json, out.emplace(), wrong);
  out.reset();
  return true;
}
template <class T>
bool read(const Json& json, std::vector<T>& out, std::string& wrong) {
  if (json.as_array() == nullptr) return false;
  out.clear();
  out.reserve(json.as_array()->size());
  for (const Json& each : *json.as_array()) {
    if (!read(each, out.emplace_back(), wrong)) return false;
  }
  return true;
}
template <class T>
bool read(const Json& json, SharedList<T>& out, std::string& wrong) {
  std::vector<T> values;
  if (!read(json, values, wrong)) return false;
  out = std::move(values);
  return true;
}
template <class T>
bool read(const Json& json, std::shared_ptr<const T>& out, std::string& wrong) {
  out.reset();
  if (json.is_null()) return true;
  auto value = std::make_shared<T>();
  if (!read(json, *value, wrong)) return false;
  out = std::move(value);
  return true;
}
// Whether a number is one of the type's, where that has names for some alone.
template <class T>
constexpr bool is_known(T) {
  return true;
}
constexpr bool is_known(Filter filter) { return static_cast<size_t>(filter) < Filters::kSize; }
constexpr bool is_known(Pool pool) { return pool <= Pool::all; }
template <class T>
bool read_fields(const Json& json, T& out, std::string& wrong) {
  if (json.as_object() == nullptr) return false;
  bool ok = true;
  fields(out, [&](const char* name, auto& v) {
    const Json* field = json.find(name);
    if (field == nullptr || !ok) return;
    ok = read(*field, v, wrong);
    if (!ok && wrong.empty()) wrong = name;
  });
  return ok;
}
template <class T>
bool read(const Json& json, T& out, std::string& wrong) {
  if constexpr (std::is_same_v<T, bool>) {
    if (json.as_bool() != nullptr) out = *json.as_bool();
    return json.as_bool() != nullptr;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (json.as_string() != nullptr) out = *json.as_string();
    return json.as_string() != nullptr;
  } else if constexpr (Text64<T>) {
    return read_u64(json, out);
  } else if constexpr (std::is_floating_point_v<T>) {
    return read_float(json, out);
  } else if constexpr (Number<T>) {
    const int64_t* v = json.as_int();
    if (v == nullptr || (sizeof(T) < 8 && *v != static_cast<int64_t>(static_cast<T>(*v)))) return false;
    out = static_cast<T>(*v);
    return is_known(out);
  } else {
    return read_fields(json, out, wrong);
  }
}

}  // namespace quire::recording
