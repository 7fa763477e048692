#include "kv/retention.h"

#include <algorithm>

namespace quire {
namespace {

constexpr int64_t kLookNs = 1'000'000'000;

}  // namespace

BlockWish wish_of(std::span<const RetentionRange> ranges, int begin, int end, int64_t now_ns) {
  BlockWish out;
  for (const RetentionRange& range : ranges) {
    const bool holds = range.end > begin && range.begin < range.end;
    if (!holds || range.priority <= kUsualPriority) continue;
    out.priority = std::max(out.priority, static_cast<uint8_t>(range.priority));
    out.until_ns = std::max(out.until_ns, now_ns + range.duration_ns);
  }
  if (out.priority != kUsualPriority) return out;
  for (const RetentionRange& range : ranges) {
    const bool says = range.begin < end && range.end > begin && range.priority < kUsualPriority;
    if (says) out = {static_cast<uint8_t>(range.priority), now_ns + range.duration_ns};
  }
  return out;
}

Retentions::Retentions(const NodeTable& nodes, const RetentionLimits& limits)
    : nodes_(nodes), limits_(limits), states_(static_cast<size_t>(nodes.capacity())) {
  known_.reserve(states_.size());
}

// One more of the tenant's; of all too where it is new. False: a limit forbids it.
bool Retentions::charge(uint64_t whose, bool is_new) {
  if (is_new && n_raised_ >= limits_.n_blocks) return false;
  if (n_raised_of(whose) >= limits_.n_blocks_each) return false;
  ++n_of_[whose];
  n_raised_ += is_new ? 1 : 0;
  return true;
}

void Retentions::uncharge(uint64_t whose) {
  const auto n = n_of_.find(whose);
  if (--n->second == 0) n_of_.erase(n);
}

// A raised node keeps the higher priority and the later end of two wishes, and is charged to who asked for more: so a
// wish never shortens another's, and nobody pays for what another wants beyond it.
int Retentions::note(int32_t node, const BlockWish& wish) {
  State& state = of(node);
  const int now = nodes_[node].priority;
  if (wish.priority == kUsualPriority) return now;
  const bool lowers = wish.priority < kUsualPriority, was_raised = raised(node);
  if (lowers && (was_raised || nodes_[node].whose != wish.whose)) return now;
  if (!lowers && was_raised && wish.priority <= now && wish.until_ns <= state.until_ns) return now;
  if (!lowers && (!was_raised || state.whose != wish.whose)) {
    if (!charge(wish.whose, !was_raised)) return -1;
    if (was_raised) uncharge(state.whose);
  }
  if (state.at < 0) {
    state.at = static_cast<int32_t>(known_.size());
    known_.push_back(node);
  }
  state.until_ns = was_raised ? std::max(state.until_ns, wish.until_ns) : wish.until_ns;
  state.whose = wish.whose;
  return was_raised ? std::max<int>(now, wish.priority) : wish.priority;
}

void Retentions::forget(int32_t node) {
  State& state = of(node);
  if (state.at < 0) return;
  if (raised(node)) {
    uncharge(state.whose);
    --n_raised_;
  }
  const int32_t last = known_.back();
  known_[static_cast<size_t>(state.at)] = last;
  of(last).at = state.at;
  known_.pop_back();
  state = {};
}

// Whoever is forgotten gives its place to the last, which is looked at next.
int32_t Retentions::next_over(int64_t now_ns) {
  if (now_ns < look_ns_) return NodeTable::kNone;
  for (; looked_ < known_.size(); ++looked_) {
    const int32_t node = known_[looked_];
    if (of(node).until_ns <= now_ns) return node;
  }
  looked_ = 0;
  look_ns_ = now_ns + kLookNs;
  return NodeTable::kNone;
}

int Retentions::n_raised_of(uint64_t whose) const {
  const auto n = n_of_.find(whose);
  return n == n_of_.end() ? 0 : n->second;
}

std::string Retentions::check() const {
  int n = 0;
  std::unordered_map<uint64_t, int> n_of;
  for (const int32_t node : known_) {
    if (nodes_[node].state != NodeState::resident) return "a priority is of a node that is not in memory";
    if (nodes_[node].priority == kUsualPriority) return "a usual priority is noted";
    if (!raised(node)) continue;
    ++n;
    ++n_of[of(node).whose];
    const int32_t parent = nodes_[node].parent;
    if (parent == NodeTable::kNone) continue;
    if (nodes_[parent].priority < nodes_[node].priority || of(parent).until_ns < of(node).until_ns)
      return "a block is to stay for longer than the one before it";
  }
  if (n != n_raised_ || n_of != n_of_) return "raised blocks are miscounted";
  return n <= limits_.n_blocks ? "" : "more blocks are raised than may be";
}

}  // namespace quire
