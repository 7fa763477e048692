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
  int n_seqs, max_blocks, window, n_kept;

  // The number of sequences that end at or before the row. All lanes of a warp call.
  QR_DEVICE int sequence_of(int row) const {
    uint32_t n = 0;
    for (int s = dev::thread() % 32; s < n_seqs; s += 32) n += dev::load(cu_q + s + 1) <= row ? 1 : 0;
    for (int i = 16; i > 0; i /= 2) n += dev::shuffle_xor(n, i);
    return static_cast<int>(n);
  }
  // A row that misses a key between those that are kept and its window sees the former apart: keys from first_kept to
  // end_kept, which is 0 of other rows (ops/seen_keys.h).
  QR_DEVICE int first(int row) const {
    const int from = first_kept(row), oldest = oldest_in_window(row);
    const bool sees_all = n_kept > from && oldest <= n_kept;
    return sees_all || oldest < from ? from : oldest;
  }
  QR_DEVICE int first_kept(int row) const { return dev::load(first_key + row); }
  QR_DEVICE int end_kept(int row) const {
    return n_kept > first_kept(row) && oldest_in_window(row) > n_kept ? n_kept : 0;
  }
  QR_DEVICE int end(int row) const { return dev::load(end_key + row); }

 private:
  QR_DEVICE int oldest_in_window(int row) const { return window > 0 ? end(row) - window : 0; }
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
