// Products of CudaOps, and rows of tables: rows are quantised, by themselves or by the kernel that makes them, and
// multiplied.
#include <algorithm>
#include <limits>

#include "backend/cuda/backend.h"
#include "backend/cuda/float_formats.h"
#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/launches.h"
#include "backend/cuda/low_rank.h"
#include "backend/cuda/tensor_launches.h"
#include "backend/cuda/tensor_rows.h"
#include "backend/cuda/weights.h"
#include "ops/op_check.h"
#include "ops/parts.h"

namespace quire::cuda {
namespace {

constexpr int64_t kProductRows = LinearMany<PackedQ8_0>::kRows;

// Activation groups of a row, rounded up to a stage's; and bytes that a quantised row takes.
int64_t pitch_of(int64_t n_in) { return parts_of(n_in, kPackedDepth) * kPackedBlocks; }
int64_t row_bytes_of(int64_t n_in) { return (n_in + 15) / 16 * 16 + pitch_of(n_in) * 4 * 4; }
// And those of one that is rounded to BF16.
int64_t rounded_bytes_of(int64_t n_in) { return parts_of(n_in, TensorPanels::kDepth) * TensorPanels::kDepth * 2; }

bool are_integers(std::span<const Linear> parts) {
  return std::ranges::all_of(parts, [](const Linear& part) { return part.format->integer; });
}
// Of which rows may be quantised by who makes them.
bool are_integers_in_order(std::span<const Linear> parts) {
  return are_integers(parts) && std::ranges::all_of(parts, [](const Linear& part) { return part.order.empty(); });
}

}  // namespace

void CudaOps::linear(Tensor y, Tensor x, std::span<const Linear> parts) {
  check_linear(y, x, parts);
  const Op op(*this);
  const int64_t row_bytes = row_bytes_of(x.dim(1)) + rounded_bytes_of(x.dim(1));
  const int64_t most = std::min(kMostRows, kWorkspaceBytes / row_bytes / kProductRows * kProductRows);
  QR_CHECK(most > 0);
  int64_t column = 0;
  while (!parts.empty()) {
    const std::span<const Linear> some = parts.first(n_same_order(parts));
    int64_t n_columns = 0;
    for (const Linear& part : some) n_columns += part.n_out;
    for (int64_t i = 0; i < x.dim(0); i += most) {
      const int64_t n = std::min(most, x.dim(0) - i);
      multiply(y.rows(i, n).columns(column, n_columns), x.rows(i, n), some);
    }
    column += n_columns;
    parts = parts.subspan(some.size());
  }
}

Result<Buffer> CudaOps::load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) {
  return load_low_rank_matrices(loaded_, from, to);
}

void CudaOps::add_low_rank(Tensor y, Tensor x, const AddedProducts& added) {
  check_add_low_rank(y, x, added);
  if (!adds_low_rank(added)) return;
  const Op op(*this);
  add_low_rank_rows(*runtime_, {workspace_, kWorkspaceBytes}, y, x, added);
}

QuantizedRows CudaOps::quantised_rows(int64_t n, int64_t n_in) const {
  const int64_t n_groups = n_in / 32, pitch = pitch_of(n_in);
  auto* scales = reinterpret_cast<float*>(workspace_);
  float *sums = scales + n * pitch, *half_sums = sums + n * pitch;
  auto* q = reinterpret_cast<int8_t*>(half_sums + 2 * n * pitch);
  return {q, scales, sums, half_sums, static_cast<int>(n_groups), static_cast<int>(pitch)};
}

QuantizedRows CudaOps::quantise(const Tensor& x, const Tensor& order) {
  const QuantizedRows to = quantised_rows(x.dim(0), x.dim(1));
  run(*runtime_, Quantize{read_rows(x), to, order.empty() ? nullptr : order.ptr<int32_t>()},
      parts_of(to.n_activation_groups, Quantize::kThreads / 32), x.dim(0));
  return to;
}

void CudaOps::multiply_few(const Tensor& y, const QuantizedRows& x, std::span<const Linear> parts, int64_t column) {
  const IntegerFormat& format = *find_integer_format(*parts.front().format);
  FewProduct product{.parts = {},
                     .x = x.q,
                     .x_scales = x.scales,
                     .x_sums = format.scale_group == 32 ? x.sums : x.half_sums,
                     .y = rows_of(y),
                     .n = static_cast<int>(y.dim(0)),
                     .n_groups = x.n_activation_groups,
                     .pitch = x.pitch};
  int n_runs = 0;
  for (size_t i = 0; i < kFewParts; ++i) {
    FewPart& to = product.parts[i];
    to.first = std::numeric_limits<int>::max();
    if (i >= parts.size()) continue;
    const Linear& part = parts[i];
    to = {part.w.ptr<uint8_t>(), part.bias.data == nullptr ? nullptr : part.bias.ptr<float>(),
          static_cast<int>(part.n_out), n_runs, static_cast<int>(column)};
    n_runs += static_cast<int>(parts_of(part.n_out, kFewOutputs));
    column += part.n_out;
  }
  runtime_->launch(format.multiply_few(product, {n_runs}, runtime_->size()));
}

void CudaOps::multiply_integers(const Tensor& y,
                                const QuantizedRows& x,
                                std::span<const Linear> parts,
                                int64_t column) {
  const IntegerFormat& format = *find_integer_format(*parts.front().format);
  if (y.dim(0) <= format.most_few(runtime_->size())) {
    for (size_t i = 0; i < parts.size(); i += kFewParts) {
      const auto some = parts.subspan(i, std::min<size_t>(kFewParts, parts.size() - i));
      multiply_few(y, x, some, column);
      for (const Linear& part : some) column += part.n_out;
    }
    return;
  }
  for (const Linear& part : parts) {
    runtime_->launch(format.multiply({.w = part.w.ptr<uint8_t>(),
                                      .bias = part.bias.data == nullptr ? nullptr : part.bias.ptr<float>(),
                                      .x = x.q,
                                      .x_scales = x.scales,
                                      .x_sums = format.scale_group == 32 ? x.sums : x.half_sums,
                                      .y = rows_of(y.columns(column, part.n_out)),
                                      .n = static_cast<int>(y.dim(0)),
                                      .n_out = static_cast<int>(part.n_out),
                                      .n_groups = x.n_activation_groups,
                                      .pitch = x.pitch,
                                      .batch = 0},
                                     runtime_->size()));
    column += part.n_out;
  }
}

// All parts are of integer formats; x is in the order that they want.
void CudaOps::multiply_all(const Tensor& y, const QuantizedRows& x, std::span<const Linear> parts) {
  if (y.dim(0) == 0) return;
  int64_t column = 0;
  for (size_t i = 0, end = 0; i < parts.size(); i = end) {
    const auto is_other = [&](const Linear& part) { return part.format != parts[i].format; };
    end = static_cast<size_t>(std::find_if(parts.begin() + static_cast<std::ptrdiff_t>(i), parts.end(), is_other) -
                              parts.begin());
    multiply_integers(y, x, parts.subspan(i, end - i), column);
    for (const Linear& part : parts.subspan(i, end - i)) column += part.n_out;
  }
}

template <class W>
void CudaOps::multiply_floats(const Tensor& y, const Tensor& x, const Linear& part) {
  using Kernel = LinearFloat<W>;
  run(*runtime_,
      Kernel{.w = {part.w.ptr<uint8_t>()},
             .bias = part.bias.data == nullptr ? nullptr : part.bias.ptr<float>(),
             .x = read_rows(x),
             .y = rows_of(y),
             .n = static_cast<int>(y.dim(0)),
             .n_out = static_cast<int>(part.n_out),
             .n_in = static_cast<int>(part.n_in)},
      parts_of(part.n_out, Kernel::kOutputs), parts_of(y.dim(0), Kernel::kRows));
}

const uint16_t* CudaOps::rounded_rows(const Tensor& x) {
  const int64_t n = x.dim(0), n_in = x.dim(1), n_blocks = parts_of(n_in, TensorPanels::kDepth);
  auto* to = reinterpret_cast<uint32_t*>(workspace_ + n * row_bytes_of(n_in));
  run_each(*runtime_, RoundRows{to, read_rows(x), static_cast<int>(n_in), static_cast<int>(n_blocks)}, n,
           n_blocks * TensorPanels::kDepth / 2);
  return reinterpret_cast<const uint16_t*>(to);
}

void CudaOps::multiply_tensor(const Tensor& y, const uint16_t* x, const Linear& part) {
  const TensorProduct product{.w = part.w.ptr<uint16_t>(),
                              .bias = part.bias.data == nullptr ? nullptr : part.bias.ptr<float>(),
                              .x = x,
                              .y = rows_of(y),
                              .n = static_cast<int>(y.dim(0)),
                              .n_out = static_cast<int>(part.n_out),
                              .n_blocks = static_cast<int>(TensorMatrix(part.n_out, part.n_in).n_blocks),
                              .batch = 0};
  constexpr int64_t kFewRows = 64;  // from where on larger tiles may take less time; not measured
  const DeviceSize size = runtime_->size();
  const bool has_many = LinearTensorMany::kSharedBytes <= size.shared_bytes;
  if (product.n <= kFewRows || !(has_wgmma_ || has_many)) return launch_tensor<LinearTensorFew>(*runtime_, product);
  if (!has_wgmma_) return launch_tensor<LinearTensorMany>(*runtime_, product);
  using Large = LinearWgmmaMany;
  const int64_t n_large = parts_of(product.n, Large::kRows) * parts_of(product.n_out, Large::kOutputs);
  const bool is_large = product.n > LinearWgmmaSome::kRows && n_large >= size.n_multiprocessors;
  is_large ? launch_tensor<Large>(*runtime_, product) : launch_tensor<LinearWgmmaSome>(*runtime_, product);
}

void CudaOps::embed(Tensor y, Tensor ids, const Linear& table) {
  check_embed(y, ids, table);
  const Op op(*this);
  if (held_as(table)) return embed_low_rank(*runtime_, y, tables_.numbers(ids), table);
  if (is_for_tensor(arithmetic_, *table.format)) return embed_tensor(y, ids, table);
  const bool is_of_floats = with_float_format(table.format->name, [&]<class W>(W) {
    const PanelMatrix form(*table.format, table.n_out, table.n_in);
    run_each(*runtime_,
             EmbedFloat<W>{rows_of(y), {table.w.ptr<uint8_t>()}, tables_.numbers(ids), static_cast<int>(form.n_blocks)},
             y.dim(0), y.dim(1));
  });
  if (is_of_floats) return;
  const IntegerFormat& format = *find_integer_format(*table.format);
  const StagedMatrix form(format, table.n_out, table.n_in);
  QR_CHECK(y.dim(0) <= kMostRows);
  if (y.dim(0) == 0) return;
  runtime_->launch(
      format.embed({rows_of(y), table.w.ptr<uint8_t>(), tables_.numbers(ids), static_cast<int>(form.n_stages)},
                   static_cast<int>(y.dim(1)), {parts_of(y.dim(1), Elementwise<Add>::kThreads), y.dim(0)}));
}

void CudaOps::embed_tensor(const Tensor& y, const Tensor& ids, const Linear& table) {
  const TensorMatrix form(table.n_out, table.n_in);
  run_each(*runtime_,
           EmbedTensor{rows_of(y), table.w.ptr<uint16_t>(), tables_.numbers(ids), static_cast<int>(form.n_blocks)},
           y.dim(0), y.dim(1));
}

void CudaOps::multiply(const Tensor& y, const Tensor& x, std::span<const Linear> parts) {
  const Tensor& order = parts.front().order;
  if (are_integers(parts)) return multiply_all(y, quantise(x, order), parts);
  QuantizedRows q{};
  if (std::ranges::any_of(parts, [](const Linear& part) { return part.format->integer; })) q = quantise(x, order);
  const auto is_tensor = [&](const Linear& part) { return is_for_tensor(arithmetic_, *part.format); };
  const uint16_t* rounded = std::ranges::any_of(parts, is_tensor) ? rounded_rows(x) : nullptr;
  int64_t column = 0;
  for (const Linear& part : parts) {
    const Tensor to = y.columns(column, part.n_out);
    if (is_tensor(part)) {
      multiply_tensor(to, rounded, part);
    } else if (part.format->integer) {
      if (y.dim(0) > 0) multiply_integers(to, q, {&part, 1}, 0);
    } else {
      with_float_format(part.format->name, [&]<class W>(W) { multiply_floats<W>(to, x, part); });
    }
    column += part.n_out;
  }
}

std::optional<QuantizedRows> CudaOps::norm_quantised(const NormedRows& in, std::span<const Linear> parts) {
  const int64_t n = in.x.dim(0), d = in.x.dim(1);
  const bool fits = d <= NormQuantize::kMost && n <= kMostRows && n * row_bytes_of(d) <= kWorkspaceBytes;
  const bool is_plain = in.kind == NormKind::rms && !in.w.empty() && (in.delta.empty() || in.delta_w.empty());
  if (!fits || !is_plain || !are_integers_in_order(parts) || n == 0) return {};
  const QuantizedRows to = quantised_rows(n, d);
  run(*runtime_,
      NormQuantize{rows_of(in.normed), rows_of(in.x), read_rows(in.delta), in.w.ptr<float>(), in.eps,
                   static_cast<int>(d), to},
      n);
  return to;
}

void CudaOps::linear_of_normed(const Tensor& y, const NormedRows& in, std::span<const Linear> parts) {
  if (const auto x = norm_quantised(in, parts)) return multiply_all(y, *x, parts);
  norm_rows(*this, in);
  linear(y, in.input(), parts);
}

std::optional<QuantizedRows> CudaOps::gated_quantised(const Tensor& gate,
                                                      const Tensor& up,
                                                      Activation act,
                                                      std::span<const Linear> parts) {
  const int64_t n = gate.dim(0), d = gate.dim(1);
  const bool fits = n > 0 && n <= kMostRows && n * row_bytes_of(d) <= kWorkspaceBytes;
  if (!fits || !are_integers_in_order(parts) || (act != Activation::silu && act != Activation::gelu_tanh)) return {};
  const QuantizedRows to = quantised_rows(n, d);
  const int64_t n_blocks = parts_of(to.n_activation_groups, Quantize::kThreads / 32);
  if (act == Activation::silu) {
    run(*runtime_, GatedQuantize<Activation::silu>{read_rows(gate), read_rows(up), to}, n_blocks, n);
  } else {
    run(*runtime_, GatedQuantize<Activation::gelu_tanh>{read_rows(gate), read_rows(up), to}, n_blocks, n);
  }
  return to;
}

}  // namespace quire::cuda
