#include "backend/cuda/cuda_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cuda/attend.h"
#include "backend/cuda/backend.h"
#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/launches.h"
#include "backend/cuda/low_rank.h"
#include "backend/cuda/replays.h"
#include "backend/cuda/tensor_rows.h"
#include "backend/cuda/weights.h"
#include "backend/cuda/wgmma_probe.h"
#include "base/log.h"
#include "ops/op_check.h"
#include "ops/parts.h"
#include "ops/route.h"

namespace quire {
namespace {

constexpr int64_t kOfGraphs = int64_t{128} << 20;  // what recorded steps take of a device at most; not measured

}  // namespace
namespace cuda {
namespace {

constexpr uint64_t kTensorVersion = 1;            // of docs/numerics.md, "Tensor arithmetic"
constexpr int64_t kMostTurns = int64_t{1} << 20;  // positions that a table of rotations is kept for

}  // namespace

Result<std::unique_ptr<Ops>> CudaOps::make(std::shared_ptr<Runtime> runtime,
                                           const SampleKernels& sums,
                                           CudaArithmetic arithmetic) {
  std::unique_ptr<CudaOps> ops(new CudaOps(std::move(runtime), sums, arithmetic));
  QR_TRY(ops->workspace_, ops->own_memory(kWorkspaceBytes, Place::device));
  if (arithmetic == CudaArithmetic::tensor && ops->runtime_->size().major == LinearWgmmaMany::kMajor) {
    const std::string why_not = why_no_wgmma(*ops->runtime_);
    ops->has_wgmma_ = why_not.empty();
    if (!ops->has_wgmma_) log_warn("products of many rows go by mma, not by wgmma: " + why_not);
  }
  return std::unique_ptr<Ops>(std::move(ops));
}

std::string CudaOps::describe() const {
  const char* arithmetic = arithmetic_ == CudaArithmetic::portable ? ""
                           : has_wgmma_                            ? "tensor arithmetic with wgmma, "
                                                                   : "tensor arithmetic, ";
  return std::string("cuda, ") + arithmetic + runtime_->describe();
}

// Devices of another compute capability may sum otherwise.
uint64_t CudaOps::numerics() const {
  if (arithmetic_ == CudaArithmetic::portable) return kNumericsVersion;
  return kNumericsVersion + (static_cast<uint64_t>(runtime_->size().major) << 32) + (kTensorVersion << 48);
}

CudaOps::~CudaOps() {
  wait();
  forget_turns();
  if (pinned_ != nullptr) runtime_->release(pinned_);
  for (std::byte* data : memory_) runtime_->release(data);
}

Result<std::byte*> CudaOps::own_memory(int64_t bytes, Place place) {
  QR_TRY(std::byte * data, runtime_->allocate(bytes, place));
  memory_.push_back(data);
  return data;
}

Result<Buffer> CudaOps::allocate(int64_t bytes) {
  QR_TRY(std::byte * data, runtime_->allocate(bytes, Place::shared));
  return Buffer::of({data, [runtime = runtime_](std::byte* p) { runtime->release(p); }}, bytes);
}

Result<Buffer> CudaOps::allocate_blocks(int64_t bytes) {
  QR_TRY(std::byte * data, runtime_->allocate(bytes, Place::device));
  const auto release = [this](std::byte* p) {
    finish();
    block_copies_.wait();
    runtime_->release(p);
  };
  return Buffer::of({data, release}, bytes, nullptr, this);
}

// What failed before is a failure of the copy. Who asked goes on without it, so this is where it is told.
bool CudaOps::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  Status done = take_error();
  if (done) {
    runtime_->copy(to, from, bytes);
    wait();
    done = take_error();
  }
  if (!done) log_warn("a copy of a cache block failed, nothing else is lost: " + done.error().message);
  return done.has_value();
}

void CudaOps::begin_writes() {
  if (!is_idle_ && !block_copies_.begin_writes()) finish();
}

void CudaOps::reuse(const std::byte* data, int64_t bytes) {
  if (block_copies_.reuse(data, bytes)) is_idle_ = false;
}

// So many bytes of pinned memory, until the next call; null: there are none. REQUIRES nothing under way.
std::byte* CudaOps::pinned(int64_t bytes) {
  if (bytes <= pinned_bytes_) return pinned_;
  if (pinned_ != nullptr) runtime_->release(pinned_);
  const auto got = runtime_->allocate(bytes, Place::pinned);
  pinned_ = got ? *got : nullptr;
  pinned_bytes_ = got ? bytes : 0;
  return pinned_;
}

void CudaOps::wait() {
  wait_by([this] { runtime_->wait(); });
  loaded_->finished();
  is_idle_ = is_behind_marks_ = has_new_tables_ = true;
}

void CudaOps::forget_turns() {
  for (const Turns& turns : turns_) {
    if (turns.rows != nullptr) runtime_->release(turns.rows);
  }
  turns_.clear();
}

// Rotations that were to be kept may not be there.
Status CudaOps::take_error() {
  finish();
  Status out = runtime_->take_error();
  if (out) return out;
  block_copies_.give_up();
  forget_turns();
  for (Sent& sent : sent_) {
    if (sent.is_under_way) sent.done = out;
  }
  return out;
}

Status CudaOps::load(std::byte* to, const void* from, int64_t bytes) {
  runtime_->upload(to, from, bytes);
  runtime_->wait();
  return runtime_->take_error();
}

void CudaOps::expect_readable(const Tensor& t) {
  if (!tables_.holds(t)) finish();
}

Result<Linear> CudaOps::load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) {
  QR_CHECK(shard.n_ranks == 1);
  QR_TRY_VOID(check_weight(weight));
  const std::vector<std::byte> bytes = packed(weight, arithmetic_);
  const auto n = static_cast<int64_t>(bytes.size());
  QR_TRY(std::byte * data, own_memory(n, Place::device));
  QR_TRY_VOID(load(data, bytes.data(), n));
  Linear out;
  out.w = Tensor::dense(data, DType::u8, {n});
  out.format = weight.format;
  out.n_out = weight.n_rows();
  out.n_in = weight.n_cols();
  if (!weight.order().empty()) {
    QR_TRY(out.order, keep_order(weight.order()));
  }
  if (bias != nullptr) {
    QR_TRY(out.bias, load_vector(*bias));
  }
  return out;
}

Result<Tensor> CudaOps::keep_order(std::span<const int32_t> order) {
  if (!last_order_.empty() && std::ranges::equal(last_order_, order)) return last_order_there_;
  const auto n = std::ssize(order);
  QR_TRY(std::byte * data, own_memory(n * 4, Place::device));
  QR_TRY_VOID(load(data, order.data(), n * 4));
  last_order_.assign(order.begin(), order.end());
  last_order_there_ = Tensor::dense(data, DType::i32, {n});
  return last_order_there_;
}

Result<Tensor> CudaOps::load_vector(const HostWeight& weight) {
  const int64_t n = weight.n_rows() * weight.n_cols();
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i += weight.format->block) {
    weight.format->decode(weight.data.data() + i / weight.format->block * weight.format->bytes, values.data() + i);
  }
  QR_TRY(std::byte * data, own_memory(n * 4, Place::shared));  // the host looks at experts' biases of the choice
  QR_TRY_VOID(load(data, values.data(), n * 4));
  return Tensor::dense(data, DType::f32, {n});
}

// Of x's rows the parts as wide as w.
void CudaOps::norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) {
  const int64_t d = w.dim(0), n_parts = x.dim(1) / d, n = x.dim(0) * n_parts;
  QR_CHECK(n < (int64_t{1} << 31));
  if (n_parts == 1 && d <= NormRow::kMost) {
    return run(*runtime_,
               NormRow{rows_of(y), rows_of(x), read_rows(delta), w.ptr<float>(), eps, static_cast<int>(d), {}}, n);
  }
  run(*runtime_,
      RmsNorm{rows_of(y), rows_of(x), read_rows(delta), w.ptr<float>(), static_cast<int>(n), static_cast<int>(n_parts),
              static_cast<int>(d), eps},
      parts_of(n, RmsNorm::kThreads / 16));
}

void CudaOps::rms_norm(Tensor y, Tensor x, Tensor w, float eps) {
  check_norm(y, x, w);
  const Op op(*this);
  norm(y, x, Tensor{}, w, eps);
}

void CudaOps::add_rms_norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) {
  check_norm(y, x, w);
  check_same_shape(x, delta);
  const Op op(*this);
  norm(y, x, delta, w, eps);
}

void CudaOps::head_norm(Tensor x, Tensor w, float eps) {
  check_head_norm(x, w);
  const Op op(*this);
  norm(x, x, Tensor{}, w, eps);
}

void CudaOps::add(Tensor x, Tensor delta) {
  check_same_shape(x, delta);
  const Op op(*this);
  run_each(*runtime_, Add{rows_of(x), read_rows(delta)}, x.dim(0), x.dim(1));
}

void CudaOps::layer_norm(Tensor y, Tensor x, Tensor w, Tensor b, float eps) {
  check_layer_norm(y, x, w, b);
  const Op op(*this);
  const float* bias = b.empty() ? nullptr : b.ptr<float>();
  run(*runtime_,
      LayerNorm{rows_of(y), read_rows(x), w.ptr<float>(), bias, static_cast<int>(x.dim(0)), static_cast<int>(x.dim(1)),
                eps},
      parts_of(x.dim(0), LayerNorm::kThreads / 16));
}

void CudaOps::scale(Tensor x, float factor) {
  check_matrix_f32(x);
  const Op op(*this);
  run_each(*runtime_, Scale{rows_of(x), factor}, x.dim(0), x.dim(1));
}

// The factors are the host's, in double.
void CudaOps::gate_rows(Tensor x, Tensor gate) {
  check_gate_rows(x, gate);
  QR_CHECK(x.dim(0) * 4 <= kWorkspaceBytes);
  finish();
  std::vector<float>& factors = made_;
  factors.resize(static_cast<size_t>(x.dim(0)));
  for (size_t i = 0; i < factors.size(); ++i) {
    const auto g = static_cast<double>(gate.row<float>(static_cast<int64_t>(i))[0]);
    factors[i] = static_cast<float>(1.0 / (1.0 + std::exp(-g)));
  }
  const Op op(*this);
  runtime_->upload(workspace_, factors.data(), x.dim(0) * 4);
  run_each(*runtime_, ScaleRows{rows_of(x), reinterpret_cast<const float*>(workspace_)}, x.dim(0), x.dim(1));
}

void CudaOps::soft_cap(Tensor x, float cap) {
  check_matrix_f32(x);
  QR_CHECK(cap > 0.0F);
  const Op op(*this);
  run_each(*runtime_, SoftCap{rows_of(x), cap}, x.dim(0), x.dim(1));
}

void CudaOps::gated(Tensor y, Tensor gate, Tensor up, Activation act) {
  check_gated(y, gate, up, act);
  const Op op(*this);
  const auto run_as = [&]<Activation kAct>() {
    run_each(*runtime_, Gated<kAct>{rows_of(y), read_rows(gate), read_rows(up)}, y.dim(0), y.dim(1));
  };
  switch (act) {
    case Activation::silu: return run_as.operator()<Activation::silu>();
    case Activation::gelu_tanh: return run_as.operator()<Activation::gelu_tanh>();
    case Activation::gelu_erf: return run_as.operator()<Activation::gelu_erf>();
    case Activation::relu2: return run_as.operator()<Activation::relu2>();
    case Activation::clamped_silu: return run_as.operator()<Activation::clamped_silu>();
    case Activation::sigmoid: return run_as.operator()<Activation::sigmoid>();
    case Activation::none: return run_as.operator()<Activation::none>();
    case Activation::below_zero: return run_as.operator()<Activation::below_zero>();
  }
}

void CudaOps::moe(Tensor y, const MoeInput& in, const Experts& experts) { moe_by_expert(*this, y, in, experts); }

namespace {

void fill_turns(std::span<const int64_t> freq, double magnitude, int64_t position, float* out) {
  for (const int64_t bits : freq) {
    const double angle = static_cast<double>(position) * std::bit_cast<double>(bits);
    *out++ = static_cast<float>(magnitude * std::cos(angle));
    *out++ = static_cast<float>(magnitude * std::sin(angle));
  }
}

}  // namespace

bool CudaOps::make_turns(Turns& turns, int64_t n) {
  const int64_t row = std::ssize(turns.freq) * 2;
  finish();
  made_.resize(static_cast<size_t>(n * row));
  const auto rows = runtime_->allocate(n * row * 4, Place::device);
  if (!rows) return false;
  for (int64_t p = 0; p < n; ++p) fill_turns(turns.freq, turns.magnitude, p, made_.data() + p * row);
  runtime_->upload(*rows, made_.data(), n * row * 4);
  wait();
  made_ = {};
  if (turns.rows != nullptr) runtime_->release(turns.rows);
  turns.rows = *rows;
  turns.n = n;
  return true;
}

// Null where none is kept: the device has no memory for it, or it would be long.
const CudaOps::Turns* CudaOps::turns_up_to(int32_t last, std::span<const int64_t> freq, double magnitude) {
  if (last >= kMostTurns) return nullptr;
  const auto is_same = [&](const Turns& turns) {
    return turns.magnitude == magnitude && std::ranges::equal(turns.freq, freq);
  };
  auto found = std::ranges::find_if(turns_, is_same);
  if (found == turns_.end()) {
    found = turns_.insert(found, Turns{.freq = {freq.begin(), freq.end()}, .magnitude = magnitude});
  }
  const int64_t n = std::max<int64_t>(1024, static_cast<int64_t>(std::bit_ceil(static_cast<uint32_t>(last) + 1)));
  return n <= found->n || make_turns(*found, n) ? &*found : nullptr;
}

void CudaOps::rope_table(Tensor out, Tensor pos, Tensor freq, double magnitude) {
  check_rope_table(out, pos, freq);
  const int64_t row = out.dim(1) * 2;
  if (out.dim(0) == 0) return;
  expect_readable(pos);
  const auto [least, last] = std::ranges::minmax(pos.span<int32_t>());
  const Turns* turns = least < 0 ? nullptr : turns_up_to(last, freq.span<int64_t>(), magnitude);
  if (turns != nullptr) {
    const Op op(*this);
    run_each(
        *runtime_,
        PickRows{{out.ptr<float>(), row}, {reinterpret_cast<const float*>(turns->rows), row}, tables_.numbers(pos)},
        out.dim(0), row);
    return;
  }
  finish();
  for (int64_t i = 0; i < out.dim(0); ++i) {
    fill_turns(freq.span<int64_t>(), magnitude, pos.ptr<int32_t>()[i], out.ptr<float>() + i * row);
  }
}

void CudaOps::rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) {
  check_rope(x, table, head_dim);
  const Op op(*this);
  const auto n_freq = static_cast<int>(table.dim(1));
  run_each(*runtime_, Rotate{rows_of(x), table.ptr<float>(), head_dim, n_freq, pairs == RopePairs::interleaved},
           x.dim(0), x.dim(1) / head_dim * n_freq);
}

void CudaOps::kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) {
  check_kv_write(k, v, slots, kv, params);
  const Op op(*this);
  write_cache(attend_uses(), {k, v, slots}, kv, params);
}

void CudaOps::pack_strips(Tensor slots, Tensor tails, const KvView& kv, const AttnParams& params) {
  check_pack_strips(slots, tails, kv, params);
  const Op op(*this);
  pack_cache_strips(attend_uses(), {slots, tails}, kv, params);
}

void CudaOps::attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) {
  check_attend(out, q, meta, params);
  AttentionPart part;
  part.kv = &kv;
  part.meta = &meta;
  part.params = &params;
  expect_readable(meta.end_key);
  const AttendPlan plan = plan_of(meta);
  const Op op(*this);
  attend_rows(attend_uses(), out, q, part, plan);
}

void CudaOps::attention(Tensor out, const NormedRows& in, const AttentionPart& part) {
  check_attention(out, in, part);
  expect_readable(part.meta->end_key);
  const AttendPlan plan = plan_of(*part.meta);
  const Op op(*this);
  const AttentionScratch at(part.scratch, *part.params);
  linear_of_normed(at.qkv, in, part.qkv);
  add_low_rank(at.qkv, in.input(), part.added_qkv());
  if (!part.q_norm.empty()) head_norm(at.q, part.q_norm, in.eps);
  if (!part.k_norm.empty()) head_norm(at.k, part.k_norm, in.eps);
  if (!rotate_and_keep(attend_uses(), at, part)) {
    if (!part.rotation.empty()) rope(at.qk, part.rotation, part.params->k_dim, part.pairs);
    kv_write(at.k, at.v, part.slots, *part.kv, *part.params);
  }
  attend_rows(attend_uses(), at.mixed, at.q, part, plan);
  linear(out, at.mixed, part.out);
  add_low_rank(out, at.mixed, part.added_out());
}

void CudaOps::feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part) {
  check_feed_forward(out, in, part);
  const FeedForwardScratch at(part.scratch, part.gate_up.size() == 2);
  const Op op(*this);
  linear_of_normed(part.scratch, in, part.gate_up);
  add_low_rank(part.scratch, in.input(), part.added_gate_up());
  if (!adds_low_rank(part.added_down())) {  // else the hidden numbers are read
    if (const auto x = gated_quantised(at.gate, at.up, part.activation, part.down)) {
      return multiply_all(out, *x, part.down);
    }
  }
  gated(at.hidden, at.gate, at.up, part.activation);
  linear(out, at.hidden, part.down);
  add_low_rank(out, at.hidden, part.added_down());
}

void CudaOps::rows(Tensor y, Tensor x, Tensor ids) {
  check_rows(y, x, ids);
  const Op op(*this);
  run_each(*runtime_, PickRows{rows_of(y), read_rows(x), tables_.numbers(ids)}, y.dim(0), y.dim(1));
}

}  // namespace cuda

Result<std::unique_ptr<Ops>> make_cuda_ops(const SampleKernels& sums, CudaArithmetic arithmetic) {
  QR_TRY(std::shared_ptr<cuda::Runtime> runtime, cuda::open_runtime());
  return cuda::CudaOps::make(cuda::with_replays(std::move(runtime)), sums, arithmetic);
}

int64_t cuda_free_bytes() {
  const auto runtime = cuda::open_runtime();
  if (!runtime) return -1;
  return std::max<int64_t>((*runtime)->free_bytes() - cuda::kWorkspaceBytes - kOfGraphs, 0);
}

int64_t cuda_linear_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in) {
  return cuda::packed_bytes(format, n_out, n_in);
}

}  // namespace quire
