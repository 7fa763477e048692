// How proposers beside each other are named: a list such as "grammar,draft". The only header of spec that serve may
// include.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// How many may stand beside each other.
inline constexpr size_t kMostProposers = 4;

// In their order.
inline std::vector<std::string> proposer_names(std::string_view list) {
  std::vector<std::string> out;
  for (size_t from = 0; from <= list.size() && !list.empty();) {
    const size_t end = std::min(list.find(',', from), list.size());
    out.emplace_back(list.substr(from, end - from));
    from = end + 1;
  }
  return out;
}

}  // namespace quire
