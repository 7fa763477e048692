#include "engine/tenants.h"

#include <algorithm>
#include <limits>

namespace quire {

Tenant& Tenants::of(uint64_t id) {
  Tenant& out = tenants_.try_emplace(id).first->second;
  out.id = id;
  return out;
}

void Tenants::enter(Tenant& tenant, int weight) {
  tenant.weight = weight;
  if (tenant.n_here++ == 0) ++n_here_;
}

// One that has had no more than the level needs no memory: it would be lifted there.
void Tenants::leave(Tenant& tenant) {
  if (--tenant.n_here > 0) return;
  --n_here_;
  tenant.was_waiting = false;
  if (tenant.served <= level_)
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

// To just below it: between equals the one that has just come goes first.
void Tenants::begin_plan() {
  bool any = false;
  for (auto& [id, tenant] : tenants_) {
    tenant.was_waiting &= tenant.n_waiting > 0;
    any |= tenant.n_waiting > 0 && !tenant.was_waiting;
  }
  if (!any) return;
  level_ = level();
  for (auto& [id, tenant] : tenants_) {
    if (tenant.n_waiting > 0 && !tenant.was_waiting) tenant.served = std::max(tenant.served, level_ - 1);
    tenant.was_waiting = tenant.n_waiting > 0;
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
