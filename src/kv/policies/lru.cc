// The longest unused leaf goes first: no node has a rank. A walk touches its deepest node first, so a path goes from
// its end.
#include "kv/heap_policy.h"

namespace quire {
namespace {

std::unique_ptr<KvPolicy> make(const KvPolicyEnv& env) { return std::make_unique<HeapPolicy>(env); }

QR_REGISTER(KvPolicyEntry, "lru", KvPolicyEntry{&make});

}  // namespace
}  // namespace quire
