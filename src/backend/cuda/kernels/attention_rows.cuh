// What kernels of attention have in common: which keys a row sees, and where the states of its chunks are.
#pragma once
#include "backend/cuda/kernels/cache.cuh"

namespace quire::cuda {

inline constexpr int kChunk = 256;        // keys
inline constexpr int kHeadsTogether = 4;  // of one KV head, at most
inline constexpr int kUsualHead = 256;    // components

// Which keys a row sees, and where they are.
struct RowsKeys {
  const int32_t* cu_q;    // [n_seqs + 1]
  const int32_t* blocks;  // [n_seqs, max_blocks]
  const int32_t *first_key, *end_key;
  int n_seqs, max_blocks, window;

  // The number of sequences that end at or before the row. All lanes of a warp call.
  QR_DEVICE int sequence_of(int row) const {
    uint32_t n = 0;
    for (int s = dev::thread() % 32; s < n_seqs; s += 32) n += dev::load(cu_q + s + 1) <= row ? 1 : 0;
    for (int i = 16; i > 0; i /= 2) n += dev::shuffle_xor(n, i);
    return static_cast<int>(n);
  }
  QR_DEVICE int first(int row) const {
    const int from = dev::load(first_key + row);
    const int oldest = window > 0 ? end(row) - window : 0;
    return oldest > from ? oldest : from;
  }
  QR_DEVICE int end(int row) const { return dev::load(end_key + row); }
};

// Of each (row, head, chunk): o [v_dim], m, l. l is 0 where the row sees no key of the chunk.
struct States {
  float* data;
  int n_heads, n_chunks, v_dim, first_row;
  QR_DEVICE float* of(int row, int head, int chunk) const {
    return data + ((int64_t{row - first_row} * n_heads + head) * n_chunks + chunk) * (v_dim + 2);
  }
};

}  // namespace quire::cuda
