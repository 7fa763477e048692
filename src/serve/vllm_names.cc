#include "serve/vllm_names.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

constexpr std::string_view kOurs = "quire_", kTheirs = "vllm:";
constexpr std::array<std::string_view, 28> kShared = {
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "num_preemptions_total",
    "prompt_tokens_total",
    "prompt_tokens_cached_total",
    "generation_tokens_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "request_max_num_generation_tokens",
    "request_params_max_tokens",
    "request_params_n",
    "request_success_total",
    "cache_config_info",
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "spec_decode_num_accepted_tokens_per_pos_total",
};

bool is_shared(std::string_view name) {
  for (const std::string_view shared : kShared)
    if (shared == name) return true;
  return false;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string joined(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out.append(out.empty() ? "" : ",").append(escaped(name));
  return out;
}

// "# HELP quire_x text" or "# TYPE quire_x kind": the name stands third.
std::string_view name_of_comment(std::string_view line) {
  constexpr size_t kPrefix = 7;  // "# HELP "
  const std::string_view rest = line.substr(std::min(line.size(), kPrefix));
  return rest.substr(0, rest.find(' '));
}

// The lines of the families that `theirs` names, under those names; it returns an empty name for the others.
template <class Name>
void append_renamed(std::string_view text, const std::string& label, std::string& out, Name theirs) {
  std::string_view ours;
  std::string name;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('#')) {
      ours = name_of_comment(line);
      name = ours.starts_with(kOurs) ? theirs(ours.substr(kOurs.size())) : std::string();
      if (name.empty()) continue;
      const size_t at = line.find(kOurs);
      out.append(line.substr(0, at)).append(name).append(line.substr(at + ours.size())).append("\n");
      continue;
    }
    if (name.empty() || !line.starts_with(ours)) continue;
    const size_t brace = line.find('{'), blank = line.find(' ');
    out.append(name).append(line.substr(ours.size(), std::min(brace, blank) - ours.size())).append("{").append(label);
    if (brace < blank)
      out.append(",").append(line.substr(brace + 1));
    else
      out.append("}").append(line.substr(blank));
    out += '\n';
  }
}

}  // namespace

std::string vllm_lines(std::string_view text, std::string_view model) {
  const std::string label = "model_name=\"" + escaped(model) + "\",engine=\"0\"";
  std::string out;
  append_renamed(text, label, out, [](std::string_view name) {
    return is_shared(name) ? std::string(kTheirs).append(name) : std::string();
  });
  // What it was called before, which dashboards still ask for.
  append_renamed(text, label, out, [](std::string_view name) {
    return std::string(name == "inter_token_latency_seconds" ? "vllm:time_per_output_token_seconds" : "");
  });
  return out;
}

AdapterUse::AdapterUse(const RequestViews& engine) {
  for (const RequestView& view : engine.views)
    if (view.running) runs_.insert(view.id);
}

std::string vllm_adapter_lines(const AdapterUse& use, int64_t n_most, int64_t now_s) {
  const std::string name = "vllm:lora_requests_info";
  return "# HELP " + name +
         " Adapters that requests run with and wait for, as labels; the value is the time of day.\n# TYPE " + name +
         " gauge\n" + name + "{max_lora=\"" + std::to_string(n_most) + "\",running_lora_adapters=\"" +
         joined(use.running()) + "\",waiting_lora_adapters=\"" + joined(use.waiting()) + "\"} " +
         std::to_string(now_s) + "\n";
}

}  // namespace quire
