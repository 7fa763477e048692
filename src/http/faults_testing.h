// For this room's tests only: makes the n-th allocation of the io threads fail, or the n-th call of a socket. Both are
// replaced in the test program, so that no seam is needed in the room.
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
  // Where it may happen: on io threads only.
  bool happens();

 private:
  std::atomic<int64_t> left_{0};  // 0: not armed; below: past it
  std::atomic<bool> and_after_{false}, hit_{false};
};

extern Fault allocation_fault, socket_fault;
extern std::atomic<int> socket_errno;  // of a failing socket; 0: it takes or gives a single byte

}  // namespace quire
