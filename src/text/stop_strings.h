// Stop strings as one automaton over bytes (Aho and Corasick 1975), stepped token by token: it does not matter where
// tokens cut the text or a code point. The first match counts: the one that is complete first, and of those that are
// complete at the same byte the longest. StopStrings is immutable and shared by threads; a StopTracker belongs to one
// sequence.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

class StopStrings {
 public:
  static constexpr size_t kMaxStrings = 16;
  static constexpr size_t kMaxBytes = 1024;  // of one string

  // Code::invalid names the limit: too many strings, an empty one, one that is too long. None at all is legal: it never
  // matches. Linear in the strings' bytes.
  static Result<StopStrings> compile(std::span<const std::string> stops);

  using State = uint32_t;  // 0: nothing seen
  // Amortised O(1) a byte, O(longest string) for one byte.
  State step(State from, char byte) const;
  // Bytes of the longest stop string that ends in this state, 0: none does.
  size_t match_bytes(State s) const { return nodes_[s].match; }
  // Bytes at the end of what was read that may begin a stop string: they must not be shown yet.
  size_t held_bytes(State s) const { return nodes_[s].depth; }

 private:
  struct Edge {
    char byte;
    State to;
  };
  struct Node {
    State fail = 0;
    uint32_t depth = 0, match = 0;
    std::vector<Edge> edges;  // at most one a string
  };
  StopStrings() : nodes_(1) {}
  void add(std::string_view stop);
  void link();
  const Edge* edge(State from, char byte) const;

  std::vector<Node> nodes_;
};

class StopTracker {
 public:
  // `strings` must outlive the tracker.
  explicit StopTracker(const StopStrings& strings) : strings_(strings), steps_(1) {}

  // The bytes of the next token (possibly none). True when a stop string is complete; what the token says behind it
  // does not count. REQUIRES !stopped().
  bool accept(std::string_view bytes);
  // Undoes the last n accepts. REQUIRES n ≤ the number of accepts.
  void rollback(int n) { steps_.resize(steps_.size() - static_cast<size_t>(n)); }

  bool stopped() const { return steps_.back().stop_bytes > 0; }
  // All bytes accepted so far, the stop string's last byte included when stopped.
  size_t n_bytes() const { return steps_.back().n_bytes; }
  // Where to cut: the text up to here is free of stop strings for good, what follows must not be shown (yet).
  size_t n_safe_bytes() const {
    const Step& now = steps_.back();
    return now.n_bytes - (stopped() ? now.stop_bytes : strings_.held_bytes(now.state));
  }

 private:
  struct Step {  // after one token
    size_t n_bytes = 0;
    StopStrings::State state = 0;
    uint32_t stop_bytes = 0;
  };
  const StopStrings& strings_;
  std::vector<Step> steps_;
};

}  // namespace quire
