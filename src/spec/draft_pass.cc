#include "spec/draft_pass.h"

#include <algorithm>

#include "kv/block_ids.h"
#include "model/batch_rows.h"

namespace quire {

Status check_can_draft(const ModelInfo& model) {
  if (model.kv_layout.state_bytes() == 0) return {};
  return fail(Code::unsupported, "a model whose layers keep a state cannot draft: it cannot go back to before a guess");
}

int64_t DraftPass::bytes(const Model& model, const Size& most) {
  const int64_t n_blocks = most.n_ctx / most.block_tokens + 2;
  return model.arena_bytes(most.n_rows, most.n_seqs) +
         BatchRows::bytes({.n_rows = most.n_rows, .n_seqs = most.n_seqs, .n_blocks = n_blocks},
                          model.info().kv_layout.n_groups());
}

std::span<const Sampled> DraftPass::run(std::span<const DraftRows> rows,
                                        std::span<const SampleParams> params,
                                        const KvView& kv) {
  arena_.reset();
  const Batch batch = batch_of(rows, static_cast<int64_t>(params.size()));
  const Pass pass{&batch, kv, &arena_, &ops_};
  const int n_layers = size_.n_layers == 0 ? model_.info().n_layers : size_.n_layers;
  const Tensor x = model_.layers(model_.embed(pass), LayerRange{0, n_layers}, pass);
  sampled_.resize(params.size());
  if (params.empty()) {
    ops_.finish();
  } else {
    ops_.sample(sampled_, model_.head(x, pass), params);
  }
  return sampled_;
}

Batch DraftPass::batch_of(std::span<const DraftRows> rows, int64_t n_out) {
  const KvLayout& layout = model_.info().kv_layout;
  BatchRows::Size size{.n_out = n_out, .n_seqs = std::ssize(rows), .n_blocks = 1};
  for (const DraftRows& r : rows) {
    size.n_rows += std::ssize(r.tokens);
    size.n_blocks = std::max(size.n_blocks, std::ssize(r.kv->table));
  }
  BatchRows out(size, layout, size_.block_tokens, arena_);
  for (const DraftRows& r : rows) {
    for (size_t g = 0; g < static_cast<size_t>(layout.n_groups()); ++g) put_block_ids(*r.kv, g, out.table(g));
    out.add({.begin = r.begin,
             .tokens = r.tokens,
             .guesses = {},
             .n_out = r.wants_next ? 1 : 0,
             .n_dropped = r.kv->n_dropped});
  }
  return out.batch();
}

}  // namespace quire
