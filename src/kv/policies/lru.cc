// The longest unused leaf goes first. A walk touches its deepest node first, so a path goes from its end.
#include "kv/kv_policy.h"
#include "kv/use_heap.h"

namespace quire {
namespace {

class Lru final : public KvPolicy {
 public:
  explicit Lru(const KvPolicyEnv& env) : leaves_(env.nodes, env.n_blocks) {}

  void push(int32_t node) override { leaves_.push(node); }
  void drop(int32_t node) override { leaves_.drop(node); }
  void was_used(int32_t node) override { leaves_.was_used(node); }
  int32_t first() override { return leaves_.front(); }
  size_t n_leaves() const override { return leaves_.size(); }
  bool lists(int32_t node) const override { return leaves_.lists(node); }
  std::string check() const override { return leaves_.check(); }

 private:
  UseHeap leaves_;
};

std::unique_ptr<KvPolicy> make(const KvPolicyEnv& env) { return std::make_unique<Lru>(env); }

QR_REGISTER(KvPolicyEntry, "lru", KvPolicyEntry{&make});

}  // namespace
}  // namespace quire
