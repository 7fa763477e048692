#include "backend/cuda/attend.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <type_traits>

#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/launches.h"
#include "backend/cuda/tensor_rows.h"
#include "base/check.h"
#include "ops/op_check.h"
#include "ops/slopes.h"
#include "quant/rotation.h"

namespace quire {
namespace cuda {
namespace {

constexpr int kManyRows = 8;  // of a sequence, from where on a tile of rows takes less time than each by itself

Cache cache_of(const KvView& kv, const AttnParams& params) {
  const KvGroupView& view = kv.groups[static_cast<size_t>(params.group)];
  const HeadBytes bytes = head_bytes(params);
  return {reinterpret_cast<uint8_t*>(view.base + params.kv_offset * view.block_tokens),
          view.block_bytes,
          view.block_tokens,
          params.k_dim,
          params.v_dim,
          static_cast<int>(bytes.k),
          static_cast<int>(bytes.v)};
}

// Calls with(codec) for the one of this name; false where there are no kernels for it.
template <class With>
bool with_codec(std::string_view name, const With& with) {
  if (name == "f32") return with(CodecF32()), true;
  if (name == "f16") return with(CodecF16()), true;
  if (name == "bf16") return with(CodecBF16()), true;
  if (name == "q8") return with(CodecQ8()), true;
  if (name == "f8") return with(CodecF8()), true;
  if (name == "q4") return with(CodecQ4()), true;
  if (name == "k8v4") return with(CodecK8V4()), true;
  if (name == "kivi2") return with(CodecKIVI2()), true;
  return false;
}
// The same for the one that a layer's cache has.
template <class With>
void with_codec(const AttnParams& params, const With& with) {
  QR_CHECK(params.k_codec == params.v_codec && with_codec(params.k_codec->name, with));  // check_cuda_has
}

// Whether numbers are kept as bytes, which are made of whole rows, or each by itself.
template <class Codec>
constexpr bool kIsOfBytes = Codec::Keys::kRotatesKeys;

// Whether rows lie as halves until their strip is packed.
template <class Codec>
constexpr bool kPacks = Codec::kHolds == Holds::packed;

// Whether a value can be read out of its key.
template <class Codec>
constexpr bool has_latent() {
  return Codec::Keys::kTogether == Codec::Values::kTogether;
}

bool is_wide(const AttnParams& params) { return std::max(params.k_dim, params.v_dim) > kUsualHead; }

template <class Codec>
int row_shared_bytes(const AttnParams& params) {
  return is_wide(params) ? AttendWideRow<Codec>::kSharedBytes : AttendRow<Codec>::kSharedBytes;
}

// What kernels take of shared memory that do without AttendRows.
template <class Codec>
int least_shared_bytes(const AttnParams& params) {
  if constexpr (has_latent<Codec>()) {
    if (params.values_in_keys) return AttendLatentRow<Codec>::kSharedBytes;
  }
  if constexpr (kPacks<Codec>) {
    return std::max(row_shared_bytes<CodecTail>(params), row_shared_bytes<Codec>(params));
  } else {
    return row_shared_bytes<Codec>(params);
  }
}

// Of the components from `first` on.
Signs signs_of_rotation(int first = 0) {
  Signs out{};
  for (int d = 0; d < kMaxHead; ++d) {
    const uint32_t bits = std::bit_cast<uint32_t>(rotation_detail::with_sign(0.0F, (first + d) % kMaxRotated));
    out.words[d / 32] |= bits >> 31 << (d % 32);
  }
  return out;
}

// One layer's attention of a step.
template <class Codec>
class Attending {
 public:
  Attending(
      const AttendUses& uses, const Tensor& out, const Tensor& q, const AttentionPart& part, const AttendPlan& plan)
      : runtime_(uses.runtime),
        tables_(uses.tables),
        slopes_(uses.slopes),
        arithmetic_(uses.arithmetic),
        out_(out),
        q_(q),
        part_(part),
        params_(*part.params),
        plan_(plan) {}

  void run_all(std::span<std::byte> workspace) {
    if (params_.most_slope_bits > 0.0F) workspace = take_slopes(workspace);
    const int64_t states = int64_t{params_.n_heads} * n_chunks() * (params_.v_dim + 2);
    const int64_t rotated = Codec::kRotatesKeys ? width() : 0, turned = turns_kept() ? width() : 0;
    const int64_t row_bytes = (states + rotated + turned) * 4;
    const int64_t most = std::min(kMostRows, std::ssize(workspace) / row_bytes);
    QR_CHECK(most > 0, "one row's states of attention take " + std::to_string(row_bytes) + " bytes");
    auto* data = reinterpret_cast<float*>(workspace.data());
    for (int64_t i = 0; i < q_.dim(0); i += most) {
      const int64_t n = std::min(most, q_.dim(0) - i);
      const States to{data, params_.n_heads, n_chunks(), params_.v_dim, static_cast<int>(i)};
      const Queries queries = make_queries(data + n * states, i, n);
      for (const auto& [begin, end, is_of_many] : plan_.runs) {
        attend(is_of_many, std::max(i, begin), std::min(i + n, end), queries, to);
      }
      if constexpr (kPacks<Codec>) attend_tails(i, i + n, queries, to);
      const float* sinks = params_.sinks.empty() ? nullptr : params_.sinks.ptr<float>();
      run(runtime_, AttendJoin<typename Codec::Arithmetic>{to, rows_of(out_), sinks}, params_.n_heads, n);
      if (params_.values_in_keys ? Codec::kRotatesKeys : Codec::kRotatesValues) turn_back(i, n);
    }
  }

 private:
  // Slopes at the beginning of the workspace; the rest is returned.
  std::span<std::byte> take_slopes(std::span<std::byte> workspace) {
    const std::vector<float>& slopes = slopes_.of(params_.n_heads, params_.most_slope_bits);
    const auto bytes = slopes.size() * sizeof(float), room = (bytes + 255) / 256 * 256;
    QR_CHECK(room < workspace.size());
    runtime_.upload(workspace.data(), slopes.data(), static_cast<int64_t>(bytes));
    slopes_there_ = reinterpret_cast<const float*>(workspace.data());
    return workspace.subspan(room);
  }

  // Results of n rows are of values as the cache has them: rotated by themselves, or as the ends of their keys.
  void turn_back(int64_t first, int64_t n) const {
    const int before = params_.values_in_keys ? params_.k_dim - params_.v_dim : 0;
    const int rotated = params_.values_in_keys ? params_.k_dim : params_.v_dim;
    const Rows<float> rows{out_.row<float>(first), out_.stride[0]};
    run(runtime_, RotateBack{rows, params_.v_dim, rotated & -rotated, signs_of_rotation(before)}, params_.n_heads, n);
  }

  int64_t width() const { return int64_t{params_.n_heads} * params_.k_dim; }
  int n_before() const { return params_.n_kept > 0 ? 1 : 0; }
  static constexpr int kTails = kPacks<Codec> ? 1 : 0;  // chunks of a row
  int n_chunks() const { return plan_.n_chunks + n_before() + kTails; }
  bool turns_kept() const { return params_.n_kept > 0 && !part_.meta->kept_rotation.empty(); }

  // Rows as they meet keys, and those that are kept beside a window.
  struct Queries {
    Rows<const float> all, kept;
  };
  // Of n rows from `first` on; what is not q_ itself lies in `data`.
  Queries make_queries(float* data, int64_t first, int64_t n) const {
    Queries out{read_rows(q_), read_rows(q_)};
    const auto row_by_row = [&](float* rows) { return Rows<const float>{rows - first * width(), width()}; };
    const auto rotate = [&](Rows<const float> rows, float* to) {
      run(runtime_, RotateQueries{rows, {to, width()}, static_cast<int>(first), params_.k_dim, signs_of_rotation()},
          params_.n_heads, n);
      return row_by_row(to);
    };
    if constexpr (Codec::kRotatesKeys) {
      out.all = out.kept = rotate(out.all, data);
      data += n * width();
    }
    if (!turns_kept()) return out;
    turn(data, first, n);
    out.kept = row_by_row(data);
    if constexpr (Codec::kRotatesKeys) out.kept = rotate(out.kept, data);
    return out;
  }
  void turn(float* to, int64_t first, int64_t n) const {
    const Tensor& table = part_.meta->kept_rotation;
    run_each(runtime_,
             TurnQueries{.q = read_rows(q_),
                         .to = {to, width()},
                         .table = table.ptr<float>(),
                         .first_row = static_cast<int>(first),
                         .k_dim = params_.k_dim,
                         .n_freq = static_cast<int>(table.dim(1)),
                         .is_interleaved = params_.kept_pairs == RopePairs::interleaved},
             n, width());
  }

  void attend(bool is_of_many, int64_t begin, int64_t end, const Queries& q, const States& to) const {
    if (begin >= end) return;
    if constexpr (has_latent<Codec>()) {
      if (params_.values_in_keys) return attend_as<AttendLatentRow<Codec>>(begin, end, q, to);
    }
    if (is_wide(params_)) return attend_as<AttendWideRow<Codec>>(begin, end, q, to);
    if constexpr (std::is_same_v<Codec, CodecBF16>) {
      const bool is_tensor = arithmetic_ == CudaArithmetic::tensor;
      if (is_tensor && is_of_many && fits<AttendTensorRows>()) return attend_as<AttendTensorRows>(begin, end, q, to);
      if (is_tensor) return attend_as<AttendTensorRow>(begin, end, q, to);
    }
    using Many = AttendRows<Codec>;
    if (is_of_many && Many::takes(params_.v_dim) && fits<Many>()) return attend_as<Many>(begin, end, q, to);
    attend_as<AttendRow<Codec>>(begin, end, q, to);
  }
  void attend_tails(int64_t begin, int64_t end, const Queries& q, const States& to) const {
    const AttnParams tail = tail_params(params_);
    if (is_wide(params_)) return attend_as<AttendWideRow<CodecTail>>(begin, end, q, to, tail);
    attend_as<AttendRow<CodecTail>>(begin, end, q, to, tail);
  }
  // Into the shared memory of this device; where many rows do not, they go one by one.
  template <class Kernel>
  bool fits() const {
    return Kernel::kSharedBytes <= runtime_.size().shared_bytes;
  }

  template <class Kernel>
  void attend_as(int64_t begin, int64_t end, const Queries& q, const States& to) const {
    attend_as<Kernel>(begin, end, q, to, params_);
  }
  // `of`: where keys and values are.
  template <class Kernel>
  void attend_as(int64_t begin, int64_t end, const Queries& q, const States& to, const AttnParams& of) const {
    const AttnMeta& meta = *part_.meta;
    const Tensor& blocks = meta.blocks[static_cast<size_t>(of.group)];
    const int heads_per_kv = params_.n_heads / params_.n_kv_heads;
    const int64_t n_runs = parts_of(heads_per_kv, kHeadsTogether), together = parts_of(heads_per_kv, n_runs);
    const int64_t rows = Kernel::kIsStreaming ? 1 : Kernel::kTile / together;
    using Chunk = typename Kernel::Chunk;
    const Chunk chunk{.cache = cache_of(*part_.kv, of),
                      .keys = {tables_.numbers(meta.cu_q), tables_.numbers(blocks), tables_.numbers(meta.first_key),
                               tables_.numbers(meta.end_key), static_cast<int>(blocks.dim(0)),
                               static_cast<int>(blocks.stride[0]), params_.window, params_.n_kept},
                      .q = q.all,
                      .kept_q = q.kept,
                      .states = to,
                      .heads_per_kv = heads_per_kv,
                      .heads_together = static_cast<int>(together),
                      .rows_together = static_cast<int>(rows),
                      .strips_together = Kernel::strips_of(params_.v_dim),
                      .value_bytes = Kernel::Values::value_bytes(params_.v_dim),
                      .slopes = slopes_there_,
                      .first_row = static_cast<int>(begin),
                      .end_row = static_cast<int>(end),
                      .n_before = Kernel::kIsOfTails ? 0 : n_before(),
                      .scale = params_.scale,
                      .soft_cap = params_.soft_cap};
    const int n_chunks = Kernel::kIsOfTails ? 1 : to.n_chunks - kTails;
    run(runtime_, Kernel{chunk}, n_chunks, params_.n_kv_heads * n_runs, parts_of(end - begin, rows));
  }

  Runtime& runtime_;
  const TableCopies& tables_;
  Slopes& slopes_;
  const CudaArithmetic arithmetic_;
  const float* slopes_there_ = nullptr;  // on the device
  const Tensor &out_, &q_;
  const AttentionPart& part_;
  const AttnParams& params_;
  const AttendPlan& plan_;
};

}  // namespace

Status check_room(const AttnParams& layer, const DeviceSize& device) {
  int needed = 0;
  with_codec(layer, [&]<class Codec>(Codec) { needed = least_shared_bytes<Codec>(layer); });
  if (needed <= device.shared_bytes) return {};
  return fail(Code::unsupported, "the cuda backend: heads of " + std::to_string(std::max(layer.k_dim, layer.v_dim)) +
                                     " components in a cache of --kv-type " + std::string(layer.k_codec->name) +
                                     " take " + std::to_string(needed) + " bytes of shared memory, the device has " +
                                     std::to_string(device.shared_bytes));
}

const std::vector<float>& Slopes::of(int n_heads, float most_bits) {
  const auto [found, is_new] = known_.try_emplace({n_heads, most_bits}, static_cast<size_t>(n_heads));
  if (is_new) fill_slopes(found->second, most_bits);
  return found->second;
}

namespace {

// Rows into a cache of numbers by themselves; their queries and keys rotated on the way where there is a table.
template <class Codec>
void keep_rows(const AttendUses& uses, RotateAndCache<Codec> rows, int64_t n) {
  static_assert(!kIsOfBytes<Codec> && !kPacks<Codec>);
  const int64_t units = int64_t{rows.n_heads + rows.n_kv_heads} * rows.units();
  run_each(uses.runtime, rows, n, units + (rows.v.data != nullptr ? int64_t{rows.n_kv_heads} * rows.cache.v_dim : 0));
}

}  // namespace

void write_cache(const AttendUses& uses, const NewRows& rows, const KvView& kv, const AttnParams& params) {
  const auto& [k, v, slots] = rows;
  const int32_t* to = uses.tables.numbers(slots);
  with_codec(params, [&]<class Codec>(Codec) {
    const Cache cache = cache_of(kv, params);
    if constexpr (kPacks<Codec>) {
      QR_CHECK(false, "rows go where they are until their strip is packed");
    } else if constexpr (kIsOfBytes<Codec>) {
      QR_CHECK(k.dim(0) <= kMostRows);
      const int sides = params.values_in_keys ? 1 : 2;
      run(uses.runtime, CacheRows<Codec>{cache, read_rows(k), read_rows(v), to, sides, signs_of_rotation()},
          int64_t{sides} * params.n_kv_heads, k.dim(0));
    } else {
      keep_rows<Codec>(uses,
                       {.cache = cache,
                        .q = {},
                        .k = read_rows(k),
                        .v = read_rows(v),
                        .slots = to,
                        .table = nullptr,
                        .n_heads = 0,
                        .n_kv_heads = params.n_kv_heads,
                        .n_freq = 0,
                        .is_interleaved = false},
                       k.dim(0));
    }
  });
}

bool rotate_and_keep(const AttendUses& uses, const AttentionScratch& at, const AttentionPart& part) {
  const AttnParams& p = *part.params;
  bool is_done = false;
  if (part.rotation.empty()) return false;
  check_kv_write(at.k, at.v, part.slots, *part.kv, p);
  check_rope(at.qk, part.rotation, p.k_dim);
  with_codec(p, [&]<class Codec>(Codec) {
    if constexpr (!kIsOfBytes<Codec> && !kPacks<Codec>) {
      keep_rows<Codec>(uses,
                       {.cache = cache_of(*part.kv, p),
                        .q = rows_of(at.q),
                        .k = read_rows(at.k),
                        .v = read_rows(at.v),
                        .slots = uses.tables.numbers(part.slots),
                        .table = part.rotation.ptr<float>(),
                        .n_heads = p.n_heads,
                        .n_kv_heads = p.n_kv_heads,
                        .n_freq = static_cast<int>(part.rotation.dim(1)),
                        .is_interleaved = part.pairs == RopePairs::interleaved},
                       at.q.dim(0));
      is_done = true;
    }
  });
  return is_done;
}

void pack_cache_strips(const AttendUses& uses, const StripEnds& rows, const KvView& kv, const AttnParams& params) {
  const PackStrips pack{.packed = cache_of(kv, params),
                        .tail = cache_of(kv, tail_params(params)),
                        .slots = uses.tables.numbers(rows.slots),
                        .tails = uses.tables.numbers(rows.tails),
                        .n_kv_heads = params.n_kv_heads,
                        .key_runs = PackStrips::key_runs_of(params.k_dim),
                        .value_runs = PackStrips::value_runs_of(params.v_dim)};
  run_each(uses.runtime, pack, rows.slots.dim(0), int64_t{params.n_kv_heads} * (pack.key_runs + pack.value_runs));
}

AttendPlan plan_of(const AttnMeta& meta) {
  AttendPlan plan;
  for (const int32_t end : meta.end_key.span<int32_t>()) {
    plan.n_chunks = std::max(plan.n_chunks, static_cast<int>(parts_of(end, kChunk)));
  }
  const std::span<const int32_t> first = meta.cu_q.span<int32_t>();
  for (size_t s = 0; s + 1 < first.size(); ++s) {
    const bool is_of_many = first[s + 1] - first[s] >= kManyRows;
    if (plan.runs.empty() || plan.runs.back().is_of_many != is_of_many) {
      plan.runs.push_back({first[s], first[s + 1], is_of_many});
    }
    plan.runs.back().end = first[s + 1];
  }
  return plan;
}

void attend_rows(
    const AttendUses& uses, const Tensor& out, const Tensor& q, const AttentionPart& part, const AttendPlan& plan) {
  with_codec(*part.params,
             [&]<class Codec>(Codec) { Attending<Codec>(uses, out, q, part, plan).run_all(uses.workspace); });
}

namespace {

// Without looking at the device, which takes a while.
bool has_room_anywhere(const AttnParams& layer) {
  return layer.k_codec == nullptr || check_room(layer, {.shared_bytes = kLeastShared});
}

}  // namespace
}  // namespace cuda

Status check_cuda_has(std::span<const AttnParams> attention) {
  for (const AttnParams& layer : attention) {
    const KvCodec* codec = layer.k_codec;
    if (codec == nullptr || cuda::with_codec(codec->name, [](auto) {})) continue;
    return fail(Code::unsupported,
                "the cuda backend has no kernels for --kv-type " + std::string(codec->name) + " so far");
  }
  if (std::ranges::all_of(attention, &cuda::has_room_anywhere)) return {};
  QR_TRY(const auto runtime, cuda::open_runtime());
  for (const AttnParams& layer : attention) {
    if (layer.k_codec != nullptr) QR_TRY_VOID(cuda::check_room(layer, runtime->size()));
  }
  return {};
}

}  // namespace quire
