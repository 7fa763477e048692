// Bytes as a recording: read, and where that works run again. Nothing may crash, hang or take memory that the file did
// not ask for within the limits.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "engine/replay.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  const Result<Recording> recording = read_recording(in);
  if (!recording) return 0;
  const EngineOptions& o = recording->options;
  // What is large and legal is only slow here.
  if (recording->n_blocks > 4096 || o.block_tokens > 256 || o.n_ctx > 1 << 16 || o.max_seqs > 256) return 0;
  size_t n_tokens = 0;
  for (const RecordedStep& step : recording->steps) {
    for (const RecordedRequest& r : step.submits) n_tokens += static_cast<size_t>(r.request.max_tokens);
  }
  if (n_tokens > 10'000) return 0;
  StepCost cost;
  const Result<ReplayOutcome> again = replay_exactly(*recording, cost);
  if (again) (void)replay_under(*recording, o, recording->n_blocks, cost);
  return 0;
}
