// Heads: rotated by their positions, put into the cache, attended.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/leaning_task.h"
#include "ops/op_check.h"
#include "ops/slopes.h"

namespace quire {
namespace {

constexpr int64_t kRowsAhead = 4;  // that are asked for

// The heads that stand side by side in q | k | v.
struct Heads {
  explicit Heads(const AttnParams& p) : n_q(p.n_heads), n_qk(n_q + p.n_kv_heads), k_dim(p.k_dim), v_dim(p.v_dim) {}
  int64_t of(int64_t column) const {
    return column < n_qk * k_dim ? column / k_dim : n_qk + (column - n_qk * k_dim) / v_dim;
  }
  int64_t begin(int64_t head) const { return std::min(head, n_qk) * k_dim + std::max<int64_t>(0, head - n_qk) * v_dim; }
  int64_t n_q, n_qk, k_dim, v_dim;
};

}  // namespace

void CpuOps::rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) {
  check_rope(x, table, head_dim);
  const bool interleaved = pairs == RopePairs::interleaved;
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) {
    for (int64_t h = 0; h < x.dim(1); h += head_dim) {
      row_.rotate_head(x.row<float>(i) + h, table.row<float>(i), table.dim(1), interleaved);
    }
  });
}

void CpuOps::kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) {
  check_kv_write(k, v, slots, kv, params);
  const AttentionKernels& k_kernels = kernels_of(params.k_codec);
  const AttentionKernels& v_kernels = kernels_of(params.v_codec);
  for_rows(k.dim(0), k.dim(1) * 4, [&](int64_t i) {
    for (int h = 0; h < params.n_kv_heads; ++h) {
      const KvPlace at = kv_place(kv, params, slots.ptr<int32_t>()[i], h);
      k_kernels.put_k(at.k, at.t, params.k_dim, k.row<float>(i) + int64_t{h} * params.k_dim);
      if (params.values_in_keys) continue;
      v_kernels.put_v(at.v, at.t, params.v_dim, v.row<float>(i) + int64_t{h} * params.v_dim);
    }
  });
}

void CpuOps::finish_head(int64_t head, const AttentionScratch& at, const AttentionPart& part, float eps) {
  const AttnParams& params = *part.params;
  const Heads heads(params);
  const bool is_q = head < heads.n_q;
  const bool is_v = head >= heads.n_qk;
  const AttentionKernels& kernels = kernels_of(is_v ? params.v_codec : params.k_codec);
  const Tensor& norm = is_q ? part.q_norm : part.k_norm;
  const int64_t n = at.qkv.dim(0);
  for (int64_t i = 0; i < n; ++i) {
    float* x = at.qkv.row<float>(i) + heads.begin(head);
    // Rows are pages apart, where the machine's own prefetcher sees no sequence.
    for (int64_t k = 0; i + kRowsAhead < n && k < (is_v ? heads.v_dim : heads.k_dim); k += 16) {
      __builtin_prefetch(x + kRowsAhead * at.qkv.stride[0] + k, 1);
    }
    if (!is_v) {
      if (!norm.empty()) row_.rms_norm_row(x, x, norm.ptr<float>(), params.k_dim, eps);
      if (!part.rotation.empty()) {
        row_.rotate_head(x, part.rotation.row<float>(i), part.rotation.dim(1), part.pairs == RopePairs::interleaved);
      }
    }
    if (is_q) continue;
    const auto kv_head = static_cast<int>(head - (is_v ? heads.n_qk : heads.n_q));
    const KvPlace to = kv_place(*part.kv, params, part.slots.ptr<int32_t>()[i], kv_head);
    if (is_v) {
      kernels.put_v(to.v, to.t, params.v_dim, x);
    } else {
      kernels.put_k(to.k, to.t, params.k_dim, x);
    }
  }
}

void CpuOps::attention(Tensor out, const NormedRows& in, const AttentionPart& part) {
  if (!norms_heads(part) || n_same_order(part.qkv) < part.qkv.size()) return Ops::attention(out, in, part);
  check_attention(out, in, part);
  const int64_t n = in.x.dim(0);
  if (n == 0) return;
  const AttentionScratch at(part.scratch, *part.params);
  const Heads heads(*part.params);
  const QuantRows quants = norm_and_quantize(in, part.qkv);
  set_low_rank(part.added_qkv(), in.input());
  set_work(at.qkv, in.input(), quants, part.qkv);
  units_.reset(heads.n_qk + part.params->n_kv_heads);
  run_work(at.qkv, [&](const LinearWork::Done& done) {
    const int64_t n_rows = done.end_row - done.first_row;
    for (int64_t begin = done.begin, next = 0; begin < done.end; begin = next) {
      const int64_t head = heads.of(begin);
      next = std::min(done.end, heads.begin(head + 1));
      if (units_.completes(head, (next - begin) * n_rows, (heads.begin(head + 1) - heads.begin(head)) * n)) {
        finish_head(head, at, part, in.eps);
      }
    }
  });
  const QuantRows mixed = quant_rows(inner_quants_, n, part.out);
  const Tensor& order = part.out.front().order;
  attend(at.mixed, at.q, part, order.empty() ? mixed : QuantRows{});
  if (!order.empty()) quantize(at.mixed, mixed, order);  // when all heads are there
  last_product(out, at.mixed, mixed, part.out, part.added_out());
}

void CpuOps::attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) {
  check_attend(out, q, meta, params);
  AttentionPart part;
  part.kv = &kv;
  part.meta = &meta;
  part.params = &params;
  attend(out, q, part, QuantRows{});
}

void CpuOps::attend(const Tensor& out, const Tensor& q, const AttentionPart& part, const QuantRows& xq) {
  const AttnMeta& meta = *part.meta;
  const AttnParams& params = *part.params;
  QR_CHECK(params.k_codec == params.v_codec, "one codec for K and V until mixed kernels exist");
  const AttentionKernels& kernels = kernels_of(params.k_codec);
  const bool packs = params.k_codec->packs();
  const int heads_per_kv = params.n_heads / params.n_kv_heads;
  attention_tasks_.cut(meta, params, pool_.n_threads());
  slopes_.resize(params.most_slope_bits > 0.0F ? static_cast<size_t>(params.n_heads) : 0);
  fill_slopes(slopes_, params.most_slope_bits);

  const int n_before = params.n_kept > 0 ? 1 : 0;  // states of keys that are kept
  const auto place = [&](AttentionTask& task, const AttnParams& of, int64_t sequence, int h) {
    const KvGroupView& memory = part.kv->groups[static_cast<size_t>(of.group)];
    const HeadOffsets at = head_offsets(of, h, memory.block_tokens);
    const HeadBytes bytes = head_bytes(of);
    task.kv = memory.base + of.kv_offset * memory.block_tokens;
    task.block_bytes = memory.block_bytes;
    task.block_tokens = memory.block_tokens;
    task.blocks = meta.blocks[static_cast<size_t>(of.group)].row<int32_t>(sequence);
    task.k_offset = at.k;
    task.v_offset = of.values_in_keys ? at.k : at.v;
    task.k_row_bytes = bytes.k;
    task.v_row_bytes = of.values_in_keys ? bytes.k : bytes.v;
  };
  const AttnParams of_tail = packs ? tail_params(params) : AttnParams{};
  const auto task_of = [&](const AttentionTasks::Tile& tile, int h) {
    AttentionTask made{.q = q.ptr<float>() + int64_t{h} * heads_per_kv * params.k_dim,
                       .q_stride = q.stride[0],
                       .out = out.ptr<float>() + int64_t{h} * heads_per_kv * params.v_dim,
                       .out_stride = out.stride[0],
                       .first_key = meta.first_key.ptr<int32_t>(),
                       .end_key = meta.end_key.ptr<int32_t>(),
                       .row_begin = tile.row_begin,
                       .row_end = tile.row_end,
                       .heads_per_kv = heads_per_kv,
                       .k_dim = params.k_dim,
                       .v_dim = params.v_dim,
                       .scale = params.scale,
                       .soft_cap = params.soft_cap,
                       .window = params.window,
                       .n_kept = params.n_kept,
                       .rotations = meta.kept_rotation.empty() ? nullptr : meta.kept_rotation.ptr<float>(),
                       .rotations_stride = meta.kept_rotation.empty() ? 0 : meta.kept_rotation.stride[0],
                       .n_rotations = meta.kept_rotation.empty() ? 0 : meta.kept_rotation.dim(1),
                       .rotations_interleaved = params.kept_pairs == RopePairs::interleaved,
                       .rotate_head = row_.rotate_head,
                       .sinks = params.sinks.empty() ? nullptr : params.sinks.ptr<float>() + int64_t{h} * heads_per_kv,
                       .first_chunk = tile.first_chunk,
                       .end_chunk = tile.end_chunk,
                       .states = attention_tasks_.states(tile, params, h),
                       .n_states = tile.end_chunk - tile.first_chunk + n_before,
                       .states_chunk = tile.first_chunk - n_before};
    place(made, params, tile.sequence, h);
    return made;
  };
  const auto spans = attention_tasks_.spans();
  const auto tiles = attention_tasks_.tiles();
  const int64_t n_heads = params.n_kv_heads;
  const int64_t width = int64_t{heads_per_kv} * params.v_dim;  // of a KV head in the result
  const bool whole_activation_groups = width % kPanelDepth == 0;
  units_.reset(static_cast<int64_t>(tiles.size()) * n_heads);
  pool_.run(static_cast<int64_t>(spans.size()), [&](int64_t i) {
    const AttentionTasks::Span& span = spans[static_cast<size_t>(i)];
    const AttentionTasks::Tile& tile = tiles[static_cast<size_t>(span.tile)];
    const int64_t head = span.kv_head;
    LeaningTask whole{task_of(tile, span.kv_head), slopes_.empty() ? nullptr : slopes_.data() + head * heads_per_kv};
    LeaningTask tail = whole;
    if (packs) {
      place(tail, of_tail, tile.sequence, span.kv_head);
      whole.tail = &tail;
    }
    LeaningTask task = whole;
    task.first_chunk = span.first_chunk;
    task.end_chunk = span.end_chunk;
    task.takes_kept = span.first_chunk == tile.first_chunk;
    kernels.run(task);
    if (!units_.completes(span.tile * n_heads + head, span.end_chunk - span.first_chunk,
                          tile.end_chunk - tile.first_chunk))
      return;
    if (whole.states != nullptr) kernels.join(whole);
    if (xq.empty() || !whole_activation_groups) return;
    for (int64_t r = tile.row_begin; r < tile.row_end; ++r) {
      row_.quantize_row(out.row<float>(r) + head * width, width, xq.columns(r, head * width, width), 0);
    }
  });
  if (!xq.empty() && !whole_activation_groups) quantize(out, xq, {});
}

}  // namespace quire
