// A batch of KV events as somebody published it, read: an array [time, events, rank, …], each event a map with its name
// under "type" (vLLM from 0.26 on, and ours) or an array that begins with its name (vLLM before, SGLang). Fields that
// are not known are passed over, and so are kinds of events. Costs no more than its bytes; nothing is nested.
// Source: vllm/distributed/kv_events.py of vLLM 0.26 and of 0.9.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace quire {

struct KvEvent {
  enum class Kind : uint8_t { stored, removed, cleared };
  Kind kind = Kind::cleared;
  bool in_memory = true;         // where the engine computes: `medium` is absent, nil or "GPU"
  int64_t group = 0;             // of layers
  std::vector<uint64_t> hashes;  // names of the blocks, those of stored ones from a parent to its child
  // Of stored ones alone, and one for each block only where `in_memory` and group 0: others may leave them out.
  bool has_parent = false;
  uint64_t parent = 0;
  int64_t block_tokens = 0;      // 1 … kMostKvBlockTokens, or 0 where that was left out
  std::vector<Token> tokens;     // of all blocks, one behind the other
  uint64_t adapter = 0;          // of its name, or of its number; 0: none
  std::vector<uint64_t> extras;  // of each block's extra_keys, 0: none; empty: no block has any
};

inline constexpr int64_t kMostKvBlockTokens = 65'536;
inline constexpr uint32_t kMostKvEventBlocks = 1 << 20, kMostKvEventTokens = 8 << 20;  // of one event

// `each` is told the events in order, in an object that is used again. Fails (Code::invalid) naming what and where; the
// events before that were told.
Status read_kv_batch(std::string_view payload, const std::function<void(const KvEvent&)>& each);

// A number for these bytes, the same everywhere; never 0.
uint64_t kv_hash(std::string_view bytes, uint64_t seed = 0);

// What stands in `extras` for blocks under this salt alone: extra_keys is ["salt"].
uint64_t kv_salt(std::string_view salt);

}  // namespace quire
