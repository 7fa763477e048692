// All that a kernel may use of the machine. Each function is an instruction under nvcc (nvcc.h) and its twin under the
// host's compiler (emulated.h), which runs the same kernels in the tests. Only what kernels use is here.
//
// A kernel is a struct of its arguments with kThreads, kSharedBytes and operator()() const; it is launched with a copy.
// Ids: thread() in its block; block_x(), block_y(), block_z() in the grid.
//   sync()                      every thread of the block, at the same line; what was written before is seen behind it
//   sync_warp()                 the same for the lanes of a warp, all 32
//   QR_UNROLL                   before a loop of a known number of turns: all of them, one after the other, so that an
//                               array that the loop indexes lies in registers
//   Shared<T>                   shared memory from a byte on, by elements: s[i] reads, s[i] = x writes
//   add_to(s, i, x)             s[i] += x of whole numbers, whatever other threads add at the same time; what it was.
//                               It orders nothing else
//   load(p), store(p, x)        device memory
//   wait_for_previous()         what the kernels launched before wrote is seen behind it; before it a kernel reads only
//                               what no kernel writes. Every kernel begins with one but those with kWaitsItself
//   shuffle_xor(x, n)           x of lane ^ n; all 32 lanes of a warp, at the same line
//   copy16(s, i, from, is_in)   16 bytes of device memory to s[i] …, zeros where not is_in; they arrive behind
//   copy4(s, i, from, is_in)    the same for 4 bytes
//   copy_commit(), copy_wait<N> a wait, which leaves the N youngest commits of this thread under way, and for other
//                               threads behind a sync() after it
//   load_matrix(r, s, i)        ldmatrix.x4: lane l names row l % 8 of matrix l / 8, 16 bytes
//   mma_s8(d, a, b)             mma.m16n8k32.s8, or m16n8k16 of a[2] and b[1]: d += a · b, exact
//   mma_s8_from(c, d, a, b)     the same with every d first c
//   mma_bf16(d, a, b)           mma.m16n8k16 of bf16, floats d += a · b in the order and with the bits of the device's
//                               tensor cores; the twin's are those of emulated/tensor_core.h for compute capability 9.0
// Where kHasWgmma, for compute capability 9.0 alone; elsewhere a kernel of these has an empty body. Bulk copies and
// wgmma go on beside the threads that ask for them, and see shared memory by a way of their own:
//   barrier_init(b, n)          an mbarrier in b[0] whose phases have n arrivals; it is there for all threads behind
//                               async_fence() of this one and sync()
//   barrier_arrive(b)           an arrival: what this thread did before is done when the phase ends
//   barrier_expect(b, n)        an arrival, and n bytes that bulk copies have to bring before the phase ends
//   barrier_wait(b, parity)     until the phase of this parity is over. Phases count from 0; of a new barrier one of
//                               parity 1 counts as over
//   bulk_copy(s, from, n, b)    n bytes of device memory to s[0] …; places and n are multiples of 16. They count in the
//                               phase of b that is under way, and are seen behind a wait for it
//   async_fence()               what this thread wrote or saw is seen by bulk copies and wgmma that it asks for behind
//                               it, and that others ask for behind a sync() after it
//   wgmma(d, a, b)              wgmma.m64n128k16 of bf16, by the 128 threads of a warpgroup, at the same line. d are
//                               WgmmaSums, zeros first: d += a · b, with the bits of mma_bf16 as far as is known. a and
//                               b are descriptors of matrices in shared memory. Number 4j + i of d is of row lane / 4 +
//                               i / 2 · 8 of the warp's sixteen, and of column 8j + lane % 4 · 2 + i % 2
//   wgmma_fence()               before the first wgmma on sums that this thread made
//   wgmma_commit(), wgmma_wait<N>(sums)  a wait, which leaves the N youngest commits of this thread under way: what the
//                               others read may be overwritten, and sums be read where N is 0
//   pick_bytes(a, b, which)     prmt: byte i is that of b:a of which nibble i of `which`, below 8, is the number
//   fma add sub mul div root    rounded to nearest even, never contracted, subnormals kept
//   widened(x), as_double       a double of a float or the nearest of a uint64, and of the halves of its bits; add and
//                               mul take doubles too
//   narrowed(double)            the nearest float
//   truncated(double)           the whole number of it, of one from 0 to below 2^64
//   fresh(x)                    x; what is made of it is made where it stands, not kept in registers from before
//   as_float, as_bits, to_float(half), to_half, whole(int32)
#pragma once
#ifdef __CUDACC__
#include "backend/cuda/device/nvcc.h"
#else
#include "backend/cuda/device/emulated.h"
#endif
