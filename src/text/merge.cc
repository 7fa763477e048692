// See merge.h.
#include "text/merge.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <unordered_map>

#include "text/kept_vector.h"

namespace quire {

namespace {

// Up to here the quadratic scan wins: 32 ranks are two cache lines.
constexpr size_t kMaxScan = 32;
// From here on one queue per rank wins over one heap that no longer fits into the L1 cache.
constexpr size_t kMinQueues = 2048;
// Runs of equal symbols must be this long on average to be worth a try, and few enough for a list without an index.
constexpr size_t kMinRunLength = 8, kMaxRuns = 64;
// Visits of runs, for each symbol of the text, after which the runs have proved to be the wrong way.
constexpr size_t kMaxVisits = 3;

// A doubly linked list over the symbols; next_ == n means the end. rank_[i] is the rank of (i, next i) as it is now: a
// queued (rank, i) that differs is stale.
class Chain {
 public:
  Chain(const MergeTable& table, const std::vector<Symbol>& symbols)
      : table_(table), n_(static_cast<uint32_t>(symbols.size())), nodes_(symbols.size()) {
    for (uint32_t i = 0; i < n_; ++i) {
      nodes_[i] = {symbols[i], i - 1, i + 1, Merge::kNever, -1};
    }
    for (uint32_t i = 0; i + 1 < n_; ++i) look_up(i);
  }

  uint32_t size() const { return n_; }
  uint32_t rank(uint32_t i) const { return nodes_[i].rank; }

  // Merges i with its successor and calls push(j) for the pairs that became possible.
  template <class Push>
  void merge(uint32_t i, Push push) {
    Node& node = nodes_[i];
    Node& gone = nodes_[node.next];
    node.symbol = node.result;
    node.next = gone.next;
    gone.rank = Merge::kNever;
    if (node.next < n_) nodes_[node.next].prev = i;
    if (i != 0) {  // first, so that queues fill in order
      const uint32_t before = node.prev;
      look_up(before);
      if (nodes_[before].rank != Merge::kNever) push(before);
    }
    look_up(i);
    if (node.rank != Merge::kNever) push(i);
  }

  void write(std::vector<Symbol>& out) const {
    out.clear();
    for (uint32_t i = 0; i < n_; i = nodes_[i].next) out.push_back(nodes_[i].symbol);
  }

 private:
  struct Node {
    Symbol symbol;
    uint32_t prev, next;
    uint32_t rank;
    Symbol result;
  };

  void look_up(uint32_t i) {
    Node& node = nodes_[i];
    const Merge m = node.next < n_ ? table_.find(node.symbol, nodes_[node.next].symbol) : Merge{};
    node.rank = m.rank;
    node.result = m.result;
  }

  const MergeTable& table_;
  uint32_t n_;
  std::vector<Node> nodes_;
};

// A queue of (rank, position) where most positions of a rank arrive in order: those go to a plain run, the others to a
// small heap beside it.
class RankQueues {
 public:
  void push(uint32_t rank, uint32_t pos) {
    if (rank != last_rank_) {  // neighbours often have one rank
      const auto [it, fresh] = index_.try_emplace(rank, static_cast<uint32_t>(buckets_.size()));
      if (fresh) buckets_.emplace_back();
      last_rank_ = rank;
      last_bucket_ = it->second;
    }
    Bucket& b = buckets_[last_bucket_];
    if (b.empty()) ranks_.push({rank, last_bucket_});
    if (b.run.empty() || b.run.back() <= pos) {
      b.run.push_back(pos);
    } else {
      b.late.push(pos);
    }
  }

  // The lowest rank, then the lowest position. False when empty.
  bool pop(uint32_t& rank, uint32_t& pos) {
    if (ranks_.empty()) return false;
    rank = ranks_.top().first;
    Bucket& b = buckets_[ranks_.top().second];
    const bool from_run = b.head < b.run.size() && (b.late.empty() || b.run[b.head] <= b.late.top());
    if (from_run) {
      pos = b.run[b.head++];
    } else {
      pos = b.late.top();
      b.late.pop();
    }
    if (b.head == b.run.size()) {
      b.run.clear();
      b.head = 0;
    }
    if (b.empty()) ranks_.pop();  // still on top: nothing was pushed in between
    return true;
  }

 private:
  template <class T>
  using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<T>>;
  struct Bucket {
    std::vector<uint32_t> run;
    size_t head = 0;
    MinHeap<uint32_t> late;
    bool empty() const { return head == run.size() && late.empty(); }
  };
  std::unordered_map<uint32_t, uint32_t> index_;  // rank → bucket
  std::vector<Bucket> buckets_;
  uint32_t last_rank_ = Merge::kNever, last_bucket_ = 0;  // of the last push; kNever is never pushed
  MinHeap<std::pair<uint32_t, uint32_t>> ranks_;          // of the buckets that are not empty
};

struct Run {
  Symbol symbol;
  size_t n;
};

void append_run(Symbol symbol, size_t n, std::vector<Run>& runs) {
  if (n == 0) return;
  if (!runs.empty() && runs.back().symbol == symbol) {
    runs.back().n += n;
  } else {
    runs.push_back({symbol, n});
  }
}

// The lowest rank among the pairs inside runs and between them, of equal ones the leftmost.
struct RunPair {
  size_t run = 0;
  bool inside = false;
  Merge merge;
};
RunPair best_pair(const MergeTable& table, const std::vector<Run>& runs) {
  RunPair best;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].n > 1) {
      const Merge m = table.find(runs[i].symbol, runs[i].symbol);
      if (m.rank < best.merge.rank) best = {i, true, m};
    }
    if (i + 1 < runs.size()) {
      const Merge m = table.find(runs[i].symbol, runs[i + 1].symbol);
      if (m.rank < best.merge.rank) best = {i, false, m};
    }
  }
  return best;
}

// What the pairs inside a run become while they are the lowest: groups of n symbols, each one symbol.
struct Groups {
  Symbol made;
  size_t n, n_groups;
};

// The leftmost pair merges, and the result goes on to take in symbols while that has no higher rank. Each next group
// repeats this, unless a pair with what lies before it would go first.
Groups groups_of(const MergeTable& table, const std::vector<Run>& runs, const RunPair& pair, size_t& n_visited) {
  const Run& run = runs[pair.run];
  const auto first = [&](Symbol left, Symbol right) { return table.find(left, right).rank <= pair.merge.rank; };
  Groups groups{pair.merge.result, 2, 1};
  std::vector<Symbol> steps;
  while (true) {
    ++n_visited;
    if (pair.run > 0 && first(runs[pair.run - 1].symbol, groups.made)) return {pair.merge.result, 2, 1};
    steps.push_back(groups.made);
    const Merge more = groups.n < run.n ? table.find(groups.made, run.symbol) : Merge{};
    if (more.rank > pair.merge.rank) break;
    groups.made = more.result;
    ++groups.n;
  }
  const bool alike = std::none_of(steps.begin(), steps.end(), [&](Symbol step) { return first(groups.made, step); });
  if (alike) groups.n_groups = run.n / groups.n;
  return groups;
}

void apply(const RunPair& pair, const Groups& groups, std::vector<Run>& runs, std::vector<Run>& scratch) {
  scratch.clear();
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [symbol, n] = runs[i];
    if (i != pair.run) {
      append_run(symbol, n, scratch);
    } else if (pair.inside) {
      append_run(groups.made, groups.n_groups, scratch);
      append_run(symbol, n - groups.n_groups * groups.n, scratch);
    } else {
      append_run(symbol, n - 1, scratch);
      append_run(pair.merge.result, 1, scratch);
      --runs[i + 1].n;
    }
  }
  runs.swap(scratch);
}

}  // namespace

void MergeTable::reserve(size_t n_merges) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(n_merges * 2, 16));
  slots_.assign(capacity, Slot{});
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
}

void MergeTable::add(Symbol left, Symbol right, Merge merge) {
  const uint64_t key = make_key(left, right);
  size_t i = slot_of(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == key && slots_[i].merge.rank <= merge.rank) return;
  slots_[i] = {key, merge};
}

void merge_by_scan(const MergeTable& table, std::vector<Symbol>& symbols) {
  const size_t n = symbols.size();
  if (n < 2) return;
  thread_local std::vector<Merge> kept;
  const KeptVector held(kept);
  std::vector<Merge>& pairs = *held;  // pairs[i] of (i, i+1), the last one never merges
  pairs.resize(n);
  for (size_t i = 0; i + 1 < n; ++i) pairs[i] = table.find(symbols[i], symbols[i + 1]);
  pairs[n - 1] = {};
  while (true) {
    size_t best = 0;
    for (size_t i = 1; i < pairs.size(); ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == Merge::kNever) return;
    symbols[best] = pairs[best].result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    pairs.erase(pairs.begin() + static_cast<ptrdiff_t>(best));
    if (best + 1 < symbols.size()) {
      pairs[best] = table.find(symbols[best], symbols[best + 1]);
    } else {
      pairs[best] = {};
    }
    if (best > 0) pairs[best - 1] = table.find(symbols[best - 1], symbols[best]);
  }
}

void merge_by_heap(const MergeTable& table, std::vector<Symbol>& symbols) {
  if (symbols.size() < 2) return;
  Chain chain(table, symbols);
  std::vector<uint64_t> heap;  // rank << 32 | position, smallest on top
  const auto pack = [&chain](uint32_t i) { return static_cast<uint64_t>(chain.rank(i)) << 32 | i; };
  for (uint32_t i = 0; i < chain.size(); ++i) {
    if (chain.rank(i) != Merge::kNever) heap.push_back(pack(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto i = static_cast<uint32_t>(top);
    if (chain.rank(i) != top >> 32) continue;
    chain.merge(i, [&](uint32_t j) {
      heap.push_back(pack(j));
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    });
  }
  chain.write(symbols);
}

void merge_by_rank_queues(const MergeTable& table, std::vector<Symbol>& symbols) {
  if (symbols.size() < 2) return;
  Chain chain(table, symbols);
  RankQueues queues;
  for (uint32_t i = 0; i < chain.size(); ++i) {
    if (chain.rank(i) != Merge::kNever) queues.push(chain.rank(i), i);
  }
  for (uint32_t rank = 0, i = 0; queues.pop(rank, i);) {
    if (chain.rank(i) != rank) continue;
    chain.merge(i, [&](uint32_t j) { queues.push(chain.rank(j), j); });
  }
  chain.write(symbols);
}

bool merge_by_runs(const MergeTable& table, std::vector<Symbol>& symbols) {
  const size_t max_runs = std::min(kMaxRuns, symbols.size() / kMinRunLength);
  std::vector<Run> runs, scratch;
  for (size_t i = 0, end = 0; i < symbols.size(); i = end) {
    while (end < symbols.size() && symbols[end] == symbols[i]) ++end;
    if (runs.size() == max_runs) return false;
    runs.push_back({symbols[i], end - i});
  }
  for (size_t n_visited = 0; n_visited <= kMaxVisits * symbols.size(); n_visited += runs.size()) {
    const RunPair pair = best_pair(table, runs);
    if (pair.merge.rank == Merge::kNever) {
      symbols.clear();
      for (const Run& r : runs) symbols.insert(symbols.end(), r.n, r.symbol);
      return true;
    }
    const Groups groups = pair.inside ? groups_of(table, runs, pair, n_visited) : Groups{};
    apply(pair, groups, runs, scratch);
  }
  return false;
}

void merge_symbols(const MergeTable& table, std::vector<Symbol>& symbols) {
  if (symbols.size() <= kMaxScan) {
    merge_by_scan(table, symbols);
  } else if (merge_by_runs(table, symbols)) {
    return;
  } else if (symbols.size() < kMinQueues) {
    merge_by_heap(table, symbols);
  } else {
    merge_by_rank_queues(table, symbols);
  }
}

}  // namespace quire
