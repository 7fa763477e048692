// Tables of whole numbers beside arenas: the host writes them in pinned memory, the device has a copy of what is used
// of each. Owner: the engine thread.
#pragma once
#include <memory>
#include <vector>

#include "backend/cuda/runtime.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace quire::cuda {

class TableCopies {
 public:
  explicit TableCopies(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  // Memory of `bytes` that host and device share, with tables beside it, for as long as it lives.
  Result<Buffer> allocate(int64_t bytes);
  // Asks for the device's copies to be made anew; the tables stay as they are until that has been waited for.
  void upload() const;
  bool holds(const Tensor& t) const { return find(t) != nullptr; }
  // Whole numbers as kernels reach them: those of tables in their copy, others where they are.
  const int32_t* numbers(const Tensor& t) const;

 private:
  struct Pair {
    Tables* tables;
    std::byte* copy;
  };
  const std::byte* find(const Tensor& t) const;  // where the device's copy is; null: it is no table

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<std::vector<Pair>> pairs_ = std::make_shared<std::vector<Pair>>();  // of arenas that are alive
};

}  // namespace quire::cuda
