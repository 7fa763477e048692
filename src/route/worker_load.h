// What a worker has to do, as somebody counts it who gave it to it. A plain value.
#pragma once
#include <cstdint>

namespace quire {

struct WorkerLoad {
  uint64_t worker = 0;  // its id, the same in every router
  int64_t load_tokens = 0, n_requests = 0;
  int64_t prefill_tokens = 0, n_decoding = 0;  // as WorkerView has them
  bool operator==(const WorkerLoad&) const = default;
};

}  // namespace quire
