// How large an option's number may be: what check_options refuses beyond, and what a command line does.
#pragma once
#include <cstdint>

namespace quire {

inline constexpr int kMostSeqs = 4096, kMostContext = 1 << 28, kMostQueue = 1 << 20;
inline constexpr int kMostStepTokens = 65'535;                           // an axis of a GPU's grid has no more
inline constexpr double kMostTargetMs = 60'000;                          // of itl_target_ms, step_target_ms
inline constexpr int64_t kMostRemoteKeepS = int64_t{10} * 365 * 86'400;  // kv_remote_keep_s

}  // namespace quire
