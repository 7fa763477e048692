// Device memory that comes and goes while a server runs: of adapters. It is taken and filled on any thread, beside what
// the device does, and may be given up on any thread too: a step that was asked for ahead may still read it, so it
// goes back once everything that was asked for before has happened. Owner of what says so: the engine thread.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "backend/cuda/runtime.h"
#include "tensor/buffer.h"

namespace quire::cuda {

class LoadedMemory {
 public:
  explicit LoadedMemory(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  LoadedMemory(const LoadedMemory&) = delete;
  LoadedMemory& operator=(const LoadedMemory&) = delete;
  ~LoadedMemory() { finished(); }  // REQUIRES nothing under way

  // Memory with these bytes. Code::exhausted where the device has none, also once what was given up before has gone
  // back: any thread but the engine's waits for that, a few seconds at most. Any thread.
  static Result<Buffer> load(const std::shared_ptr<LoadedMemory>& memory, std::span<const std::byte> bytes);

  // The engine thread: something is asked of the device; a mark is set behind it; that mark has been waited for;
  // everything has.
  void begun();
  void sent(int mark);
  void arrived(int mark);
  void finished();

 private:
  static constexpr int kNone = -1;
  struct Gone {
    std::byte* data;
    int mark;  // behind what may still read it; kNone: none is set so far
  };
  void give_up(std::byte* data);
  // Counts a buffer that is to come; it can be given up without memory of the host's. How often memory went back so
  // far.
  int64_t expect_one();
  // Memory went back since `n_returns`, or does now.
  bool wait_for_more(int64_t n_returns);
  void release(std::byte* data);  // REQUIRES mu_

  const std::shared_ptr<Runtime> runtime_;
  std::mutex mu_;
  bool is_under_way_ = false;  // guarded by mu_, as is what follows
  std::vector<Gone> gone_;
  size_t n_held_ = 0;      // buffers that are to be given up
  int64_t n_returns_ = 0;  // buffers that the device has back
  std::condition_variable returned_;
  std::thread::id engine_;  // who asks the device
};

}  // namespace quire::cuda
