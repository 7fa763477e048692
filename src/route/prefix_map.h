// Which workers are thought to hold which beginnings of prompts: names of blocks (asked.h) to the workers that were
// last given a prompt with them. The one idea: a name stands for all text up to its block's end, so prompts are a tree,
// blocks that follow each other and have the same holders are one node of it, and who holds a block holds all before
// it. So a worker is found by the deepest block of its, though many others were given the beginning since. Bounded: the
// blocks that nobody asked for longest go, the ends of prompts before their beginnings. Holders are numbers that are
// never given twice. Only a hint; a worker may have forgotten. One thread at a time.
#pragma once
#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace quire {

class PrefixMap {
 public:
  struct Hit {
    uint64_t holder = 0;   // never 0
    int64_t n_blocks = 0;  // from the first on
  };
  static constexpr size_t kMostHits = 32;
  // So many nodes there are at most for so many blocks of the bound, or a few.
  static constexpr int64_t kBlocksOfNode = 16, kFewNodes = 1024;
  static constexpr int64_t kBlockBytes = 8 + 176 / kBlocksOfNode;  // a name, and its part of a node in list and table
  static constexpr int kSweptAtOnce = 16, kDroppedAtOnce = 64;     // nodes

  explicit PrefixMap(int64_t most_blocks) : most_blocks_(most_blocks) {}

  // Who holds some beginning of this prompt, and how much of it: the longest first, of equals the last that was given
  // it; at most kMostHits.
  std::vector<Hit> find(std::span<const uint64_t> names) const;
  // `holder` was given this prompt. REQUIRES holder ≠ 0.
  void add(std::span<const uint64_t> names, uint64_t holder);
  // It holds nothing any more, and takes no living one's place. What nobody else holds goes by and by (sweep).
  void forget(uint64_t holder) { forgot_ |= living_.erase(holder) > 0; }
  // Looks at the next kSweptAtOnce nodes, and drops those of forgotten holders alone; so does each add(). False: all
  // were looked at since the last one was forgotten.
  bool sweep();
  // Where it has more already, each add() brings it nearer: what only the forgotten hold goes first, then the oldest,
  // at most kDroppedAtOnce nodes. Until then it grows no further.
  void set_most_blocks(int64_t most_blocks) { most_blocks_ = most_blocks; }
  int64_t n_blocks() const { return n_blocks_; }
  int64_t n_nodes() const { return static_cast<int64_t>(by_use_.size()); }

 private:
  using Holders = std::array<uint64_t, 4>;
  struct Node {
    std::vector<uint64_t> names;  // of blocks that follow each other, not empty
    Holders holders{};            // the latest first; 0: none; some are forgotten
    Node* up = nullptr;           // what it goes on from; nearer to the front of by_use_
    uint32_t n_down = 0;          // that go on from it
  };
  using Nodes = std::list<Node>;
  // `node` and how many of its names the prompt has.
  struct Step {
    Nodes::iterator node;
    size_t n = 0;
  };
  std::vector<Step> path(std::span<const uint64_t> names) const;
  Holders living(const Node& node) const;
  Nodes::iterator cut(Nodes::iterator node, size_t n);
  void touch(Nodes::iterator node, uint64_t holder);
  bool merge(Nodes::iterator upper, Nodes::iterator lower);
  void drop(Nodes::iterator node);
  void drop_oldest(int64_t had_blocks, int64_t had_nodes);
  void leave(Nodes::iterator node);

  int64_t most_blocks_;
  int64_t n_blocks_ = 0;
  Nodes by_use_;  // the latest first: what a node goes on from before it
  std::unordered_map<uint64_t, Nodes::iterator> by_first_;
  std::unordered_set<uint64_t> living_;  // holders that were not forgotten
  bool forgot_ = false;                  // one, since the hand began at the back
  std::optional<Nodes::iterator> hand_;  // the next that a sweep looks at, from the back on
};

}  // namespace quire
