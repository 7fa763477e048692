// A file descriptor that is closed with its owner.
#pragma once
#include <unistd.h>

#include <utility>

namespace quire {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}  // negative: none
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    Fd old(std::move(*this));
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  // Still this one's; negative: none.
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

}  // namespace quire
