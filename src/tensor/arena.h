// Scratch memory of one step: bump allocation, freed all at once. The same sequence of allocations gives the same
// addresses (captured GPU graphs rely on it). Owner: the engine thread.
#pragma once
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace quire {

class Arena {
 public:
  static constexpr int64_t kAlign = 64;  // a cache line, and the widest vector

  explicit Arena(Buffer buffer) : buffer_(std::move(buffer)) {}

  struct Mark {
    int64_t used = 0, tables = 0;
  };

  // Uninitialised memory until the next reset(). REQUIRES room: the engine sizes the arena from Model::arena_bytes.
  // Whole numbers lie in the buffer's tables while these have room.
  Tensor alloc(DType dtype, std::initializer_list<int64_t> shape) {
    Tensor t = Tensor::dense(buffer_.data() + used_, dtype, shape);
    const int64_t bytes = (t.n_elements() * dtype_bytes(dtype) + kAlign - 1) / kAlign * kAlign;
    Tables* tables = dtype == DType::i32 ? buffer_.tables() : nullptr;
    if (tables != nullptr && tables->used + bytes <= tables->bytes) {
      t.data = tables->data + tables->used;
      tables->used += bytes;
      return t;
    }
    QR_CHECK(used_ + bytes <= buffer_.bytes(),
             "arena of " + std::to_string(buffer_.bytes()) + " bytes is full at " + std::to_string(used_ + bytes));
    used_ += bytes;
    peak_ = used_ > peak_ ? used_ : peak_;
    return t;
  }
  // A matrix of f32 whose rows lie row_stride(n_columns) apart.
  Tensor alloc_rows(int64_t n, int64_t n_columns) {
    return alloc(DType::f32, {n, row_stride(n_columns)}).columns(0, n_columns);
  }
  // An odd number of cache lines where rows are whole ones: pages apart, all of a column would fall into the same few
  // sets of a cache.
  static constexpr int64_t row_stride(int64_t n_columns) {
    constexpr int64_t kLine = kAlign / int64_t{sizeof(float)};
    return n_columns % (2 * kLine) == 0 ? n_columns + kLine : n_columns;
  }
  // What a matrix takes at most that alloc_rows makes.
  static constexpr int64_t row_bytes(int64_t n, int64_t n_columns) {
    return n * row_stride(n_columns) * int64_t{sizeof(float)} + kAlign;
  }
  // Whole numbers of before stay as they are until the next reset.
  void reset() {
    if (Tables* tables = buffer_.tables()) std::swap(tables->data, tables->other);
    release({});
  }
  // Everything allocated after mark() is freed by release(mark).
  Mark mark() const { return {used_, buffer_.tables() != nullptr ? buffer_.tables()->used : 0}; }
  void release(Mark mark) {
    used_ = mark.used;
    if (buffer_.tables() != nullptr) buffer_.tables()->used = mark.tables;
  }
  int64_t peak_bytes() const { return peak_; }

 private:
  Buffer buffer_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace quire
