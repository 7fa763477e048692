#include "model/hf_names.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>

#include "base/bounded_reader.h"
#include "base/log.h"
#include "io/hf_config.h"
#include "io/in_quotes.h"
#include "quant/convert.h"
#include "quant/kv_codec.h"

namespace quire {
namespace {

struct KeyRule {
  std::string_view theirs, ours;
};
constexpr KeyRule kKeys[] = {
    {"hidden_size", "embedding_length"},
    {"num_hidden_layers", "block_count"},
    {"intermediate_size", "feed_forward_length"},
    {"max_position_embeddings", "context_length"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"layer_norm_eps", "attention.layer_norm_epsilon"},
    {"norm_epsilon", "attention.layer_norm_epsilon"},
    {"norm_eps", "attention.layer_norm_epsilon"},
    {"sliding_window", "attention.sliding_window"},
    {"num_experts", "expert_count"},
    {"num_local_experts", "expert_count"},
    {"n_routed_experts", "expert_count"},
    {"n_shared_experts", "expert_shared_count"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"norm_topk_prob", "expert_weights_norm"},
};

constexpr NameRule kTensors[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {"model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {"model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {"model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {"model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias"},
    {"model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias"},
    {"model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias"},
    {"model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {"model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias"},
    {"model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {"model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight"},
    {"model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight"},
    {"model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight"},
    {"model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {"model.layers.{}.mlp.experts.{}.gate_proj.weight", "blk.{}.ffn_gate.{}.weight"},
    {"model.layers.{}.mlp.experts.{}.up_proj.weight", "blk.{}.ffn_up.{}.weight"},
    {"model.layers.{}.mlp.experts.{}.down_proj.weight", "blk.{}.ffn_down.{}.weight"},
    {"model.layers.{}.mlp.gate_proj.bias", "blk.{}.ffn_gate.bias"},
    {"model.layers.{}.mlp.up_proj.bias", "blk.{}.ffn_up.bias"},
    {"model.layers.{}.mlp.down_proj.bias", "blk.{}.ffn_down.bias"},
    {"model.layers.{}.mlp.shared_experts.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight"},
    {"model.layers.{}.mlp.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight"},
    {"model.layers.{}.mlp.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight"},
    {"model.layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
    {"model.norm.bias", "output_norm.bias"},
    {"model.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
    {"model.layers.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
    {"model.layers.{}.enorm.weight", "blk.{}.nextn.enorm.weight"},
    {"model.layers.{}.hnorm.weight", "blk.{}.nextn.hnorm.weight"},
    {"model.layers.{}.eh_proj.weight", "blk.{}.nextn.eh_proj.weight"},
    {"model.layers.{}.embed_tokens.weight", "blk.{}.nextn.embed_tokens.weight"},
    {"model.layers.{}.shared_head.norm.weight", "blk.{}.nextn.shared_head_norm.weight"},
    {"model.layers.{}.shared_head.head.weight", "blk.{}.nextn.shared_head_head.weight"},
};

// Where a model with further parts keeps its text model.
constexpr std::string_view kTextPrefixes[] = {"language_model.", "model.language_model."};

constexpr std::string_view kHole = "{}";

// Our name for `name` by this rule, or nothing.
std::optional<std::string> renamed_by(const NameRule& rule, std::string_view name) {
  std::string out;
  std::string_view theirs = rule.theirs;
  std::string_view ours = rule.ours;
  for (size_t hole = theirs.find(kHole); hole != std::string_view::npos; hole = theirs.find(kHole)) {
    if (!name.starts_with(theirs.substr(0, hole))) return {};
    name.remove_prefix(hole);
    const size_t n_digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (n_digits == 0 || n_digits > 6) return {};
    const size_t to = ours.find(kHole);
    out += std::string(ours.substr(0, to)) + std::string(name.substr(0, n_digits));
    name.remove_prefix(n_digits);
    theirs.remove_prefix(hole + kHole.size());
    ours.remove_prefix(to + kHole.size());
  }
  return name == theirs ? std::optional(out + std::string(ours)) : std::nullopt;
}

// In the order in which they are tried.
std::array<std::span<const NameRule>, 2> lists(const HfRules& rules) { return {rules.tensors, kTensors}; }

// Their name for our `name`; ours where no rule has one. Experts that lie one by one are named by the first.
std::string spelling_of(std::string_view name, const HfRules& rules) {
  constexpr std::string_view kStacked = "_exps.weight";
  std::string plain(name);
  if (name.ends_with(kStacked)) plain = std::string(name.substr(0, name.size() - kStacked.size())) + ".0.weight";
  for (const auto list : lists(rules)) {
    for (const NameRule& rule : list) {
      if (auto theirs = renamed_by({rule.ours, rule.theirs}, plain)) return std::move(*theirs);
    }
  }
  return std::string(name);
}

// The same tensor with 1 added to every element, as F32 in the file's own memory.
void add_one(HostWeight& weight, ModelFile& file) {
  const auto n = static_cast<size_t>(weight.n_rows() * weight.n_cols());
  const WeightFormat& f32 = *find_weight_format("f32");
  auto bytes = std::make_shared<std::vector<std::byte>>(n * 4);
  for (size_t i = 0; i < n; ++i) {
    float value = 0;
    weight.format->decode(weight.data.data() + i * static_cast<size_t>(weight.format->bytes), &value);
    value += 1.0F;
    f32.encode(&value, bytes->data() + i * 4);
  }
  weight.format = &f32;
  weight.data = *bytes;
  file.owned.push_back(std::move(bytes));
}

// Whether this rule reads numbers one by one, and not rows as products multiply with them.
bool needs_floats(const HostWeight& weight, const NameRule& rule) {
  // Rows of these are looked up, or turned over while they load.
  const bool has_place = rule.ours == "token_embd.weight" || rule.ours == "blk.{}.attn_kv_b.weight";
  return (rule.reshape != nullptr && !rule.keeps_rows) || rule.plus_one || (has_place && !weight.order().empty());
}

// A quantised tensor as F32, its columns in order, whose bytes lie in `room`.
Result<HostWeight> decoded(const HostWeight& weight, std::vector<std::byte>& room) {
  const WeightFormat& f32 = *find_weight_format("f32");
  room.resize(static_cast<size_t>(weight.n_rows() * f32.row_bytes(weight.n_cols())));
  QR_TRY_VOID(convert_weight(weight, f32, {.quick = true}, room.data()));
  return HostWeight{.name = weight.name, .format = &f32, .shape = weight.shape, .data = room};
}

// Adds to `out` all that the rules make of one tensor.
Status translate_tensor(const HostWeight& weight,
                        const std::vector<Renamed>& made,
                        const Metadata& facts,
                        ModelFile& out) {
  const auto room = std::make_shared<std::vector<std::byte>>();
  HostWeight floats;  // of a quantised tensor, once a rule needs them
  for (const Renamed& ours : made) {
    const bool is_decoded = weight.made != nullptr && needs_floats(weight, *ours.rule);
    if (is_decoded && room->empty()) {
      QR_TRY(floats, decoded(weight, *room));
    }
    const HostWeight& theirs = is_decoded ? floats : weight;
    HostWeight& added = out.tensors.emplace_back(theirs);
    added.name = ours.name;
    if (ours.rule->reshape != nullptr) QR_TRY_VOID(ours.rule->reshape(theirs, facts, added, out));
    if (ours.rule->plus_one) add_one(added, out);
    if (is_decoded && added.data.data() == room->data()) out.owned.push_back(room);  // another shape alone
  }
  return {};
}

Status translate_tensors(const ModelFile& folder, const HfRules& rules, ModelFile& out) {
  int64_t n_left = 0;
  std::string first_left;
  for (const HostWeight& weight : folder.tensors) {
    const std::vector<Renamed> made = our_names(weight.name, rules);
    if (made.empty() && n_left++ == 0) first_left = weight.name;
    QR_TRY_VOID(translate_tensor(weight, made, folder.meta, out));
  }
  out.sort_tensors();
  const auto twin = std::adjacent_find(out.tensors.begin(), out.tensors.end(),
                                       [](const HostWeight& a, const HostWeight& b) { return a.name == b.name; });
  if (twin != out.tensors.end()) return fail(Code::corrupt, "two tensors mean " + out.shown(twin->name));
  if (n_left > 0) {
    log_warn(folder.path + ": " + std::to_string(n_left) + " tensors are not used, " + in_quotes(first_left) +
             " is the first");
  }
  return {};
}

// The head of a tied model is its embedding, whatever else the folder holds.
Status tie(const HfFacts& facts, ModelFile& out) {
  const MetaValue* said = facts.find("tie_word_embeddings");
  const bool* tied = said != nullptr ? std::get_if<bool>(said) : nullptr;
  if (said != nullptr && tied == nullptr) return fail(Code::corrupt, "key \"tie_word_embeddings\": must be a bool");
  if (tied == nullptr) return {};
  if (*tied) std::erase_if(out.tensors, [](const HostWeight& w) { return w.name == "output.weight"; });
  if (!*tied && !out.tensors.empty() && out.find("output.weight") == nullptr) {
    return fail(Code::not_found, "tensor \"lm_head.weight\": is missing, and tie_word_embeddings is false");
  }
  return {};
}

// How positions are scaled: "rope_parameters" (one, or one per kind of layer) or "rope_scaling".
Status translate_rope(HfFacts& facts) {
  facts.copy({"rope_parameters.full_attention.rope_theta", "rope_parameters.rope_theta", "rope_theta"},
             "rope.freq_base");
  for (const std::string prefix : {"rope_parameters.full_attention.", "rope_parameters.", "rope_scaling."}) {
    if (!facts.copy({prefix + "rope_type", prefix + "type"}, "rope.scaling.type")) continue;
    QR_TRY_VOID(facts.require(prefix + "rope_type",
                              {"default", "linear", "dynamic", "yarn", "llama3", "longrope", "su", "proportional"}));
    for (const KeyRule& rule : {KeyRule{"factor", "factor"},
                                {"low_freq_factor", "low_freq_factor"},
                                {"high_freq_factor", "high_freq_factor"},
                                {"attention_factor", "magnitude"},
                                {"beta_fast", "yarn_beta_fast"},
                                {"beta_slow", "yarn_beta_slow"},
                                {"mscale", "mscale"},
                                {"mscale_all_dim", "mscale_all_dim"},
                                {"truncate", "truncate"},
                                {"partial_rotary_factor", "partial_rotary_factor"},
                                {"short_mscale", "short_mscale"},
                                {"long_mscale", "long_mscale"},
                                {"short_factor", "short_factor"},
                                {"long_factor", "long_factor"}}) {
      facts.copy({prefix + std::string(rule.theirs)}, "rope.scaling." + std::string(rule.ours));
    }
    facts.copy(
        {"original_max_position_embeddings", prefix + "original_max_position_embeddings", "max_position_embeddings"},
        "rope.scaling.original_context_length");
    break;
  }
  return {};
}

// The part of a head that turns; a factor, or a number of components.
Status translate_partial(HfFacts& facts, const Metadata& ours, std::string_view arch) {
  const std::string_view key = facts.find("partial_rotary_factor") != nullptr ? "partial_rotary_factor"
                                                                              : "rope_parameters.partial_rotary_factor";
  if (facts.find(key) == nullptr) return {};
  QR_TRY(const double factor, facts.get_double(key, 1e-3, 1.0));
  const std::string prefix(arch);
  QR_TRY(const int64_t n_embd, ours.get_int(prefix + ".embedding_length", 1, 1 << 20));
  QR_TRY(const int64_t n_heads, ours.get_int(prefix + ".attention.head_count", 1, 4096));
  QR_TRY(const int64_t dim, ours.get_int_or(prefix + ".attention.key_length", 1, kMaxHeadDim, n_embd / n_heads));
  facts.set("rope.dimension_count", static_cast<int64_t>(static_cast<double>(dim) * factor), key);
  return {};
}

// Which layers see a window only, or keep a state: 1 and 0 in the layers' order.
Status translate_layers(HfFacts& facts, const std::vector<std::string_view>& state_layers) {
  const MetaValue* types = facts.find("layer_types");
  if (types == nullptr || std::get_if<std::vector<std::string>>(types) == nullptr) return {};
  const bool has_states = !state_layers.empty();
  const bool has_chunks = facts.find("attention_chunk_size") != nullptr;
  const std::vector<std::string_view> marks =
      has_states ? state_layers : std::vector<std::string_view>{has_chunks ? "chunked_attention" : "sliding_attention"};
  std::vector<std::string_view> known = {"full_attention"};
  if (has_states) known.push_back("attention");
  known.insert(known.end(), marks.begin(), marks.end());
  std::vector<int64_t> marked;
  for (const std::string& type : std::get<std::vector<std::string>>(*types)) {
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      std::string text = "key \"layer_types\": " + in_quotes(type) + " is not supported; known:";
      for (const std::string_view one : known) text += " " + std::string(one);
      return fail(Code::unsupported, text);
    }
    marked.push_back(std::find(marks.begin(), marks.end(), type) != marks.end() ? 1 : 0);
  }
  facts.set(has_states ? "attention.recurrent_layers" : "attention.sliding_window_pattern", std::move(marked),
            "layer_types");
  return {};
}

Status translate_facts(const ModelFile& folder, std::string_view arch, const HfRules& rules, ModelFile& out) {
  HfFacts facts(folder.meta, out.meta, arch);
  out.meta.values["general.architecture"] = std::string(arch);
  out.meta.values["general.name"] = (std::filesystem::path(folder.path) / "").parent_path().filename().string();
  for (const KeyRule& rule : kKeys) facts.copy({rule.theirs}, rule.ours);
  out.meta.values[std::string(arch) + ".rope.halves"] = true;
  QR_TRY_VOID(translate_rope(facts));
  QR_TRY_VOID(translate_partial(facts, out.meta, arch));
  if (!rules.lists_parts) QR_TRY_VOID(translate_layers(facts, rules.state_layers));
  if (rules.facts != nullptr) QR_TRY_VOID(rules.facts(facts));
  return tie(facts, out);
}

}  // namespace

// All that the first list makes of it that knows it.
std::vector<Renamed> our_names(std::string_view name, const HfRules& rules) {
  std::string plain(name);
  for (const std::string_view prefix : kTextPrefixes) {
    if (!name.starts_with(prefix)) continue;
    plain = std::string(name.substr(prefix.size()));
    if (!plain.starts_with("model.") && !plain.starts_with("lm_head.")) plain.insert(0, "model.");
  }
  std::vector<Renamed> out;
  for (const auto list : lists(rules)) {
    for (const NameRule& rule : list) {
      auto ours = renamed_by(rule, plain);
      if (ours && (out.empty() || (rule.reshape != nullptr && rule.theirs == out.front().rule->theirs))) {
        out.push_back({std::move(*ours), &rule});
      }
    }
    if (!out.empty()) break;
  }
  return out;
}

void HfFacts::set(std::string_view ours, MetaValue value, std::string_view theirs) {
  const std::string key = prefix_ + std::string(ours);
  ours_.values[key] = std::move(value);
  ours_.spelled[key] = theirs;
}

bool HfFacts::copy(std::initializer_list<std::string_view> theirs, std::string_view ours) {
  for (const std::string_view one : theirs) {
    const MetaValue* value = find(one);
    if (value == nullptr) continue;
    set(ours, *value, one);
    return true;
  }
  ours_.spelled.emplace(prefix_ + std::string(ours), *theirs.begin());
  return false;
}

Result<int64_t> HfFacts::get_int(std::string_view key, int64_t lo, int64_t hi) const {
  return theirs_.get_int(std::string(kHfPrefix) + std::string(key), lo, hi);
}

Result<int64_t> HfFacts::get_int_or(std::string_view key, int64_t lo, int64_t hi, int64_t fallback) const {
  return theirs_.get_int_or(std::string(kHfPrefix) + std::string(key), lo, hi, fallback);
}

Result<double> HfFacts::get_double(std::string_view key, double lo, double hi) const {
  return theirs_.get_double(std::string(kHfPrefix) + std::string(key), lo, hi);
}

Result<double> HfFacts::get_double_or(std::string_view key, double lo, double hi, double fallback) const {
  return theirs_.get_double_or(std::string(kHfPrefix) + std::string(key), lo, hi, fallback);
}

Status HfFacts::require_bool(std::string_view key, bool value) const {
  QR_TRY(const bool found, get_bool_or(key, value));
  if (found == value) return {};
  return fail(Code::unsupported,
              "key \"" + std::string(key) + "\": " + (found ? "true" : "false") + " is not supported");
}

Status HfFacts::require_number(std::string_view key, double value) const {
  QR_TRY(const double found, get_double_or(key, -1e30, 1e30, value));
  if (found == value) return {};
  return fail(Code::unsupported, "key \"" + std::string(key) + "\": only " + std::to_string(value) +
                                     " is supported, is " + std::to_string(found));
}

Result<bool> HfFacts::get_bool_or(std::string_view key, bool fallback) const {
  return theirs_.get_bool_or(std::string(kHfPrefix) + std::string(key), fallback);
}

Status HfFacts::choose_windows() {
  QR_TRY(const bool used, get_bool_or("use_sliding_window", false));
  if (!used) set("attention.sliding_window", int64_t{0}, "use_sliding_window");
  if (!used || find("layer_types") != nullptr) return {};
  QR_TRY(const int64_t n_layers, get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t first, get_int_or("max_window_layers", 0, int64_t{1} << 30, n_layers));
  std::vector<int64_t> local(static_cast<size_t>(n_layers), 1);
  std::fill_n(local.begin(), std::min(first, n_layers), 0);
  set("attention.sliding_window_pattern", std::move(local), "max_window_layers");
  return {};
}

Status HfFacts::require(std::string_view key, std::initializer_list<std::string_view> values) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return {};
  const auto* text = std::get_if<std::string>(value);
  if (text != nullptr && std::find(values.begin(), values.end(), *text) != values.end()) return {};
  std::string known;
  for (const std::string_view one : values) known += " " + std::string(one);
  return fail(Code::unsupported, "key \"" + std::string(key) + "\": " +
                                     (text != nullptr ? in_quotes(*text) + " is not supported" : "must be a string") +
                                     "; known:" + known);
}

Result<ModelFile> translate_hf(const ModelFile& folder, std::string_view arch, const HfRules& rules) {
  ModelFile out;
  out.path = folder.path;
  out.container = folder.container;
  out.file_bytes = folder.file_bytes;
  out.maps = folder.maps;
  out.spelling = [rules](std::string_view name) { return spelling_of(name, rules); };
  auto tensors = translate_tensors(folder, rules, out);
  if (!tensors) return error_within(folder.path, std::move(tensors).error());
  auto facts = translate_facts(folder, arch, rules, out);
  if (!facts) return error_within(folder.path + ": config.json", std::move(facts).error());
  return out;
}

}  // namespace quire
