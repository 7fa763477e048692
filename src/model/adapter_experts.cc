#include "model/adapter_experts.h"

#include "ops/route.h"

namespace quire {

void run_experts(const Tensor& out, const MoeInput& in, const Experts& experts, int first, const Pass& pass) {
  const int n_used = experts.routing.n_used;
  const auto rows = [&](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    return MoeInput{in.x.rows(begin, n), in.router.rows(begin, n), in.scratch.rows(begin * n_used, n * n_used)};
  };
  int64_t done = 0;
  const auto run_plain = [&](int64_t end) {
    if (done < end) pass.ops->moe(out.rows(done, end - done), rows(done, end), experts);
    done = end;
  };
  for (const AdapterRows& some : pass.batch->adapters) {
    if (std::ssize(some.adapter->layers) <= first || some.begin == some.end) continue;
    run_plain(some.begin);
    adapted_moe(*pass.ops, out.rows(some.begin, some.end - some.begin), rows(some.begin, some.end), experts,
                {some.adapter, first});
    done = some.end;
  }
  run_plain(in.x.dim(0));
}

void add_beside_experts(
    const Tensor& y, const Tensor& x, int entry, std::vector<LowRank> AdapterLayer::* product, const Pass& pass) {
  std::vector<AdapterRows> wanted;
  for (const AdapterRows& some : pass.batch->adapters) {
    if (entry < std::ssize(some.adapter->layers)) wanted.push_back(some);
  }
  if (!wanted.empty()) pass.ops->add_low_rank(y, x, {wanted, entry, product});
}

}  // namespace quire
