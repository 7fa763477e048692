// Strings to numbers, matched byte by byte: added tokens, user-defined pieces, unigram pieces. Immutable after build.
// The children of a node lie side by side, sorted, so that the hot top of the trie stays in a few cache lines; the root
// is a table of 256.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

class ByteTrie {
 public:
  using Entry = std::pair<std::string_view, int32_t>;  // value ≥ 0
  static constexpr int32_t kNone = -1;

  ByteTrie() { root_.fill(kNone); }
  // Builds from scratch; empty strings are ignored, of equal strings the first value stays. The views are not kept.
  explicit ByteTrie(std::vector<Entry> entries);

  bool empty() const { return nodes_.empty(); }
  bool may_start(char c) const { return root_[static_cast<uint8_t>(c)] != kNone; }

  // Walking: node of the first byte, then step() until kNone. value() is kNone inside a string.
  int32_t start(char c) const { return root_[static_cast<uint8_t>(c)]; }
  int32_t step(int32_t node, char c) const;
  int32_t value(int32_t node) const { return nodes_[static_cast<size_t>(node)].value; }

  struct Match {
    int32_t value = kNone;
    size_t len = 0;
  };
  // The longest entry that `text` starts with. O(longest entry).
  Match longest(std::string_view text) const;

 private:
  struct Node {
    int32_t value = kNone;
    uint32_t first_child = 0;
    uint16_t n_children = 0;
    uint8_t byte = 0;
  };
  std::array<int32_t, 256> root_{};
  std::vector<Node> nodes_;
};

}  // namespace quire
