// Memory for one wait of Asio: waiting again never needs any, so a connection, the accepting socket and the clock of an
// io thread go on when there is none to be had. One wait at a time; lives longer than the wait.
#pragma once
#include <boost/asio/bind_allocator.hpp>
#include <cstddef>

#include "base/check.h"

namespace quire {

class OpSlot {
 public:
  OpSlot() = default;
  OpSlot(const OpSlot&) = delete;
  OpSlot& operator=(const OpSlot&) = delete;

  template <class T>
  class Allocator {
   public:
    using value_type = T;
    explicit Allocator(OpSlot& slot) : slot_(&slot) {}
    template <class U>
    Allocator(const Allocator<U>& other) : slot_(other.slot_) {}  // NOLINT(google-explicit-constructor)
    T* allocate(size_t n) { return static_cast<T*>(slot_->take(n * sizeof(T))); }
    void deallocate(T*, size_t) { slot_->taken_ = false; }
    template <class U>
    bool operator==(const Allocator<U>& other) const {
      return slot_ == other.slot_;
    }

   private:
    template <class U>
    friend class Allocator;
    OpSlot* slot_;
  };

  // The handler, for an operation that lives in this slot.
  template <class Handler>
  auto bind(Handler handler) {
    return boost::asio::bind_allocator(Allocator<char>(*this), std::move(handler));
  }

 private:
  void* take(size_t bytes) {
    QR_CHECK(!taken_ && bytes <= sizeof memory_, "one wait at a time");
    taken_ = true;
    return memory_;
  }
  alignas(std::max_align_t) std::byte memory_[256];
  bool taken_ = false;
};

}  // namespace quire
