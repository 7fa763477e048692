// A libcuda.so.1 for tests: NVIDIA's driver calls on the fake runtime (runtime_fake.h), kernels found by name and run
// in the emulator. It holds its caller to the interface: contexts are current, handles and pointers its own and alive,
// memory cleared before it is used, arguments read at the call and never again, blocks and shared memory within what a
// kernel may have. A test that opens it finds quire_fake_* in it.
#pragma once
#include <cstdint>
#include <string>

namespace quire::cuda {

inline constexpr char kFakeImage[] = "kernels of the emulator";  // the module that it takes, besides nvcc's

struct FakeDriver {
  uint64_t seed = 0;                  // of the order in which threads, blocks and streams go on
  int64_t bytes = int64_t{64} << 30;  // of memory
  int shared_bytes = 227 << 10;       // that a block may have
  int n_devices = 1, major = 9, minor = 0, version = 13'000;
  int failing_call = 0;  // by number, from 1 on; 0: none
  int code = 0;          // what it returns
};

// Of the library's functions, by these names.
using FakeReset = void (*)(const FakeDriver& options);  // quire_fake_reset: as if just opened; nothing may be alive
using FakeFail = void (*)(int nth, int code);           // quire_fake_fail: of the calls from now on; 0: none
using FakeCount = int (*)();                            // quire_fake_calls, quire_fake_alive
using FakeLimit = void (*)(int64_t bytes);              // quire_fake_limit: memory ends there from now on
using FakeBytes = int64_t (*)();                        // quire_fake_used: of memory, graphs included
using FakeText = const char* (*)();                     // quire_fake_trace: names of calls, each with a blank behind it

// Where the build puts it: beside the program that runs, or one folder above.
std::string fake_libcuda_path();

}  // namespace quire::cuda
