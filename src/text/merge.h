// The heart of both kinds of BPE: a list of symbols, a table that says which neighbours merge with which rank, and the
// rule "the lowest rank first, of equal ranks the leftmost". Exact for any table, O(n log n) for any input and close to
// linear in practice: short words scan for the minimum, longer ones use a heap, and texts with a million equal pairs
// use one queue per rank, where pushing and popping in text order is O(1). A few long runs of one symbol ("aaaa…")
// merge as runs, a whole level at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

using Symbol = int32_t;

struct Merge {
  static constexpr uint32_t kNever = 0xFFFFFFFF;
  uint32_t rank = kNever;
  Symbol result = -1;
};

struct MergeRule {
  Symbol left, right;
  Merge merge;
};

// (left, right) → Merge. Open addressing, load ≤ 1/2. Immutable once filled.
class MergeTable {
 public:
  void reserve(size_t n_merges);
  // Keeps the entry of lower rank when the pair is known already. REQUIRES reserve() for at least this many.
  void add(Symbol left, Symbol right, Merge merge);
  Merge find(Symbol left, Symbol right) const {
    if (slots_.empty()) return {};
    const uint64_t key = make_key(left, right);
    for (size_t i = slot_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }
  // Calls f(left, right) for every pair.
  template <class F>
  void for_each_pair(F f) const {
    for (const Slot& s : slots_) {
      if (s.key != kEmpty) f(static_cast<Symbol>(s.key >> 32), static_cast<Symbol>(s.key & 0xFFFFFFFF));
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // symbols are ≥ 0, so no key looks like this
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t make_key(Symbol left, Symbol right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> shift_); }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  int shift_ = 63;
};

// Applies merges until none is left. `symbols` in text order, each ≥ 0; fewer than 2^31 of them.
void merge_symbols(const MergeTable& table, std::vector<Symbol>& symbols);

// The strategies, which agree on every input (tested); merge_symbols picks by length and runs.
void merge_by_scan(const MergeTable& table, std::vector<Symbol>& symbols);
void merge_by_heap(const MergeTable& table, std::vector<Symbol>& symbols);
void merge_by_rank_queues(const MergeTable& table, std::vector<Symbol>& symbols);
// False, and nothing has changed, where the text is not of a few long runs, or falls into many on the way.
bool merge_by_runs(const MergeTable& table, std::vector<Symbol>& symbols);

}  // namespace quire
