// Calls a function every so often in a thread of its own, for what runs out while nobody asks. Ends with the object.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/thread.h"

namespace quire {

class Sweeper {
 public:
  // `sweep` must not throw, and may be called until the destructor returns.
  Sweeper(std::chrono::milliseconds every, std::function<void()> sweep)
      : thread_([this, every, sweep = std::move(sweep)] {
          set_thread_name("quire-sweep");
          std::unique_lock lock(mu_);
          while (!ends_.wait_for(lock, every, [this] { return ending_; })) sweep();
        }) {}
  ~Sweeper() {
    {
      const std::lock_guard lock(mu_);
      ending_ = true;
    }
    ends_.notify_all();
    thread_.join();
  }
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

 private:
  std::mutex mu_;
  std::condition_variable ends_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace quire
