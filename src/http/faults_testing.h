// For tests only: makes the n-th allocation of a server's threads fail, or the n-th call of a socket. Both are replaced
// in the test program (faults_replaced.h, which one file of it includes), so that no seam is needed in what is tested.
#pragma once
#include <atomic>
#include <cstdint>

namespace quire {

class Fault {
 public:
  // The n-th time from now on, n ≥ 1, and with `and_after` each time after it.
  void arm(int64_t n, bool and_after) {
    and_after_ = and_after;
    hit_ = false;
    left_ = n;
  }
  // Returns whether it came to that.
  bool disarm() {
    left_ = 0;
    and_after_ = false;
    return hit_;
  }
  bool hit() const { return hit_; }
  // Where it may happen: on fault_threads only, and not while SpareFaults lives.
  bool happens();
  bool happens_on(int socket);  // and where fault_peer_port is its client's

 private:
  std::atomic<int64_t> left_{0};  // 0: not armed; below: past it
  std::atomic<bool> and_after_{false}, hit_{false};
};

extern Fault allocation_fault, socket_fault;
extern std::atomic<int> socket_errno;  // of a failing socket; 0: it takes or gives a single byte
// Beginnings of the names of threads, with blanks between them. Io threads, where nothing else is said.
extern std::atomic<const char*> fault_threads;
extern std::atomic<int> fault_peer_port;  // 0: every client's

// What this thread does while it lives does not fail, and is not counted.
class SpareFaults {
 public:
  SpareFaults() { ++n_; }
  ~SpareFaults() { --n_; }
  SpareFaults(const SpareFaults&) = delete;
  SpareFaults& operator=(const SpareFaults&) = delete;
  static bool any() { return n_ > 0; }

 private:
  static thread_local int n_;
};

}  // namespace quire
