// Scripts as JSON. One list of fields per struct serves both directions; what has its default value is left out, so a
// small script is a short line.
#include <type_traits>

#include "tests/sim/script.h"

namespace quire::sim {
namespace {

template <class F>
void fields(Knobs& k, F&& f) {
  f("max_seqs", k.max_seqs);
  f("step_tokens", k.step_tokens);
  f("max_chunk", k.max_chunk);
  f("n_ctx", k.n_ctx);
  f("block_tokens", k.block_tokens);
  f("n_blocks", k.n_blocks);
  f("max_queue", k.max_queue);
  f("window", k.window);
  f("n_window_blocks", k.n_window_blocks);
  f("n_sinks", k.n_sinks);
  f("prefix_cache", k.prefix_cache);
  f("policy", k.policy);
  f("allowance", k.allowance);
  f("kv_policy", k.kv_policy);
  f("recompute_percent", k.recompute_percent);
  f("tier_blocks", k.tier_blocks);
  f("tier_read_ns", k.tier_read_ns);
  f("tier_fault_in", k.tier_fault_in);
  f("remote_blocks", k.remote_blocks);
  f("remote_ask_ns", k.remote_ask_ns);
  f("remote_read_ns", k.remote_read_ns);
  f("remote_before", k.remote_before);
  f("max_draft", k.max_draft);
  f("max_side", k.max_side);
  f("guess", k.guess);
  f("itl_target_ms", k.itl_target_ms);
  f("step_target_us", k.step_target_us);
  f("base_ns", k.base_ns);
  f("row_ns", k.row_ns);
  f("context_ns", k.context_ns);
  f("noise", k.noise);
}
template <class F>
void fields(Piece& p, F&& f) {
  f("text", p.text);
  f("n", p.n);
}
template <class F>
void fields(RequestScript& r, F&& f) {
  f("arrival_ns", r.arrival_ns);
  f("prompt", r.prompt);
  f("poison", r.poison);
  f("max_tokens", r.max_tokens);
  f("temperature", r.temperature);
  f("top_k", r.top_k);
  f("seed", r.seed);
  f("stop_id", r.stop_id);
  f("end_after", r.end_after);
  f("no_repeats", r.no_repeats);
  f("salt", r.salt);
  f("n_public", r.n_public);
  f("priority", r.priority);
  f("deadline_ns", r.deadline_ns);
  f("tenant", r.tenant);
  f("weight", r.weight);
  f("cancel_ns", r.cancel_ns);
  f("fault", r.fault);
  f("at", r.at);
}
template <class F>
void fields(StepFault& s, F&& f) {
  f("kind", s.kind);
  f("step", s.step);
  f("value", s.value);
}
template <class F>
void fields(Script& s, F&& f) {
  f("seed", s.seed);
  f("knobs", s.knobs);
  f("requests", s.requests);
  f("faults", s.faults);
  f("no_memory", s.no_memory);
}

template <class T>
Json write(const T& value);

template <class T>
Json write_one(const T& v) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return v;
  } else if constexpr (std::is_floating_point_v<T>) {
    return double{v};
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return static_cast<int64_t>(v);
  } else {
    return write(v);
  }
}
template <class T>
Json write_one(const std::vector<T>& values) {
  Json::Array out;
  for (const T& v : values) out.push_back(write_one(v));
  return out;
}
template <class T>
Json write(const T& value) {
  T copy = value;
  T plain;
  std::vector<Json> defaults;
  fields(plain, [&](const char*, auto& v) { defaults.push_back(write_one(v)); });
  Json out = Json::Object{};
  size_t i = 0;
  fields(copy, [&](const char* name, auto& v) {
    Json json = write_one(v);
    if (!(json == defaults[i++])) out.set(name, std::move(json));
  });
  return out;
}

template <class T>
bool read(const Json& json, T& out);

template <class T>
bool read_one(const Json& json, T& out) {
  if constexpr (std::is_same_v<T, bool>) {
    if (json.as_bool() != nullptr) out = *json.as_bool();
    return json.as_bool() != nullptr;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (json.as_string() != nullptr) out = *json.as_string();
    return json.as_string() != nullptr;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (json.is_number()) out = static_cast<T>(json.number());
    return json.is_number();
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    if (json.as_int() != nullptr) out = static_cast<T>(*json.as_int());
    return json.as_int() != nullptr;
  } else {
    return read(json, out);
  }
}
template <class T>
bool read_one(const Json& json, std::vector<T>& out) {
  if (json.as_array() == nullptr) return false;
  for (const Json& each : *json.as_array()) {
    if (!read_one(each, out.emplace_back())) return false;
  }
  return true;
}
template <class T>
bool read(const Json& json, T& out) {
  if (json.as_object() == nullptr) return false;
  bool ok = true;
  fields(out, [&](const char* name, auto& v) {
    const Json* field = json.find(name);
    if (field != nullptr && !read_one(*field, v)) ok = false;
  });
  return ok;
}

}  // namespace

std::string to_json(const Script& script) { return write(script).dump(); }

Result<Script> script_from_json(std::string_view text) {
  QR_TRY(const Json json, Json::parse(text));
  Script out;
  if (!read(json, out)) return fail(Code::invalid, "this is no script of the simulation");
  return out;
}

}  // namespace quire::sim
