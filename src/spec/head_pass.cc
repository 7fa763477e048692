#include "spec/head_pass.h"

#include <algorithm>
#include <numeric>

#include "kv/block_ids.h"
#include "model/batch_rows.h"

namespace quire {

int64_t head_batch_bytes(const HeadPassSize& most, const KvLayout& layout) {
  const int64_t n_blocks = most.n_ctx / most.block_tokens + 2;
  return BatchRows::bytes({.n_rows = most.n_rows, .n_seqs = most.n_seqs, .n_blocks = n_blocks}, layout.n_groups());
}

Batch head_batch(std::span<const HeadRows> rows, const KvLayout& layout, int block_tokens, Arena& arena) {
  BatchRows::Size size{.n_out = std::ssize(rows), .n_seqs = std::ssize(rows), .n_blocks = 1};
  for (const HeadRows& r : rows) {
    size.n_rows += std::ssize(r.tokens);
    size.n_blocks = std::max(size.n_blocks, std::ssize(r.kv->table));
  }
  BatchRows out(size, layout, block_tokens, arena);
  for (const HeadRows& r : rows) {
    for (size_t g = 0; g < static_cast<size_t>(layout.n_groups()); ++g) put_block_ids(*r.kv, g, out.table(g));
    out.add({.begin = r.begin, .tokens = r.tokens, .n_out = 1});
  }
  return out.batch();
}

Tensor state_rows(std::span<const HeadRows> rows, int64_t n, Arena& arena) {
  const Tensor out = arena.alloc(DType::i32, {n});
  auto* at = out.ptr<int32_t>();
  for (const HeadRows& r : rows) {
    const auto n_first = static_cast<std::ptrdiff_t>(r.tokens.size()) - r.n_then;
    std::iota(at, at + n_first, r.from);
    std::iota(at + n_first, at + n_first + r.n_then, r.then);
    at += n_first + r.n_then;
  }
  return out;
}

}  // namespace quire
