#include "tests/sim/eviction.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/rng.h"
#include "kv/kv_cache.h"
#include "kv/kv_policy.h"
#include "tests/sim/traces.h"

namespace quire::sim {
namespace {

double seconds_of(const Traffic& traffic, size_t block) {
  const double before = (static_cast<double>(block) + 0.5) * traffic.block_tokens;
  return traffic.block_tokens * (1 + before / kHalfAt) / kTokensPerS;
}

void count(const Traffic& traffic, size_t n_asked, size_t n_found, Kept& out) {
  out.n_asked += static_cast<int64_t>(n_asked);
  out.n_found += static_cast<int64_t>(n_found);
  for (size_t b = 0; b < n_asked; ++b) out.asked_s += seconds_of(traffic, b);
  for (size_t b = 0; b < n_found; ++b) out.saved_s += seconds_of(traffic, b);
}

// What is asked for of a request by a cache of n blocks.
std::span<const uint64_t> asked_of(const std::vector<uint64_t>& request, int n_blocks) {
  return std::span(request).first(std::min(request.size(), static_cast<size_t>(n_blocks)));
}

// Its tokens, and one more: the last is never taken from the cache.
std::vector<Token> tokens_of(std::span<const uint64_t> blocks, int block_tokens) {
  std::vector<Token> out;
  out.reserve(blocks.size() * static_cast<size_t>(block_tokens) + 1);
  for (const uint64_t block : blocks) {
    for (int i = 0; i < block_tokens; ++i)
      out.push_back(static_cast<Token>(random_bits(block, static_cast<uint64_t>(i % 4)) >> 33));
  }
  out.push_back(0);
  return out;
}

// Blocks in memory, by next use; the path of the running request is held.
class Future {
 public:
  Future(const Traffic& traffic, int n_blocks) : n_blocks_(static_cast<size_t>(n_blocks)) {
    std::unordered_map<uint64_t, size_t> next;
    next_.resize(traffic.requests.size());
    for (size_t i = traffic.requests.size(); i-- > 0;) {
      for (const uint64_t block : traffic.requests[i]) {
        const auto found = next.find(block);
        next_[i].push_back(found == next.end() ? kNever : found->second);
      }
      for (const uint64_t block : traffic.requests[i]) next[block] = i;
    }
  }

  // How many of the blocks of request i were there; all are now.
  size_t serve(size_t i, std::span<const uint64_t> blocks) {
    size_t n_found = 0;
    while (n_found < blocks.size() && in_memory_.contains(blocks[n_found])) ++n_found;
    for (const uint64_t block : blocks.first(n_found)) by_use_.erase(in_memory_.at(block));
    while (in_memory_.size() + blocks.size() - n_found > n_blocks_) {
      const auto furthest = std::prev(by_use_.end());
      in_memory_.erase(furthest->block);
      by_use_.erase(furthest);
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      const Use use{next_[i][b], b, blocks[b]};
      in_memory_[blocks[b]] = use;
      by_use_.insert(use);
    }
    return n_found;
  }

 private:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();
  struct Use {
    size_t next = kNever, depth = 0;  // of equal ones the deepest goes first
    uint64_t block = 0;
    auto operator<=>(const Use&) const = default;
  };
  size_t n_blocks_;
  std::vector<std::vector<size_t>> next_;
  std::unordered_map<uint64_t, Use> in_memory_;
  std::set<Use> by_use_;
};

std::string row(const std::string& name, const std::vector<Kept>& kept) {
  std::string out = "| " + name + " |";
  for (const Kept& each : kept) {
    char text[64];
    std::snprintf(text, sizeof text, " %.1f %%, %.0f s |", 100 * each.hit_rate(), each.saved_s);
    out += text;
  }
  return out + "\n";
}

}  // namespace

Result<Traffic> mooncake_traffic(const std::string& path) {
  QR_TRY(const Script script, mooncake_script(path, {.length = 1}));
  Traffic out;
  out.name = "mooncake";
  for (const RequestScript& request : script.requests) {
    std::vector<uint64_t>& blocks = out.requests.emplace_back();
    for (const Piece& piece : request.prompt) blocks.push_back(piece.text);
  }
  return out;
}

Traffic dialogue_traffic(uint64_t seed, int n_requests) {
  Rng rng(seed);
  Traffic out;
  out.name = "dialogues";
  std::vector<std::vector<uint64_t>> open;
  uint64_t number = 1000;
  const auto more = [&](std::vector<uint64_t>& past, int64_t most) {
    for (int64_t n = rng.between(1, most); n > 0; --n) past.push_back(++number);
  };
  const auto begin = [&] {  // of eight public prompts of four blocks the first half of the time, and so on
    const auto which = static_cast<uint64_t>(std::min(7, std::countr_zero(rng.bits() | 1U << 7)));
    std::vector<uint64_t> past;
    for (uint64_t b = 0; b < 4; ++b) past.push_back(which * 10 + b);
    return past;
  };
  while (static_cast<int>(out.requests.size()) < n_requests) {
    const int64_t what = rng.between(0, 9);
    if (what < 5 || open.empty()) {  // comes once, or so it seems
      std::vector<uint64_t> past = begin();
      more(past, 24);
      out.requests.push_back(past);
      if (what < 2 || open.empty()) open.push_back(std::move(past));
      continue;
    }
    // The later a dialogue was heard of the likelier it goes on.
    const size_t back = static_cast<size_t>(static_cast<double>(open.size()) * rng.unit() * rng.unit());
    const auto it = open.end() - 1 - static_cast<std::ptrdiff_t>(back);
    std::vector<uint64_t> past = std::move(*it);
    open.erase(it);
    more(past, 6);
    out.requests.push_back(past);
    if (rng.between(0, 5) > 0) open.push_back(std::move(past));
  }
  return out;
}

Kept keep_by_policy(const Traffic& traffic, const std::string& policy, int n_blocks) {
  KvCacheOptions options;
  options.block_tokens = traffic.block_tokens;
  options.n_blocks = n_blocks;
  options.policy = policy;
  std::vector<Buffer> memory(1);
  KvCache cache(KvLayout{}, std::move(memory), options);
  Kept out;
  for (const std::vector<uint64_t>& request : traffic.requests) {
    const auto blocks = asked_of(request, n_blocks);
    const std::vector<Token> tokens = tokens_of(blocks, traffic.block_tokens);
    const Prefix prefix{tokens, {}, {}};
    SeqKv seq;
    const int n_found = cache.match(seq, prefix) / traffic.block_tokens;
    count(traffic, request.size(), static_cast<size_t>(n_found), out);
    const auto n_tokens = static_cast<int>(tokens.size()) - 1;
    QR_CHECK(cache.grow(seq, n_tokens));
    cache.index(seq, prefix, n_tokens);
    cache.release(seq);
  }
  return out;
}

Kept keep_by_future(const Traffic& traffic, int n_blocks) {
  Future future(traffic, n_blocks);
  Kept out;
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    count(traffic, traffic.requests[i].size(), future.serve(i, asked_of(traffic.requests[i], n_blocks)), out);
  }
  return out;
}

Kept keep_all(const Traffic& traffic) {
  size_t n = 1;
  for (const auto& request : traffic.requests) n += request.size();
  return keep_by_future(traffic, static_cast<int>(n));
}

std::string eviction_table(const Traffic& traffic, const std::vector<int>& sizes) {
  std::string head = "| " + traffic.name + ", blocks |", line = "|---|";
  for (const int n : sizes) {
    head += " " + std::to_string(n) + " |";
    line += "---|";
  }
  std::string out = head + "\n" + line + "\n";
  const auto add = [&](const std::string& name, auto&& keep) {
    std::vector<Kept> kept;
    for (const int n : sizes) kept.push_back(keep(n));
    out += row(name, kept);
  };
  for (const std::string& policy : Registry<KvPolicyEntry>::get().names()) {
    add("`" + policy + "`", [&](int n) { return keep_by_policy(traffic, policy, n); });
  }
  add("who knows the future", [&](int n) { return keep_by_future(traffic, n); });
  add("no end", [&](int) { return keep_all(traffic); });
  return out;
}

}  // namespace quire::sim
