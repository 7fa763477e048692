#include "model/lora_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "io/in_quotes.h"
#include "model/peft_folder.h"

namespace quire {
namespace {

// Keys that say nothing about the numbers, or what the tensors say too, or that are read below. All others must say
// nothing.
constexpr auto kKnownKeys = std::to_array<std::string_view>({
    "alora_invocation_tokens",
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "target_modules",
    "target_parameters",
    "task_type",
    "use_dora",
    "use_rslora",
});

// Ways of beginning a training that leave the model's own weights as they are.
constexpr auto kKnownBeginnings = std::to_array<std::string_view>({"eva", "gaussian", "orthogonal"});

Status check_keys(const Json& config) {
  for (const auto& [key, value] : *config.as_object()) {
    if (std::ranges::find(kKnownKeys, key) != kKnownKeys.end() || says_nothing(value)) continue;
    return fail(Code::unsupported,
                "key " + in_quotes(key) + ": is not supported for a LoRA adapter, found " + shown_json(&value));
  }
  return {};
}

Status check_kind(const Json& config) {
  const Json* type = config.find("peft_type");
  if (type == nullptr || type->as_string() == nullptr || *type->as_string() != "LORA")
    return fail(Code::unsupported, "key \"peft_type\": must be LORA, found " + shown_json(type));
  const Json* bias = config.find("bias");
  if (bias != nullptr && !says_nothing(*bias) && (bias->as_string() == nullptr || *bias->as_string() != "none"))
    return fail(Code::unsupported, "key \"bias\": must be \"none\", found " + shown_json(bias));
  const Json* begin = config.find("init_lora_weights");
  if (begin == nullptr || begin->is_null() || begin->as_bool() != nullptr) return check_task(config);
  if (begin->as_string() == nullptr ||
      std::ranges::find(kKnownBeginnings, *begin->as_string()) == kKnownBeginnings.end())
    return fail(Code::unsupported,
                "key \"init_lora_weights\": must be true, false, eva, gaussian or orthogonal, which "
                "leave the model as it is, found " +
                    shown_json(begin));
  return check_task(config);
}

// A rank is a whole number, a factor any that is finite.
Result<double> number(const std::string& key, const Json* value, bool is_rank) {
  const bool fits = value != nullptr && (value->as_int() != nullptr || (!is_rank && value->as_double() != nullptr));
  const double found = fits ? value->number() : 0;
  if (is_rank && (!fits || found < 1 || found > kMaxLoraRank))
    return fail(Code::corrupt, "key " + in_quotes(key) + ": must be 1 to " + std::to_string(kMaxLoraRank) + ", found " +
                                   shown_json(value));
  if (!fits || !std::isfinite(found))
    return fail(Code::corrupt, "key " + in_quotes(key) + ": must be a number, found " + shown_json(value));
  return found;
}

// PEFT's patterns are regular expressions, of which those are read that are names: "q_proj", "layers.3.mlp.up_proj",
// "^model.layers.0.self_attn.q_proj$", ".*\.self_attn\.q_proj".
Result<LoraConfig::Pattern> pattern(const std::string& key, std::string_view text) {
  LoraConfig::Pattern out;
  std::string_view left = text;
  const auto skip = [&left](std::string_view front) {
    const bool is_there = left.starts_with(front);
    if (is_there) left.remove_prefix(front.size());
    return is_there;
  };
  out.whole = skip("^");
  out.within = skip(".*");
  out.whole = out.whole && !out.within;
  if (left.ends_with('$')) left.remove_suffix(1);
  while (!left.empty()) {
    if (!skip("\\.")) {
      const char c = left.front();
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                         c == '-' || c == '.';
      if (!plain)
        return fail(Code::unsupported, "key " + in_quotes(key) + ": " + in_quotes(text) +
                                           " is not the name of modules; other patterns are not supported");
      out.name += c;
      left.remove_prefix(1);
    } else {
      out.name += '.';
    }
  }
  return out;
}

Status read_patterns(const Json& config, const std::string& key, std::vector<LoraConfig::Pattern>& out) {
  const Json* patterns = config.find(key);
  if (patterns == nullptr || says_nothing(*patterns)) return {};
  if (patterns->as_object() == nullptr)
    return fail(Code::corrupt, "key " + in_quotes(key) + ": must be an object, found " + shown_json(patterns));
  for (const auto& [text, value] : *patterns->as_object()) {
    QR_TRY(LoraConfig::Pattern one, pattern(key, text));
    QR_TRY(one.value, number(key + "." + text, &value, key == "rank_pattern"));
    out.push_back(std::move(one));
  }
  return {};
}

// False where it is absent or null.
Result<bool> flag(const Json& config, const char* key) {
  const Json* value = config.find(key);
  if (value == nullptr || value->is_null()) return false;
  if (value->as_bool() != nullptr) return *value->as_bool();
  return fail(Code::corrupt, "key " + in_quotes(key) + ": must be true or false, found " + shown_json(value));
}

Status read_names(const Json& config, const std::string& key, std::vector<std::string>& out) {
  const Json* names = config.find(key);
  if (names == nullptr || names->is_null()) return {};
  const std::string wanted = "key " + in_quotes(key) + ": must be a list of names, found ";
  if (names->as_array() == nullptr) return fail(Code::corrupt, wanted + shown_json(names));
  for (const Json& name : *names->as_array()) {
    if (name.as_string() == nullptr) return fail(Code::corrupt, wanted + shown_json(&name));
    out.push_back(*name.as_string());
  }
  return {};
}

// A string is a regular expression over modules: the tensors say which it fits.
Status read_targets(const Json& config, std::vector<std::string>& out) {
  const Json* targets = config.find("target_modules");
  if (targets != nullptr && targets->as_string() != nullptr) return {};
  return read_names(config, "target_modules", out);
}

Status read_invocation(const Json& config, const LoraConfig& read, std::vector<int64_t>& out) {
  const std::string key = "alora_invocation_tokens";
  const Json* tokens = config.find(key);
  if (tokens == nullptr || says_nothing(*tokens)) return {};
  const auto bad = [&](const Json* found) {
    return fail(Code::corrupt, "key " + in_quotes(key) + ": must be a list of tokens, found " + shown_json(found));
  };
  if (tokens->as_array() == nullptr) return bad(tokens);
  for (const Json& token : *tokens->as_array()) {
    if (token.as_int() == nullptr) return bad(&token);
    out.push_back(*token.as_int());
  }
  // PEFT refuses to make these.
  if (!read.scales_rows && read.parameters.empty()) return {};
  return fail(Code::unsupported, "key " + in_quotes(key) + ": is not supported beside " +
                                     (read.scales_rows ? "use_dora" : "target_parameters"));
}

bool ends_in(std::string_view module, std::string_view name) {
  if (!module.ends_with(name)) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

// The parameters of all of a layer's experts, in the order in which modules have them. Then that of other modules.
constexpr auto kStacked = std::to_array<std::string_view>({"gate_up_proj", "up_proj", "down_proj"});
constexpr std::string_view kWeight = "weight";

using Version = std::array<int, 3>;
constexpr Version kFirstUnswapped = {0, 19, 1};

// The numbers in front: "0.19.1.dev0" is 0.19.1, "0.19" is 0.19.0, what has no number in front is 0.0.0.
Version version_of(std::string_view text) {
  Version out{};
  const char* const end = text.data() + text.size();
  const char* at = text.data();
  for (int& number : out) {
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return {};
    if (next == end || *next != '.') break;
    at = next + 1;
  }
  return out;
}

// Earlier versions have A and B of experts' parameters the other way round, which their shapes need not tell.
Status check_version(const Json& config, const std::vector<std::string>& parameters) {
  const bool has_stack = std::ranges::any_of(parameters, [](const std::string& one) {
    return std::ranges::any_of(kStacked, [&](std::string_view name) { return ends_in(one, name); });
  });
  const Json* version = config.find("peft_version");
  const std::string* text = version == nullptr ? nullptr : version->as_string();
  if (!has_stack || (text != nullptr && version_of(*text) >= kFirstUnswapped)) return {};
  return fail(Code::unsupported,
              "key \"peft_version\": must be 0.19.1 or later where target_parameters names experts, found " +
                  shown_json(version));
}

}  // namespace

bool LoraConfig::Pattern::fits(std::string_view module) const {
  if (whole) return module == name;
  return within ? module.ends_with(name) : ends_in(module, name);
}

int LoraConfig::rank_of(std::string_view module) const {
  const auto at = std::ranges::find_if(ranks, [&](const Pattern& one) { return one.fits(module); });
  return at == ranks.end() ? rank : static_cast<int>(at->value);
}

double LoraConfig::factor_of(std::string_view module) const {
  const auto at = std::ranges::find_if(alphas, [&](const Pattern& one) { return one.fits(module); });
  const double by = rank_of(module);
  return (at == alphas.end() ? alpha : at->value) / (by_root ? std::sqrt(by) : by);
}

bool LoraConfig::targets_module(std::string_view module) const {
  return targets.empty() || ties ||
         std::ranges::any_of(targets, [&](const std::string& name) { return ends_in(module, name); });
}

std::string LoraConfig::parameter_of(std::string_view module) const {
  constexpr std::string_view kWrapped = ".base_layer";
  size_t n_around = 0;
  for (; module.ends_with(kWrapped); ++n_around) module.remove_suffix(kWrapped.size());
  std::vector<std::string> wrapped;
  const auto add = [&](std::string_view name) {
    const std::string key = std::string(module) + "." + std::string(name);
    if (std::ranges::any_of(parameters, [&](const std::string& one) { return ends_in(key, one); }))
      wrapped.push_back(key);
  };
  std::ranges::for_each(kStacked, add);
  add(kWeight);
  return n_around < wrapped.size() ? wrapped[wrapped.size() - 1 - n_around] : "";
}

Result<LoraConfig> read_lora_config(const Json& config) {
  if (config.as_object() == nullptr) return fail(Code::corrupt, "must be an object");
  QR_TRY_VOID(check_kind(config));
  QR_TRY_VOID(check_keys(config));
  LoraConfig out;
  QR_TRY(const double rank, number("r", config.find("r"), true));
  out.rank = static_cast<int>(rank);
  QR_TRY(out.alpha, number("lora_alpha", config.find("lora_alpha"), false));
  QR_TRY(out.by_root, flag(config, "use_rslora"));
  QR_TRY(out.scales_rows, flag(config, "use_dora"));
  QR_TRY(out.ties, flag(config, "ensure_weight_tying"));
  QR_TRY_VOID(read_patterns(config, "rank_pattern", out.ranks));
  QR_TRY_VOID(read_patterns(config, "alpha_pattern", out.alphas));
  QR_TRY_VOID(read_targets(config, out.targets));
  QR_TRY_VOID(read_names(config, "target_parameters", out.parameters));
  QR_TRY_VOID(check_version(config, out.parameters));
  QR_TRY_VOID(read_invocation(config, out, out.invocation));
  return out;
}

}  // namespace quire
