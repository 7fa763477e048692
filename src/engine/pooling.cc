#include "engine/pooling.h"

#include <algorithm>

namespace quire {
namespace {

void add_row(Sequence& seq, int position, std::span<const float> hidden) {
  seq.pooled.resize(hidden.size());
  const bool sums = seq.request.pool == Pool::mean && position > 0;
  for (size_t i = 0; i < hidden.size(); ++i) seq.pooled[i] = (sums ? seq.pooled[i] : 0.0) + hidden[i];
  seq.n_pooled = position + 1;
}

}  // namespace

void Pooling::take(const Plan& plan, const Tensor& x, const Pass& pass, const Model& model, int most) {
  rows_.clear();
  int32_t first = 0;
  for (const Grant& grant : plan.grants) {
    Sequence& seq = *grant.seq;
    for (int i = 0; i < grant.n_tokens && seq.wants_pooling(); ++i) {
      const int position = seq.n_computed + i;
      const bool wanted = seq.request.pool == Pool::mean ? position >= seq.n_pooled : position == seq.n_prompt - 1;
      if (wanted && position < seq.n_prompt) rows_.push_back({&seq, first + i, position});
    }
    first += grant.n_tokens;
  }
  for (size_t at = 0; at < rows_.size(); at += static_cast<size_t>(most)) {
    const size_t n = std::min(static_cast<size_t>(most), rows_.size() - at);
    const int64_t mark = pass.arena->mark();
    Batch batch = *pass.batch;
    batch.out_rows = pass.arena->alloc(DType::i32, {static_cast<int64_t>(n)});
    for (size_t i = 0; i < n; ++i) batch.out_rows.ptr<int32_t>()[i] = rows_[at + i].row;
    Pass rows_pass = pass;
    rows_pass.batch = &batch;
    const Tensor hidden = model.hidden(x, rows_pass);  // [n, n_embd]
    for (size_t i = 0; i < n && hidden.data != nullptr; ++i) {
      const float* row = hidden.row<float>(static_cast<int64_t>(i));
      add_row(*rows_[at + i].seq, rows_[at + i].position, {row, static_cast<size_t>(hidden.dim(1))});
    }
    pass.arena->release(mark);
  }
}

void Pooling::emit() {
  for (const Row& row : rows_) {
    Sequence& seq = *row.seq;
    if (row.position != seq.n_prompt - 1 || seq.pooled.empty()) continue;
    const double n = seq.request.pool == Pool::mean ? seq.n_prompt : 1;
    out_.clear();
    for (const double v : seq.pooled) out_.push_back(static_cast<float>(v / n));
    seq.sink->on_pooled(seq.id, out_);
  }
}

}  // namespace quire
