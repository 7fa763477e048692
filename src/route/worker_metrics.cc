#include "route/worker_metrics.h"

#include <string_view>

namespace quire {
namespace {

struct Row {
  std::string_view name, kind, help;
  int64_t (*value)(const WorkerFacts& worker);
  bool of_events = false;
};

constexpr Row kRows[] = {
    {"quire_worker_usable", "gauge", "Whether the worker may be given requests.",
     [](const WorkerFacts& w) -> int64_t { return w.state.usable ? 1 : 0; }},
    {"quire_worker_load_tokens", "gauge", "What it has to do, as estimated.",
     [](const WorkerFacts& w) { return w.state.load_tokens; }},
    {"quire_worker_requests", "gauge", "Requests that it has.",
     [](const WorkerFacts& w) { return w.state.n_requests; }},
    {"quire_worker_requests_total", "counter", "Requests that a worker was given.",
     [](const WorkerFacts& w) { return static_cast<int64_t>(w.state.n_given); }},
    {"quire_worker_failures_total", "counter", "Of them, failed by its fault.",
     [](const WorkerFacts& w) { return static_cast<int64_t>(w.state.n_failures); }},
    {"quire_worker_kv_blocks", "gauge", "Blocks that the worker says it has.",
     [](const WorkerFacts& w) -> int64_t { return w.held->n_blocks; }, true},
    {"quire_worker_kv_known", "gauge", "Whether that is all that it has.",
     [](const WorkerFacts& w) -> int64_t { return w.held->whole ? 1 : 0; }, true},
};

std::string escaped(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string worker_metrics(std::span<const WorkerFacts> workers) {
  std::string out;
  for (const Row& row : kRows) {
    bool begun = false;
    for (const WorkerFacts& worker : workers) {
      if (row.of_events && !worker.held) continue;
      if (!std::exchange(begun, true)) {
        out.append("# HELP ").append(row.name).append(" ").append(row.help);
        out.append("\n# TYPE ").append(row.name).append(" ").append(row.kind).append("\n");
      }
      out.append(row.name).append("{worker=\"").append(escaped(worker.state.name)).append("\"} ");
      out.append(std::to_string(row.value(worker))).append("\n");
    }
  }
  return out;
}

}  // namespace quire
