#include "engine/pooling.h"

#include <new>

namespace quire {
namespace {

void add_row(Sequence& seq, int position, std::span<const float> hidden) {
  if (seq.request.pool == Pool::all) {
    seq.of_prompt.pooled.resize(static_cast<size_t>(position - seq.n_virtual) * hidden.size());
    seq.of_prompt.pooled.insert(seq.of_prompt.pooled.end(), hidden.begin(), hidden.end());
    seq.of_prompt.n_pooled = position + 1;
    return;
  }
  seq.of_prompt.pooled.resize(hidden.size());
  const bool sums = seq.request.pool == Pool::mean && position > seq.n_virtual;
  for (size_t i = 0; i < hidden.size(); ++i)
    seq.of_prompt.pooled[i] = (sums ? seq.of_prompt.pooled[i] : 0.0) + hidden[i];
  seq.of_prompt.n_pooled = position + 1;
}

}  // namespace

void Pooling::take(std::span<const PromptRow> rows, const Tensor& x, const Pass& pass, const Model& model, int most) {
  in_portions(rows, most, pass, [&](std::span<const PromptRow> portion, const Pass& of_portion) {
    const Tensor hidden = model.hidden(x, of_portion);  // [n, n_embd]
    pass.ops->finish();
    for (size_t i = 0; i < portion.size() && hidden.data != nullptr; ++i) {
      const float* row = hidden.row<float>(static_cast<int64_t>(i));
      Sequence& seq = *portion[i].seq;
      try {
        add_row(seq, portion[i].position, {row, static_cast<size_t>(hidden.dim(1))});
      } catch (const std::bad_alloc&) {
        seq.fault = kNoMemory;
      }
    }
  });
}

void Pooling::emit(std::span<const PromptRow> rows) {
  for (const PromptRow& row : rows) {
    Sequence& seq = *row.seq;
    if (row.position != seq.n_prompt - 1 || seq.of_prompt.pooled.empty() || !seq.fault.empty()) continue;
    const double n = seq.request.pool == Pool::mean ? seq.n_prompt - seq.n_virtual : 1;
    seq.tell_sink([&](EventSink& sink) {
      out_.clear();
      for (const double v : seq.of_prompt.pooled) out_.push_back(static_cast<float>(v / n));
      sink.on_pooled(seq.id, out_);
    });
  }
}

}  // namespace quire
