// Takes tensors of a folder's file into a backend by name, and says which were not taken: for small networks beside a
// model. One thread.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/folder_files.h"
#include "ops/ops.h"

namespace quire {

class TensorTaker {
 public:
  // Both outlive it.
  TensorTaker(const TensorFile& file, Ops& ops);

  bool has(const std::string& name) const { return left_.contains(name); }
  // Errors name the tensor, the shape that is wanted and the one found. `bias` may be empty: the product has none.
  Result<Linear> linear(const std::string& name, const std::string& bias, int64_t n_out, int64_t n_in);
  Result<Tensor> vector(const std::string& name, int64_t n);
  // The tensor of this shape and type as it lies in the file.
  Result<std::span<const std::byte>> stored(const std::string& name,
                                            const std::vector<int64_t>& shape,
                                            const char* dtype);
  // Code::unsupported names a tensor that is left. `wanted` says what there should be.
  Status check_all_taken(std::string_view wanted) const;

 private:
  Result<const SafeTensor*> find(const std::string& name, const std::vector<int64_t>& shape);
  Result<HostWeight> take(const std::string& name, const std::vector<int64_t>& shape);

  const TensorFile& file_;
  Ops& ops_;
  std::map<std::string_view, const SafeTensor*, std::less<>> left_;
};

}  // namespace quire
