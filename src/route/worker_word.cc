#include "route/worker_word.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/json.h"

namespace quire {
namespace {

struct Names {
  std::string_view running, waiting;
};
constexpr Names kNames[] = {
    {"vllm:num_requests_running", "vllm:num_requests_waiting"},
    {"sglang:num_running_reqs", "sglang:num_queue_reqs"},
    {"llamacpp:requests_processing", "llamacpp:requests_deferred"},
    {"tgi_batch_current_size", "tgi_queue_size"},
};

std::optional<int64_t> count_of(double value) {
  if (!(value >= 0 && value <= static_cast<double>(kMostSaidRequests))) return std::nullopt;
  return static_cast<int64_t>(std::llround(value));
}

// `line` is "name value" or "name{labels} value", perhaps with a time behind it. Nullopt: it is not of this name.
std::optional<double> value_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return std::nullopt;
  line.remove_prefix(name.size());
  if (line.starts_with('{')) {
    const size_t end = line.rfind('}');  // a label's value may hold one
    if (end == std::string_view::npos) return std::nullopt;
    line.remove_prefix(end + 1);
  }
  if (!line.starts_with(' ')) return std::nullopt;
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
  double value = std::nan("");
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

}  // namespace

std::optional<WorkerWord> word_of_load(std::string_view body) {
  const Result<Json> read = Json::parse(body);
  if (!read) return std::nullopt;
  const auto field = [&](const char* name) -> std::optional<int64_t> {
    const Json* value = read->find(name);
    return value != nullptr && value->is_number() ? count_of(value->number()) : std::nullopt;
  };
  const auto running = field("running"), waiting = field("waiting");
  if (!running || !waiting) return std::nullopt;
  return WorkerWord{*running, *waiting};
}

std::optional<WorkerWord> word_of_metrics(std::string_view text) {
  std::optional<WorkerWord> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    for (const Names& names : kNames) {
      const auto running = value_of(line, names.running), waiting = value_of(line, names.waiting);
      if (!running && !waiting) continue;
      const auto n = count_of(running ? *running : *waiting);
      if (!n) return std::nullopt;
      if (!out) out.emplace();
      (running ? out->n_running : out->n_waiting) += *n;
      if (out->n() > kMostSaidRequests) return std::nullopt;
    }
  }
  return out;
}

}  // namespace quire
