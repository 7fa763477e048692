// A view of an array in some device's memory: never owns, never outlives the buffer or arena step it points into.
// Plain value; the memory's owner says which thread may touch it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/check.h"
#include "tensor/dtype.h"

namespace quire {

struct Tensor {
  static constexpr int kMaxRank = 4;

  std::byte* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> stride{};  // in elements; the last is 1 in every tensor that an op takes

  // A dense view. REQUIRES shape.size() ≤ kMaxRank and every extent ≥ 0.
  static Tensor dense(void* data, DType dtype, std::initializer_list<int64_t> shape) {
    Tensor t;
    t.data = static_cast<std::byte*>(data);
    t.dtype = dtype;
    t.rank = static_cast<int>(shape.size());
    QR_CHECK(t.rank <= kMaxRank);
    int i = 0;
    for (int64_t extent : shape) t.shape[static_cast<size_t>(i++)] = extent;
    int64_t step = 1;
    for (i = t.rank - 1; i >= 0; --i) {
      t.stride[static_cast<size_t>(i)] = step;
      step *= t.shape[static_cast<size_t>(i)];
    }
    return t;
  }

  int64_t dim(int i) const { return shape[static_cast<size_t>(i)]; }
  int64_t n_elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dim(i);
    return n;
  }
  bool empty() const { return rank == 0 || n_elements() == 0; }
  bool is_dense() const {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (dim(i) != 1 && stride[static_cast<size_t>(i)] != step) return false;
      step *= dim(i);
    }
    return true;
  }

  template <class T>
  T* ptr() const {
    return reinterpret_cast<T*>(data);
  }
  // Row `i` of a matrix: [n, cols] with any row stride.
  template <class T>
  T* row(int64_t i) const {
    return reinterpret_cast<T*>(data) + i * stride[0];
  }
  // Columns [begin, begin + n) of a matrix, as a view with the same row stride.
  Tensor columns(int64_t begin, int64_t n) const {
    Tensor t = *this;
    t.data += begin * dtype_bytes(dtype);
    t.shape[1] = n;
    return t;
  }
  // Rows [begin, begin + n) of a matrix.
  Tensor rows(int64_t begin, int64_t n) const {
    Tensor t = *this;
    t.data += begin * stride[0] * dtype_bytes(dtype);
    t.shape[0] = n;
    return t;
  }
  template <class T>
  std::span<T> span() const {
    return {ptr<T>(), static_cast<size_t>(n_elements())};
  }
};

}  // namespace quire
