// The metrics that have a twin in vLLM, once more under its names and labels: routers and dashboards written for vLLM
// (llm-d's endpoint picker among them) then read this server too. Names: vLLM's documentation of its metrics.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

#include "engine/request_view.h"

namespace quire {

// `text` is our exposition; returned are the lines to append. Every series gets model_name="`model`".
std::string vllm_lines(std::string_view text, std::string_view model);

// Which adapters the requests that are here run with, and which they wait for.
class AdapterUse {
 public:
  explicit AdapterUse(const RequestViews& engine);
  // A sequence that is not over; 0: the engine has not taken it yet.
  void add(const std::string& adapter, SeqId sequence) {
    (runs_.contains(sequence) ? running_ : waiting_).insert(adapter);
  }
  const std::set<std::string>& running() const { return running_; }
  const std::set<std::string>& waiting() const { return waiting_; }

 private:
  std::unordered_set<SeqId> runs_;
  std::set<std::string> running_, waiting_;
};

// vLLM's gauge of adapters, all in its labels; `n_most`: how many may run together. Its value is the time of day in
// seconds, by which a reader knows the latest series.
std::string vllm_adapter_lines(const AdapterUse& use, int64_t n_most, int64_t now_s);

}  // namespace quire
