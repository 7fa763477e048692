// Real traces as scripts: arrivals and lengths of production services, shrunk so that a run takes seconds. Not part of
// the project: QUIRE_SHARED names the folder that has them under data/traces.
#pragma once
#include <string>

#include "tests/sim/script.h"

namespace quire::sim {

std::string trace_path(const std::string& file);  // empty where it is not there

struct TraceScale {
  int length = 16;  // tokens are divided by it,
  int time = 1;     // and the gaps between arrivals
  int n_requests = 1 << 30;
};

// AzureLLMInferenceTrace_conv.csv: TIMESTAMP,ContextTokens,GeneratedTokens. Prompts share nothing.
Result<Script> azure_script(const std::string& path, const TraceScale& scale);
// mooncake_conversation_trace.jsonl: timestamp (ms), input_length, output_length, hash_ids of its blocks of 512 tokens.
// Equal ids are equal tokens.
Result<Script> mooncake_script(const std::string& path, const TraceScale& scale);

}  // namespace quire::sim
