#include "model/adapter_ends.h"

#include <algorithm>

#include "model/lora_config.h"

namespace quire {
namespace {

constexpr int64_t kRowsAtOnce = 64;

const std::vector<LowRank>& of(const AdapterRows& some, int ends, std::vector<LowRank> AdapterLayer::* product) {
  return some.adapter->layers[static_cast<size_t>(ends)].*product;
}

}  // namespace

int64_t embedding_adapter_bytes() { return Arena::row_bytes(kRowsAtOnce, kMaxLoraRank); }

void add_to_embeddings(const Tensor& x, int ends, const Pass& pass) {
  for (const AdapterRows& some : pass.batch->adapters) {
    if (of(some, ends, kEmbedding).empty()) continue;
    const Linear& table = of(some, ends, kEmbeddingTable)[0].a;
    for (int64_t begin = some.begin; begin < some.end; begin += kRowsAtOnce) {
      const int64_t n = std::min(kRowsAtOnce, some.end - begin);
      const auto mark = pass.arena->mark();
      const Tensor found = pass.arena->alloc_rows(n, table.n_in);  // [n, rank]
      pass.ops->embed(found, pass.batch->ids.rows(begin, n), table);
      const AdapterRows all{some.adapter, 0, n};
      pass.ops->add_low_rank(x.rows(begin, n), found, {{&all, 1}, ends, kEmbedding});
      pass.arena->release(mark);
    }
  }
}

void add_to_logits(const Tensor& logits, const Tensor& x, int ends, const Pass& pass) {
  const auto out_rows = pass.batch->out_rows.span<int32_t>();  // ascending
  const auto n_before = [&](int64_t row) { return std::ranges::lower_bound(out_rows, row) - out_rows.begin(); };
  std::vector<AdapterRows> wanted;
  for (const AdapterRows& some : pass.batch->adapters) {
    if (of(some, ends, kHead).empty()) continue;
    wanted.push_back({some.adapter, n_before(some.begin), n_before(some.end)});
  }
  if (!wanted.empty()) pass.ops->add_low_rank(logits, x, {wanted, ends, kHead});
}

}  // namespace quire
