// See short_head.h.
#include "model/short_head.h"

#include <cstring>

#include "base/bounded_reader.h"
#include "quant/convert.h"

namespace quire {
namespace {

// Rows of a weight, one for each token, read where they are wanted.
class SomeRows final : public MadeRows {
 public:
  SomeRows(const HostWeight& whole, std::vector<Token> tokens) : whole_(whole), tokens_(std::move(tokens)) {}

  std::string kind() const override { return "some rows"; }
  std::vector<std::span<const std::byte>> stored() const override { return whole_.stored(); }
  void make(int64_t first, int64_t n, std::byte* out) const override {
    const auto bytes = static_cast<size_t>(whole_.row_bytes());
    std::vector<std::byte> room;
    for (int64_t i = 0; i < n; ++i, out += bytes) {
      std::memcpy(out, whole_.rows(tokens_[static_cast<size_t>(first + i)], 1, room), bytes);
    }
  }

 private:
  const HostWeight whole_;
  const std::vector<Token> tokens_;
};

}  // namespace

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

Result<std::unique_ptr<Model>> with_short_head(std::unique_ptr<Model> model,
                                               const ModelFile& file,
                                               std::vector<Token> tokens,
                                               Ops& ops,
                                               const ShortHeadLoad& how) {
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
  const int64_t n = std::ssize(tokens);
  HostWeight part{.name = whole->name,
                  .format = whole->format,
                  .shape = {n, info.n_embd},
                  .data = {},
                  .made = std::make_shared<SomeRows>(*whole, tokens)};
  Buffer converted;
  const WeightFormat* to = how.as == nullptr ? part.format : fitting_format(part, *how.as);
  if (to->row_bytes(info.n_embd) < part.row_bytes()) {
    const int64_t n_bytes = n * to->row_bytes(info.n_embd);
    if (!how.counts) {
      QR_TRY(converted, Buffer::allocate(n_bytes));
      auto lost = convert_weight(part, *to, {.n_threads = how.n_threads, .quick = true}, converted.data());
      if (!lost) return error_within(file.path + ": of the rows of these tokens", std::move(lost).error());
      part.data = {converted.data(), static_cast<size_t>(n_bytes)};
    }
    part.format = to;
    part.made = nullptr;
  }
  const int64_t bytes = n * part.row_bytes();
  QR_TRY(Linear out, ops.load_linear(part, nullptr, Shard{}));
  return std::make_unique<ShortHead>(std::move(model), out, bytes, std::move(tokens));
}

}  // namespace quire
