// See stop_strings.h.
#include "text/stop_strings.h"

#include <algorithm>

#include "base/check.h"

namespace quire {

Result<StopStrings> StopStrings::compile(std::span<const std::string> stops) {
  if (stops.size() > kMaxStrings) {
    return fail(Code::invalid,
                "stop: " + std::to_string(stops.size()) + " strings, the limit is " + std::to_string(kMaxStrings));
  }
  StopStrings out;
  for (const std::string& stop : stops) {
    if (stop.empty()) return fail(Code::invalid, "stop: a string is empty");
    if (stop.size() > kMaxBytes) {
      return fail(Code::invalid, "stop: a string has " + std::to_string(stop.size()) + " bytes, the limit is " +
                                     std::to_string(kMaxBytes));
    }
    out.add(stop);
  }
  out.link();
  return out;
}

void StopStrings::add(std::string_view stop) {
  State at = 0;
  for (const char c : stop) {
    const Edge* known = edge(at, c);
    const State next = known != nullptr ? known->to : static_cast<State>(nodes_.size());
    if (known == nullptr) {
      Node node;
      node.depth = nodes_[at].depth + 1;
      nodes_[at].edges.push_back({c, next});
      nodes_.push_back(std::move(node));
    }
    at = next;
  }
  nodes_[at].match = nodes_[at].depth;
}

// Breadth first: the failure link of a node is complete before its children ask for it.
void StopStrings::link() {
  std::vector<State> order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const State parent = order[i];
    for (const Edge& e : nodes_[parent].edges) {
      Node& child = nodes_[e.to];
      child.fail = parent == 0 ? 0 : step(nodes_[parent].fail, e.byte);
      child.match = std::max(child.match, nodes_[child.fail].match);
      order.push_back(e.to);
    }
  }
}

const StopStrings::Edge* StopStrings::edge(State from, char byte) const {
  for (const Edge& e : nodes_[from].edges) {
    if (e.byte == byte) return &e;
  }
  return nullptr;
}

StopStrings::State StopStrings::step(State from, char byte) const {
  while (true) {
    if (const Edge* e = edge(from, byte)) return e->to;
    if (from == 0) return 0;
    from = nodes_[from].fail;
  }
}

bool StopTracker::accept(std::string_view bytes) {
  QR_DCHECK(!stopped());
  Step now = steps_.back();
  for (const char c : bytes) {
    now.state = strings_.step(now.state, c);
    ++now.n_bytes;
    now.stop_bytes = static_cast<uint32_t>(strings_.match_bytes(now.state));
    if (now.stop_bytes > 0) break;
  }
  steps_.push_back(now);
  return stopped();
}

}  // namespace quire
