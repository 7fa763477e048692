// Takes tensors of a folder's file into a backend by name, and says which were not taken: for small networks beside a
// model. One thread, and those of a conversion, which ends inside.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/folder_files.h"
#include "ops/ops.h"
#include "tensor/buffer.h"

namespace quire {

class TensorTaker {
 public:
  // Both outlive it. Matrices are converted to `as` where they fit it and get smaller (fitting_format); null: they stay
  // as they are.
  TensorTaker(const TensorFile& file, Ops& ops, const WeightFormat* as);

  bool has(const std::string& name) const { return left_.contains(name); }
  // Errors name the tensor, the shape that is wanted and the one found, or a number that cannot be converted. `bias`
  // may be empty: the product has none.
  Result<Linear> linear(const std::string& name, const std::string& bias, int64_t n_out, int64_t n_in);
  Result<Tensor> vector(const std::string& name, int64_t n);
  // The tensor of this shape and type as it lies in the file.
  Result<std::span<const std::byte>> stored(const std::string& name,
                                            const std::vector<int64_t>& shape,
                                            const char* dtype);
  // Of the matrices and vectors that were taken, in the formats that they were loaded in.
  int64_t bytes() const { return bytes_; }
  // Code::unsupported names a tensor that is left. `wanted` says what there should be.
  Status check_all_taken(std::string_view wanted) const;

 private:
  Result<const SafeTensor*> find(const std::string& name, const std::vector<int64_t>& shape);
  // `room` holds the converted bytes.
  Result<HostWeight> converted(HostWeight weight, Buffer& room) const;
  Result<HostWeight> take(const std::string& name, const std::vector<int64_t>& shape);

  const TensorFile& file_;
  Ops& ops_;
  const WeightFormat* as_;
  int64_t bytes_ = 0;
  std::map<std::string_view, const SafeTensor*, std::less<>> left_;
};

}  // namespace quire
