// Reads memory and nothing else: what a device can do at most, for the rates of other kernels to be compared with. Each
// thread takes 16 bytes at a time, eight of them before it looks at the first. Grid: any; blocks share the work.
#pragma once
#include "backend/cuda/kernels/packed.cuh"

namespace quire::cuda {

struct ReadAll {
  static constexpr int kThreads = 256, kSharedBytes = 0, kAhead = 8;
  const Fragment* data;
  uint32_t* out;  // one word: written where the words' parity is a number that it never is
  int64_t n;      // whole runs of kThreads · kAhead are read
  int n_blocks;

  QR_DEVICE void operator()() const {
    uint32_t all = 0;
    for (int64_t run = dev::block_x(); (run + 1) * kThreads * kAhead <= n; run += n_blocks) {
      Fragment got[kAhead];
      for (int i = 0; i < kAhead; ++i) got[i] = dev::load(data + (run * kAhead + i) * kThreads + dev::thread());
      for (int i = 0; i < kAhead; ++i) all ^= got[i].words[0] ^ got[i].words[1] ^ got[i].words[2] ^ got[i].words[3];
    }
    if (all == 0x9e3779b9U) dev::store(out, all);
  }
};

}  // namespace quire::cuda
