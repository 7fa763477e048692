// Three queues and no order of use: what is new waits in a small one, a tenth of the blocks; what was found there more
// than once moves to the main one when its turn comes, and the rest leaves and is remembered by name for a while:
// who comes back within that time goes to the main queue at once. There, whoever was found since its last turn gets
// another, three times at most. So what is asked for once passes quickly and takes nobody's place. In a tree only
// leaves have turns; nodes above them keep their place in their queue. Turns that give another are paid for by the hits
// before them: O(log n) on average.
// Source: Yang, Zhang, Qiu, Yue, Vigfusson: FIFO queues are all you need for cache eviction (SOSP 2023).
#include <algorithm>
#include <vector>

#include "kv/ghosts.h"
#include "kv/kv_policy.h"
#include "kv/use_heap.h"

namespace quire {
namespace {

constexpr int kSmallShare = 10;  // the small queue is one in so many blocks
constexpr uint8_t kMostFound = 3, kFoundToStay = 2;

class S3Fifo final : public KvPolicy {
 public:
  explicit S3Fifo(const KvPolicyEnv& env)
      : nodes_(env.nodes),
        n_small_wanted_(env.n_blocks / kSmallShare),
        states_(static_cast<size_t>(env.nodes.capacity())),
        small_(env.nodes, env.n_blocks),
        main_(env.nodes, env.n_blocks),
        ghosts_(int64_t{env.n_blocks} * (kSmallShare - 1) / kSmallShare) {}

  void entered(int32_t node) override {
    State& state = of(node);
    state = {};
    state.is_main = ghosts_.take(nodes_[node].name, 0) != 0;
    n_small_ += state.is_main ? 0 : 1;
    nodes_[node].rank = ++clock_;
  }
  void found(int32_t node) override {
    State& state = of(node);
    state.n_found = std::min<uint8_t>(static_cast<uint8_t>(state.n_found + 1), kMostFound);
  }
  void left(int32_t node) override {
    if (of(node).is_main) return;
    --n_small_;
    ghosts_.put(nodes_[node].name, 1);
  }

  void push(int32_t node) override { queue_of(node).push(node); }
  void drop(int32_t node) override { queue_of(node).drop(node); }
  void was_used(int32_t) override {}  // places are kept, whoever is used
  size_t n_leaves() const override { return small_.size() + main_.size(); }
  bool lists(int32_t node) const override { return small_.lists(node) || main_.lists(node); }
  std::string check() const override { return small_.check() + main_.check(); }

  int32_t first() override {
    while (true) {
      const bool from_small = takes_small();
      const int32_t node = from_small ? small_.front() : main_.front();
      State& state = of(node);
      if (state.n_found < (from_small ? kFoundToStay : 1)) return node;
      drop(node);
      n_small_ -= from_small ? 1 : 0;
      state.n_found = from_small ? uint8_t{0} : static_cast<uint8_t>(state.n_found - 1);
      state.is_main = true;
      nodes_[node].rank = ++clock_;
      main_.push(node);
    }
  }

 private:
  struct State {
    bool is_main = false;
    uint8_t n_found = 0;  // since its last turn
  };
  State& of(int32_t node) { return states_[static_cast<size_t>(node)]; }
  // REQUIRES leaves. A lower priority goes first, in whichever queue it is.
  bool takes_small() const {
    if (small_.empty() || main_.empty()) return !small_.empty();
    const uint8_t small = nodes_[small_.front()].priority, main = nodes_[main_.front()].priority;
    return small != main ? small < main : n_small_ > n_small_wanted_;
  }
  UseHeap& queue_of(int32_t node) { return of(node).is_main ? main_ : small_; }

  NodeTable& nodes_;
  int64_t n_small_wanted_, n_small_ = 0;  // of nodes, leaves or not
  int64_t clock_ = 0;
  std::vector<State> states_;  // by node
  UseHeap small_, main_;       // by rank: when they came into the queue
  Ghosts ghosts_;
};

std::unique_ptr<KvPolicy> make(const KvPolicyEnv& env) { return std::make_unique<S3Fifo>(env); }

QR_REGISTER(KvPolicyEntry, "s3_fifo", KvPolicyEntry{&make});

}  // namespace
}  // namespace quire
