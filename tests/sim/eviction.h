// What stays in a cache of a given size under each policy (kv/kv_policy.h), over traffic that is a list of pasts: the
// real KvCache, one request after the other, each asking for its whole blocks and leaving them findable; answers are
// not counted. Beside the policies stands who knows the future, and a cache without end.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::sim {

struct Traffic {
  std::string name;
  int block_tokens = 512;
  // By arrival, of each request the numbers of its blocks: equal numbers are equal tokens behind an equal past.
  std::vector<std::vector<uint64_t>> requests;
};

// mooncake_conversation_trace.jsonl, whole.
Result<Traffic> mooncake_traffic(const std::string& path);
// Made up from a seed: dialogues that go on for some turns, each with what was said before; between them prompts that
// come once. All of them begin with one of few public prompts, some of which are asked for more often than others.
Traffic dialogue_traffic(uint64_t seed, int n_requests);

struct Kept {
  int64_t n_asked = 0, n_found = 0;  // blocks
  double asked_s = 0, saved_s = 0;   // of prefill
  double hit_rate() const { return n_asked == 0 ? 0 : static_cast<double>(n_found) / static_cast<double>(n_asked); }
  bool operator==(const Kept&) const = default;
};

// Prefill of a machine that computes kTokensPerS tokens a second at the beginning of a context and half as many behind
// kHalfAt tokens.
inline constexpr double kTokensPerS = 1000, kHalfAt = 16384;

// A request that is longer than the cache asks for its first n_blocks blocks only.
Kept keep_by_policy(const Traffic& traffic, const std::string& policy, int n_blocks);
// Evicts the block whose next use lies furthest ahead. As a block is used whenever one behind it is, that is a leaf,
// and where all blocks cost the same nobody finds more (Belady 1966); by seconds it is a good mark and no bound.
Kept keep_by_future(const Traffic& traffic, int n_blocks);
// Everything that was ever asked for: what no policy can pass.
Kept keep_all(const Traffic& traffic);

// All of it as a table in Markdown: the share of blocks that was found, and seconds of prefill that this saved.
std::string eviction_table(const Traffic& traffic, const std::vector<int>& sizes);

}  // namespace quire::sim
