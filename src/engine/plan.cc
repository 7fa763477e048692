#include "engine/plan.h"

#include <algorithm>
#include <utility>

namespace quire {

int Grant::n_adapted() const {
  if (seq->request.adapter == nullptr) return 0;
  return std::clamp(seq->n_computed + n_tokens - seq->n_base, 0, n_tokens);
}

// A branch's rows see what the draft's at the same places see.
StepShape Grant::shape() const {
  const int depth = seq->n_computed - seq->kv.n_dropped;
  StepShape out = StepShape::rows(depth, n_tokens, n_drafted);
  for (int i = 0; i < n_side; ++i) out += StepShape::rows(depth + 1, 1);
  return out;
}

void Plan::clear() {
  grants.clear();
  n_tokens = n_out = n_drafted = n_branches = 0;
  shape = {};
}

void Plan::add(const Grant& grant) {
  grants.push_back(grant);
  count(grant, 1);
}

bool Plan::drop(const Sequence& seq) {
  const auto at = std::find_if(grants.begin(), grants.end(), [&](const Grant& g) { return g.seq == &seq; });
  if (at == grants.end()) return false;
  count(*at, -1);
  grants.erase(at);
  return true;
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
  grant.n_side = 0;
  count(grant, 1);
}

void Plan::set_branches(Grant& grant) {
  count(grant, -1);
  grant.n_side = 0;
  for (const Branch& branch : grant.seq->branches) grant.n_side += static_cast<int>(branch.tokens.size());
  count(grant, 1);
}

void Plan::place() {
  n_branches = 0;
  int row = 0, out = 0;
  for (Grant& grant : grants) {
    grant.first_out = out;
    row += grant.n_tokens;
    out += grant.n_out;
  }
  for (const Grant& grant : grants) {
    if (grant.n_side == 0) continue;
    for (Branch& branch : grant.seq->branches) {
      branch.first_row = row;
      branch.first_out = out;
      row += static_cast<int>(branch.tokens.size());
      out += static_cast<int>(branch.tokens.size());
      ++n_branches;
    }
  }
}

void Plan::count(const Grant& grant, int sign) {
  n_tokens += sign * grant.n_rows();
  n_out += sign * (grant.n_out + grant.n_side);
  n_drafted += sign * (grant.n_drafted + grant.n_side);
  if (sign > 0) {
    shape += grant.shape();
  } else {
    shape -= grant.shape();
  }
}

}  // namespace quire
