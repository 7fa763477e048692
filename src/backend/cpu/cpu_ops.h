// The CPU backend: Ops on kernels picked once at start for the widest instruction set this machine runs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"
#include "ops/sample_row.h"

namespace quire {

struct CpuOptions {
  int n_threads = 0;  // 0: one for each usable core
  std::string isa;    // one of cpu_isas(); empty: the last of them
  bool pin = true;    // workers to CPUs
  int n_nodes = 0;    // of memory, over which threads and weights are spread; 0: those that the threads sit on
};

// Sets of kernels that were compiled and run here, of "scalar", "avx2", "avx512", "avx512_bf16", "amx"; the fastest
// last.
std::vector<std::string> cpu_isas();
// Code::unsupported when the named set is unknown or this machine lacks it, Code::invalid for a bad count of threads
// or nodes.
Result<std::unique_ptr<Ops>> make_cpu_ops(const CpuOptions& options);

// The sums that sampling needs, by the same kernels.
SampleKernels cpu_sample_kernels();

// Times that `ops`, of make_cpu_ops, has handed work to its threads and waited for them: each is one barrier.
int64_t cpu_forks(const Ops& ops);

// Bytes that load_linear will take for a weight of this shape, without its bias. The same for every instruction set.
int64_t cpu_linear_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in);

// What the machine does at best on n_threads threads, measured now: operations per second of the instruction set's
// multiply-add units (bf16: of weights in BF16 with rows rounded to it), and what a fork and join of one empty task a
// thread takes (0 with one thread).
struct CpuPeak {
  double int8 = 0, f32 = 0, bf16 = 0;
  double fork_ns = 0;
};
Result<CpuPeak> measure_cpu_peak(const CpuOptions& options);

}  // namespace quire
