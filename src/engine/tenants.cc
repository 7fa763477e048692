#include "engine/tenants.h"

#include <algorithm>
#include <limits>

namespace quire {

Tenant& Tenants::of(uint64_t id) {
  const auto [at, is_new] = tenants_.try_emplace(id);
  if (is_new) at->second.served = level_ - allowance_;
  at->second.id = id;
  return at->second;
}

void Tenants::enter(Tenant& tenant, int weight) {
  tenant.weight = weight;
  if (tenant.n_here++ == 0) ++n_here_;
}

// One that would be lifted needs no memory.
void Tenants::leave(Tenant& tenant) {
  if (--tenant.n_here > 0) return;
  --n_here_;
  tenant.was_waiting = false;
  if (tenant.served <= level_ - allowance_)
    tenants_.erase(tenant.id);
  else if (tenants_.size() > static_cast<size_t>(n_here_) + kMostIdleTenants)
    forget_idle();
}

// The one that is owed least for it.
void Tenants::forget_idle() {
  auto least = tenants_.end();
  for (auto at = tenants_.begin(); at != tenants_.end(); ++at) {
    const bool idle = at->second.n_here == 0;
    if (idle && (least == tenants_.end() || at->second.served < least->second.served)) least = at;
  }
  if (least != tenants_.end()) tenants_.erase(least);
}

// The least that any has been served who waited before; where nobody did, what the last of them has been.
int64_t Tenants::level() const {
  constexpr int64_t kNobody = std::numeric_limits<int64_t>::max();
  int64_t least = kNobody;
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.was_waiting) least = std::min(least, tenant.served);
  }
  if (least != kNobody) return std::max(level_, least);
  const auto last = tenants_.find(last_waited_);
  return last == tenants_.end() ? level_ : std::max(level_, last->second.served);
}

// To just below it, without an allowance: between equals the one that has just come goes first.
void Tenants::begin_plan() {
  for (auto& [id, tenant] : tenants_) tenant.was_waiting &= tenant.n_waiting > 0;
  level_ = level();
  const int64_t lowest = level_ - std::max<int64_t>(allowance_, 1);
  for (auto& [id, tenant] : tenants_) {
    if (tenant.n_waiting > 0 && !tenant.was_waiting) tenant.served = std::max(tenant.served, lowest);
    tenant.was_waiting = tenant.n_waiting > 0;
    tenant.within = n_here_ > 1 && allowance_ > 0 &&
                    tenant.served + kServedUnit * kPromptCharge * tenant.n_pending / tenant.weight <= level_;
  }
}

void Tenants::end_plan() {
  const Tenant* last = nullptr;
  for (auto& [id, tenant] : tenants_) {
    if (!tenant.was_waiting || tenant.n_waiting > 0) continue;
    tenant.was_waiting = false;
    if (last == nullptr || tenant.served > last->served) last = &tenant;
  }
  if (last != nullptr) last_waited_ = last->id;
}

}  // namespace quire
