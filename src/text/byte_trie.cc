// See byte_trie.h. Built breadth first from sorted entries: a node is a range of entries that share a prefix, its
// children are the runs of that range by the next byte. No recursion, O(total bytes).
#include "text/byte_trie.h"

#include <algorithm>

namespace quire {

namespace {
struct Range {
  size_t begin, end, depth;
};
}  // namespace

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  root_.fill(kNone);
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
  std::vector<Range> ranges;  // ranges[i] belongs to nodes_[i]
  const auto split = [&](size_t begin, size_t end, size_t depth) {
    while (begin < end && entries[begin].first.size() <= depth) ++begin;  // the strings that end at the parent
    while (begin < end) {
      const char c = entries[begin].first[depth];
      size_t stop = begin;
      while (stop < end && entries[stop].first[depth] == c) ++stop;
      Node node;
      node.byte = static_cast<uint8_t>(c);
      if (entries[begin].first.size() == depth + 1) node.value = entries[begin].second;
      nodes_.push_back(node);
      ranges.push_back({begin, stop, depth + 1});
      begin = stop;
    }
  };
  split(0, entries.size(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) root_[nodes_[i].byte] = static_cast<int32_t>(i);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const size_t first = nodes_.size();
    const Range r = ranges[i];
    split(r.begin, r.end, r.depth);
    nodes_[i].first_child = static_cast<uint32_t>(first);
    nodes_[i].n_children = static_cast<uint16_t>(nodes_.size() - first);
  }
}

int32_t ByteTrie::step(int32_t node, char c) const {
  const Node& n = nodes_[static_cast<size_t>(node)];
  const auto byte = static_cast<uint8_t>(c);
  uint32_t low = n.first_child, count = n.n_children;
  while (count > 4) {
    const uint32_t half = count / 2;
    if (nodes_[low + half].byte <= byte) {
      low += half;
      count -= half;
    } else {
      count = half;
    }
  }
  for (uint32_t i = low; i < low + count; ++i) {
    if (nodes_[i].byte == byte) return static_cast<int32_t>(i);
  }
  return kNone;
}

ByteTrie::Match ByteTrie::longest(std::string_view text) const {
  Match best;
  if (text.empty()) return best;
  int32_t node = start(text[0]);
  for (size_t i = 1; node != kNone; ++i) {
    if (value(node) != kNone) best = {value(node), i};
    if (i == text.size()) break;
    node = step(node, text[i]);
  }
  return best;
}

}  // namespace quire
