#include "serve/vllm_names.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

constexpr std::string_view kOurs = "quire_", kTheirs = "vllm:";
constexpr std::array<std::string_view, 25> kShared = {
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

// "# HELP quire_x text" or "# TYPE quire_x kind": the name stands third.
std::string_view name_of_comment(std::string_view line) {
  constexpr size_t kPrefix = 7;  // "# HELP "
  const std::string_view rest = line.substr(std::min(line.size(), kPrefix));
  return rest.substr(0, rest.find(' '));
}

}  // namespace

std::string vllm_lines(std::string_view text, std::string_view model) {
  const std::string label = "model_name=\"" + escaped(model) + "\"";
  std::string out;
  bool shared = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('#')) {
      const std::string_view name = name_of_comment(line);
      shared = name.starts_with(kOurs) && is_shared(name.substr(kOurs.size()));
      if (shared) {
        const size_t at = line.find(kOurs);
        out.append(line.substr(0, at)).append(kTheirs).append(line.substr(at + kOurs.size())).append("\n");
      }
      continue;
    }
    if (!shared || !line.starts_with(kOurs)) continue;
    const std::string_view sample = line.substr(kOurs.size());
    const size_t brace = sample.find('{'), blank = sample.find(' ');
    out.append(kTheirs).append(sample.substr(0, std::min(brace, blank))).append("{").append(label);
    if (brace < blank)
      out.append(",").append(sample.substr(brace + 1));
    else
      out.append("}").append(sample.substr(blank));
    out += '\n';
  }
  return out;
}

}  // namespace quire
