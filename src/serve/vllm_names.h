// The metrics that have a twin in vLLM, once more under its names and labels: routers and dashboards written for vLLM
// (llm-d's endpoint picker among them) then read this server too. Names: vLLM's documentation of its metrics.
#pragma once
#include <string>
#include <string_view>

namespace quire {

// `text` is our exposition; returned are the lines to append. Every series gets model_name="`model`".
std::string vllm_lines(std::string_view text, std::string_view model);

}  // namespace quire
