// Which workers are thought to hold which beginnings of prompts: names of blocks (asked.h) to the workers that were
// last given a prompt with them. Bounded: the blocks that nobody asked for longest go, the ends of prompts before their
// beginnings. Holders are numbers that are never given twice. Only a hint; a worker may have forgotten. One thread at a
// time.
#pragma once
#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace quire {

class PrefixMap {
 public:
  struct Hit {
    uint64_t holder = 0;   // never 0
    int64_t n_blocks = 0;  // from the first on
  };

  explicit PrefixMap(int64_t most_blocks) : most_blocks_(most_blocks) {}

  // Who holds some beginning of this prompt, and how much of it.
  std::vector<Hit> find(std::span<const uint64_t> names) const;
  // `holder` was given this prompt. REQUIRES holder ≠ 0.
  void add(std::span<const uint64_t> names, uint64_t holder);
  // It holds nothing any more, and takes no living one's place. Goes through all blocks.
  void forget(uint64_t holder);
  int64_t n_blocks() const { return static_cast<int64_t>(by_name_.size()); }

 private:
  struct Block {
    uint64_t name = 0;
    std::array<uint64_t, 4> holders{};  // the latest first; 0: none
  };
  const int64_t most_blocks_;
  std::list<Block> by_use_;  // the latest first
  std::unordered_map<uint64_t, std::list<Block>::iterator> by_name_;
};

}  // namespace quire
