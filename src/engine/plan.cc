#include "engine/plan.h"

#include <algorithm>
#include <utility>

namespace quire {

int Grant::n_adapted() const {
  if (seq->request.adapter == nullptr) return 0;
  return std::clamp(seq->n_computed + n_tokens - seq->n_base, 0, n_tokens);
}

void Plan::clear() {
  grants.clear();
  n_tokens = n_out = n_drafted = 0;
  shape = {};
}

void Plan::add(const Grant& grant) {
  grants.push_back(grant);
  count(grant, 1);
}

void Plan::drop(const Sequence& seq) {
  const auto at = std::find_if(grants.begin(), grants.end(), [&](const Grant& g) { return g.seq == &seq; });
  if (at == grants.end()) return;
  count(*at, -1);
  grants.erase(at);
}

void Plan::group_adapters() {
  if (std::ranges::none_of(grants, [](const Grant& grant) { return grant.adapter() != nullptr; })) return;
  std::ranges::sort(grants, {}, [](const Grant& grant) {
    return std::pair(grant.adapter() != nullptr ? grant.adapter()->content : 0, grant.seq->id);
  });
}

void Plan::set_drafted(Grant& grant, int n) {
  count(grant, -1);
  grant.n_tokens = grant.n_out = 1 + n;
  grant.n_drafted = n;
  count(grant, 1);
}

void Plan::count(const Grant& grant, int sign) {
  n_tokens += sign * grant.n_tokens;
  n_out += sign * grant.n_out;
  n_drafted += sign * grant.n_drafted;
  if (sign > 0) {
    shape += grant.shape();
  } else {
    shape -= grant.shape();
  }
}

}  // namespace quire
