// What a kernel file gives to the backend: tables of plain functions, one set per instruction set. The generated
// tables.cc collects them; CpuOps picks a set once at start. Raw pointers only: these headers are shared with files
// compiled for wider instruction sets, so nothing here may instantiate library code.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/activation.h"
#include "quant/f16.h"

namespace quire {

// 32 quantised activations: value = scale · q.
struct alignas(16) ActivationGroup {
  int8_t q[32];
  float scale;
  int32_t sum, first_sum;  // Σ q: of all, of the first 16
  float scaled_sum;        // scale · Σ q
};

// An activation group of each of 16 rows, as a unit that multiplies whole tiles reads it.
struct alignas(64) QuantTile {
  static constexpr int kRows = 16;
  static constexpr int kBehind = 4;  // so many activation groups behind the last may be read
  int8_t q[kRows][32];
  float scale[kRows];
  float scaled_sum[kRows];

  QR_INLINE void put(int64_t r, const ActivationGroup& of) {
    __builtin_memcpy(q[r], of.q, sizeof q[r]);
    scale[r] = of.scale;
    scaled_sum[r] = of.scaled_sum;
  }
};

// Rows of activations as products want them, each form where there is room for it. Quantised: row r's begin at
// activations + r · n_activation_groups. And rounded to BF16.
struct QuantRows {
  ActivationGroup* activations = nullptr;
  int64_t n_activation_groups = 0;  // of a row
  // The same values where somebody reads tiles: of rows 16·t … 16·t + 15 at tiles[t · tile_stride + g], counted
  // from a first row of which row 0 here is number `first_row`. Rows below `only_tiles` are nowhere else.
  QuantTile* tiles = nullptr;
  int64_t tile_stride = 0, first_row = 0, only_tiles = 0;
  // Rounded: row r at rounded + r · rounded_stride, `rounded_per_float` numbers in a float's place, as f32 or as BF16;
  // zeros up to a whole vector.
  float* rounded = nullptr;
  int64_t rounded_stride = 0, rounded_per_float = 1;

  QR_INLINE bool empty() const { return activations == nullptr && rounded == nullptr; }
  // The same without the rows before `row`.
  QR_INLINE QuantRows from(int64_t row) const {
    QuantRows out = *this;
    if (activations != nullptr) out.activations += row * n_activation_groups;
    out.first_row += row;
    if (rounded != nullptr) out.rounded += row * rounded_stride;
    return out;
  }
  // Columns [begin, begin + n) of row i as a row of their own. REQUIRES begin % 32 == 0.
  QR_INLINE QuantRows columns(int64_t i, int64_t begin, int64_t n) const {
    QuantRows out = from(i);
    if (activations != nullptr) {
      out.activations += begin / 32;
      out.n_activation_groups = n / 32;
    }
    if (tiles != nullptr) out.tiles += begin / 32;
    if (rounded != nullptr) out.rounded += begin / rounded_per_float;
    return out;
  }
  // Row `to` becomes what row `from` is. REQUIRES only_tiles == 0.
  QR_INLINE void copy_row(int64_t from, int64_t to) const {
    if (rounded != nullptr) {
      __builtin_memcpy(rounded + to * rounded_stride, rounded + from * rounded_stride,
                       static_cast<size_t>(rounded_stride) * sizeof(float));
    }
    for (int64_t g = 0; activations != nullptr && g < n_activation_groups; ++g) {
      const ActivationGroup& copied = activations[from * n_activation_groups + g];
      activations[to * n_activation_groups + g] = copied;
      if (tiles != nullptr) tile_of(to)[g].put((first_row + to) % QuantTile::kRows, copied);
    }
  }
  // Of the tile that row `row` is in, its first activation group.
  QR_INLINE QuantTile* tile_of(int64_t row) const { return tiles + (first_row + row) / QuantTile::kRows * tile_stride; }
};

// Panels [begin, end) of one weight times rows of x, into y. A panel holds 16 outputs.
struct LinearTask {
  const std::byte* panels = nullptr;
  int64_t panel_stride = 0;  // bytes
  int64_t begin = 0, end = 0;
  int64_t n_in = 0, n_out = 0;
  const float* x = nullptr;  // float formats: [n, n_in] with x_stride; of a rounded one QuantRows::rounded
  int64_t x_stride = 0;
  QuantRows xq;  // integer formats
  int64_t n = 0;
  float* y = nullptr;  // output o of row r at y[r · y_stride + o]
  int64_t y_stride = 0;
  const float* bias = nullptr;
  int64_t prefetch_bytes = 2048;     // how far ahead weights are asked for
  const std::byte* after = nullptr;  // panels that the caller reads next, asked for at the end; null: not known

  // The same for rows [first, last) alone.
  QR_INLINE LinearTask rows(int64_t first, int64_t last) const {
    LinearTask some = *this;
    some.x += first * x_stride;
    some.xq = xq.from(first);
    some.n = last - first;
    some.y += first * y_stride;
    return some;
  }
  // The same for panels [first, last) alone, of which the first is now 0, into `to`.
  QR_INLINE LinearTask columns(int64_t first, int64_t last, float* to, int64_t to_stride) const {
    LinearTask some = *this;
    some.panels += first * panel_stride;
    some.begin = 0;
    some.end = last - first;
    some.n_out = (n_out < last * 16 ? n_out : last * 16) - first * 16;
    if (bias != nullptr) some.bias += first * 16;
    some.y = to;
    some.y_stride = to_stride;
    return some;
  }
};

struct LinearKernels {
  std::string_view format;
  int64_t most_tiled = 0;  // K up to which of whole tiles of rows it reads QuantRows::tiles alone; 0: never
  int64_t (*panel_bytes)(int64_t n_in);
  // rows: 16 pointers to stored rows (null: zeros), each n_in elements.
  void (*pack)(const std::byte* const* rows, int64_t n_in, std::byte* panel);
  void (*unpack_row)(const std::byte* panel, int row, int64_t n_in, float* out);
  void (*run)(const LinearTask& task);
};

// Query rows [row_begin, row_end) of one sequence and one KV head, all query heads that share it.
inline constexpr int kAttentionChunk = 256;  // keys; part of the numerics

// Floats of a chunk's state: the sums of values in whole vectors, then the maximum and the sum of probabilities.
constexpr int attention_state_floats(int v_dim) { return (v_dim + 15) / 16 * 16 + 16; }

// Some rows of one sequence at one KV head: all their keys, or those of a span of chunks.
struct AttentionTask {
  const std::byte* kv = nullptr;  // the KV group's memory + layer claim: address of block 0's claim
  int64_t block_bytes = 0;
  int block_tokens = 0;
  const int32_t* blocks = nullptr;
  int64_t k_offset = 0, v_offset = 0;  // of this KV head within the claim
  int64_t k_row_bytes = 0, v_row_bytes = 0;
  const float* q = nullptr;  // row 0, first query head of the head group; heads k_dim apart
  int64_t q_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  const int32_t* first_key = nullptr;  // of row 0
  const int32_t* end_key = nullptr;
  int64_t row_begin = 0, row_end = 0;
  int heads_per_kv = 1;  // query heads of the head group
  int k_dim = 0, v_dim = 0;
  float scale = 1.0F;
  float soft_cap = 0.0F;   // 0: none
  int window = 0;          // 0: none
  int n_kept = 0;          // first keys that are seen besides
  bool takes_kept = true;  // this run does those too; of a tile's spans the first does
  // Cos and sin of n_rotations pairs for each row, rotations_stride apart, that queries are rotated by before these;
  // null: none.
  const float* rotations = nullptr;
  int64_t rotations_stride = 0, n_rotations = 0;
  bool rotations_interleaved = false;
  void (*rotate_head)(float* x, const float* rotation, int64_t n, bool interleaved) = nullptr;
  const float* sinks = nullptr;  // of the first query head on, one each; null: none
  int first_chunk = 0;           // of the keys that `run` takes, or whose states `join` merges
  int end_chunk = INT32_MAX;
  // Null: all keys at once, to `out`. Otherwise run leaves there the states of its chunks for join:
  // [row · head][n_states], the first of them of chunk states_chunk, or where keys are kept of these.
  float* states = nullptr;
  int n_states = 0, states_chunk = 0;
};

struct AttentionKernels {
  std::string_view codec;
  // As the codec's (quant/kv_codec.h).
  void (*put_k)(std::byte* strip, int t, int dim, const float* row);
  void (*put_v)(std::byte* strip, int t, int dim, const float* row);
  void (*run)(const AttentionTask& task);
  void (*join)(const AttentionTask& task);
};

// Some rows that lie `stride` floats apart, and what each of them counts.
struct WeighedRows {
  const float* rows;
  int64_t stride;
  const int64_t* places;  // which rows, in order
  const float* shares;    // of each
  int n;                  // of them
};

// What a layer norm multiplies with and adds; b null: nothing.
struct NormRow {
  const float* w;
  const float* b;
  float eps;
};

struct ElementwiseKernels {
  int bf16_per_float;  // how products want rows that are rounded to BF16: QuantRows::rounded_per_float
  // Row `row` of out, of n numbers, in all forms that out has room for.
  void (*quantize_row)(const float* x, int64_t n, const QuantRows& out, int64_t row);
  void (*rms_norm_row)(float* y, const float* x, const float* w, int64_t n, float eps);
  void (*layer_norm_row)(float* y, const float* x, int64_t n, const NormRow& norm);
  void (*add_row)(float* x, const float* delta, int64_t n);
  void (*scale_row)(float* x, int64_t n, float factor);
  // y[i] = Σ share · row[i], from zero in order of the rows, each operation rounded on its own.
  void (*mix_row)(float* y, int64_t n, const WeighedRows& in);
  void (*soft_cap_row)(float* x, int64_t n, float cap);
  // y = act(gate) · up by Activation; up null: act(gate).
  void (*gated_row[kActivations])(float* y, const float* gate, const float* up, int64_t n);
  // Pairs (a, b) number f of n, x[2·f] and x[2·f + 1] or x[f] and x[n + f], become (a·c − b·s, a·s + b·c) of (c, s) =
  // rotation[2·f], rotation[2·f + 1]; each operation rounded on its own.
  void (*rotate_head)(float* x, const float* rotation, int64_t n, bool interleaved);
  // out[b] = the largest of x[64·b …]; false where a value is NaN or +inf (ops/sample_row.h).
  bool (*block_max)(float* out, const float* x, int64_t n);
  // out[i] = exp((x[i] − max) · factor); returns Σ out over 16 lanes, folded. out may be null.
  float (*exp_row)(float* out, const float* x, int64_t n, float max, float factor);
  // Runs multiply-adds on registers only and returns how many operations that were: what the units can do at best.
  int64_t (*spin_int8)(int64_t rounds);
  int64_t (*spin_f32)(int64_t rounds);
  int64_t (*spin_bf16)(int64_t rounds);  // spin_f32 where BF16 is multiplied as f32
};

struct IsaTable {
  std::string_view isa;
  const ElementwiseKernels* elementwise;
  std::span<const LinearKernels* const> linear;
  std::span<const AttentionKernels* const> attention;
};

// Every set that was compiled, narrowest first. Which of them this machine can run: cpu_supports().
std::span<const IsaTable> isa_tables();

}  // namespace quire
