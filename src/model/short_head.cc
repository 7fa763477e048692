// See short_head.h.
#include "model/short_head.h"

#include <cstring>

#include "quant/convert.h"

namespace quire {

ShortHead::ShortHead(std::unique_ptr<Model> model, Linear out, int64_t out_bytes, std::vector<Token> tokens)
    : model_(std::move(model)), out_({out}), tokens_(std::move(tokens)) {
  info_ = model_->info();
  info_.weight_bytes += out_bytes;
}

Tensor ShortHead::head(Tensor x, const Pass& pass) const {
  const Tensor normed = model_->hidden(x, pass);  // [n_out, n_embd]
  const Tensor logits = pass.arena->alloc(DType::f32, {normed.dim(0), static_cast<int64_t>(tokens_.size())});
  pass.ops->linear(logits, normed, out_);
  return logits;
}

const ShortHead* as_short_head(const Model* model) { return dynamic_cast<const ShortHead*>(model); }

Result<std::unique_ptr<Model>> with_short_head(
    std::unique_ptr<Model> model, const ModelFile& file, std::vector<Token> tokens, Ops& ops, const WeightFormat* as) {
  const ModelInfo& info = model->info();
  QR_TRY(const ModelFile neutral, neutral_form(file));
  const HostWeight* whole = neutral.find("output.weight");
  if (whole == nullptr) whole = neutral.find("token_embd.weight");
  const std::vector<int64_t> shape = {info.n_vocab, info.n_embd};
  if (!info.has_taps || whole == nullptr || whole->shape != shape || !whole->order().empty() ||
      neutral.find("output.bias") != nullptr) {
    return fail(Code::unsupported, file.path + ": the product over the vocabulary of a " + info.arch +
                                       " model is not one matrix in order, so it cannot be cut to some tokens");
  }
  const int64_t row_bytes = whole->row_bytes(), n = std::ssize(tokens);
  QR_TRY(Buffer rows, Buffer::allocate(n * row_bytes));
  std::vector<std::byte> room;
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(rows.data() + i * row_bytes, whole->rows(tokens[static_cast<size_t>(i)], 1, room),
                static_cast<size_t>(row_bytes));
  }
  HostWeight part{.name = whole->name,
                  .format = whole->format,
                  .shape = {n, info.n_embd},
                  .data = {rows.data(), static_cast<size_t>(n * row_bytes)}};
  Buffer converted;
  const WeightFormat* to = as == nullptr ? part.format : fitting_format(part, *as);
  if (to->row_bytes(info.n_embd) < row_bytes) {
    const int64_t n_bytes = n * to->row_bytes(info.n_embd);
    QR_TRY(converted, Buffer::allocate(n_bytes));
    QR_TRY_VOID(convert_weight(part, *to, {.quick = true}, converted.data()));
    part.format = to;
    part.data = {converted.data(), static_cast<size_t>(n_bytes)};
  }
  const int64_t bytes = n * part.row_bytes();
  QR_TRY(Linear out, ops.load_linear(part, nullptr, Shard{}));
  return std::make_unique<ShortHead>(std::move(model), out, bytes, std::move(tokens));
}

}  // namespace quire
