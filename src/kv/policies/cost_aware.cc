// What is worth least goes first: how likely a block comes back, times what computing it again would cost, and the
// longer it lies unused the less.
//
//   value = (share of blocks found so often before that were found again) · (1 + tokens before it / kEqualTokens)
//   rank  = when it was used last + log2(value) · half of all blocks
//
// Time is counted in blocks that were found or entered. So a block that is worth twice another's is kept as if it had
// been used later by half as many blocks as there are: a value that halves in that time, written so that ages cancel
// out of a comparison and no rank has to change by itself. The shares are learned while the cache runs, for blocks that
// were never found, once, twice, and more often; how often survives eviction for as long as about twice the blocks that
// there are (ghosts.h), which is how a cache that is much too small for its traffic tells what comes back at all. All
// numbers are integers: the same calls give the same order on every machine.
// Source: our own; the product is GreedyDual-Size-Frequency's (Cherkasova 1998), a price by tokens before the block as
// in Marconi (Pan et al., MLSys 2025).
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "kv/ghosts.h"
#include "kv/heap_policy.h"

namespace quire {
namespace {

constexpr size_t kClasses = 4;           // found 0, 1, 2 times, and more often
constexpr int64_t kEqualTokens = 16384;  // so many tokens before it make a block cost twice: attention over them is as
                                         // much work as all weights, in models of 1B (15k) to 8B (30k)
constexpr int kBits = 8;                 // binary digits behind the point of a logarithm

// log2(x) · 2^kBits, rounded down. REQUIRES 0 < x < 2^32.
int64_t log2_of(uint64_t x) {
  const int whole = 63 - std::countl_zero(x);
  int64_t out = whole;
  uint64_t y = x << (31 - whole);  // x / 2^whole, in [1, 2), with 31 digits behind the point
  for (int i = 0; i < kBits; ++i) {
    y = y * y >> 31;
    const uint64_t digit = y >> 32;
    y >>= digit;
    out = out * 2 + static_cast<int64_t>(digit);
  }
  return out;
}

class CostAware final : public HeapPolicy {
 public:
  explicit CostAware(const KvPolicyEnv& env)
      : HeapPolicy(env),
        nodes_(env.nodes),
        n_blocks_(env.n_blocks),
        block_tokens_(env.block_tokens),
        states_(static_cast<size_t>(env.nodes.capacity())),
        ghosts_(int64_t{2} * env.n_blocks) {}

  void entered(int32_t node) override { put_in_class(node, ghosts_.take(nodes_[node].name, 0)); }
  void found(int32_t node) override {
    const uint8_t before = of(node).n_found;
    ++classes_[before].n_found;
    put_in_class(node, one_more(before));
  }
  void left(int32_t node) override { ghosts_.put(nodes_[node].name, one_more(of(node).n_found)); }

  void push(int32_t node) override {
    nodes_[node].rank = rank_of(node);
    HeapPolicy::push(node);
  }
  void was_used(int32_t node) override {
    of(node).used = clock_;
    nodes_[node].rank = rank_of(node);
    HeapPolicy::was_used(node);
  }

 private:
  struct State {
    int64_t used = 0;
    uint8_t n_found = 0;  // times, at most kClasses − 1
  };
  struct Class {
    uint64_t n = 0, n_found = 0;  // blocks that came into the class, and those of them that were found in it
  };

  static uint8_t one_more(uint8_t n) { return std::min<uint8_t>(static_cast<uint8_t>(n + 1), kClasses - 1); }
  State& of(int32_t node) { return states_[static_cast<size_t>(node)]; }

  void put_in_class(int32_t node, uint8_t n_found) {
    of(node) = {++clock_, n_found};
    Class& entered = classes_[n_found];
    if (++entered.n <= uint64_t{4} * static_cast<uint64_t>(n_blocks_)) return;
    entered.n /= 2;  // what was long ago counts less
    entered.n_found /= 2;
  }

  // Of a class without blocks a half is expected to come back.
  int64_t rank_of(int32_t node) {
    const State& state = of(node);
    const Class& known = classes_[state.n_found];
    const int64_t n_before = int64_t{nodes_[node].depth} * block_tokens_;
    const int64_t value = log2_of(capped(2 * known.n_found + 1)) - log2_of(capped(2 * known.n + 2)) +
                          log2_of(capped(static_cast<uint64_t>(kEqualTokens + n_before)));
    return state.used + value * n_blocks_ / (2 << kBits);
  }
  static uint64_t capped(uint64_t x) { return std::min<uint64_t>(x, UINT32_MAX); }

  NodeTable& nodes_;
  int64_t n_blocks_, block_tokens_;
  int64_t clock_ = 0;
  std::array<Class, kClasses> classes_;
  std::vector<State> states_;  // by node
  Ghosts ghosts_;
};

std::unique_ptr<KvPolicy> make(const KvPolicyEnv& env) { return std::make_unique<CostAware>(env); }

QR_REGISTER(KvPolicyEntry, "cost_aware", KvPolicyEntry{&make});

}  // namespace
}  // namespace quire
