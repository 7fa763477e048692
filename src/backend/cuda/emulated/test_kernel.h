// Kernels of tests on the emulated device: a function that each thread calls on numbers of the device.
#pragma once
#include <numeric>
#include <string>
#include <vector>

#include "backend/cuda/emulated/runtime_fake.h"

namespace quire {

// What the numbers are when it is over, or the fault.
struct Ran {
  std::vector<int32_t> numbers;
  std::string fault;
};

// Runs fn(numbers) as each of kThreadsOf threads of n_blocks blocks, on kNumbers numbers 0, 1, 2 … of the device.
template <int kThreadsOf, int kSharedBytesOf, int kNumbers>
struct TestKernel {
  template <class Fn>
  struct Kernel {
    static constexpr int kThreads = kThreadsOf, kSharedBytes = kSharedBytesOf;
    Fn fn;
    int32_t* numbers;
    void operator()() const { fn(numbers); }
  };
  template <class Fn>
  static Ran run(Fn fn, int n_blocks, uint64_t seed) {
    Ran out;
    const auto runtime = cuda::make_fake_runtime({.seed = seed, .fault = &out.fault});
    auto* numbers = reinterpret_cast<int32_t*>(*runtime->allocate(kNumbers * 4, cuda::Place::shared));
    std::iota(numbers, numbers + kNumbers, 0);
    runtime->launch(cuda::unnamed_launch(Kernel<Fn>{fn, numbers}, {.x = n_blocks}));
    runtime->wait();
    out.numbers.assign(numbers, numbers + kNumbers);
    return out;
  }
};

}  // namespace quire
