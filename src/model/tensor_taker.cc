#include "model/tensor_taker.h"

#include "io/in_quotes.h"
#include "io/shape_text.h"
#include "quant/convert.h"

namespace quire {

TensorTaker::TensorTaker(const TensorFile& file, Ops& ops, const WeightFormat* as) : file_(file), ops_(ops), as_(as) {
  for (const SafeTensor& tensor : file.tensors) left_.emplace(tensor.name, &tensor);
}

Result<Linear> TensorTaker::linear(const std::string& name, const std::string& bias, int64_t n_out, int64_t n_in) {
  Buffer room;
  QR_TRY(HostWeight weight, take(name, {n_out, n_in}));
  if (as_ != nullptr) {
    QR_TRY(weight, converted(std::move(weight), room));
  }
  bytes_ += weight.n_rows() * weight.row_bytes();
  if (bias.empty()) return ops_.load_linear(weight, nullptr, Shard{});
  QR_TRY(const HostWeight numbers, take(bias, {n_out}));
  bytes_ += numbers.row_bytes();
  return ops_.load_linear(weight, &numbers, Shard{});
}

Result<Tensor> TensorTaker::vector(const std::string& name, int64_t n) {
  QR_TRY(const HostWeight weight, take(name, {n}));
  bytes_ += weight.row_bytes();
  return ops_.load_vector(weight);
}

Result<std::span<const std::byte>> TensorTaker::stored(const std::string& name,
                                                       const std::vector<int64_t>& shape,
                                                       const char* dtype) {
  QR_TRY(const SafeTensor* tensor, find(name, shape));
  if (tensor->dtype != dtype) {
    return fail(Code::unsupported,
                "tensor " + in_quotes(name) + ": must be of type " + dtype + ", is of " + tensor->dtype);
  }
  left_.erase(name);
  return file_.map->bytes().subspan(static_cast<size_t>(tensor->offset), static_cast<size_t>(tensor->bytes));
}

Status TensorTaker::check_all_taken(std::string_view wanted) const {
  if (left_.empty()) return {};
  return fail(Code::unsupported,
              "tensor " + in_quotes(left_.begin()->first) + ": is not known for " + std::string(wanted));
}

Result<const SafeTensor*> TensorTaker::find(const std::string& name, const std::vector<int64_t>& shape) {
  const auto at = left_.find(name);
  if (at == left_.end()) return fail(Code::corrupt, "tensor " + in_quotes(name) + ": is missing");
  if (at->second->shape != shape) {
    return fail(Code::corrupt, "tensor " + in_quotes(name) + ": must have shape " + shape_text(shape) +
                                   " for this model, has " + shape_text(at->second->shape));
  }
  return at->second;
}

Result<HostWeight> TensorTaker::converted(HostWeight weight, Buffer& room) const {
  const WeightFormat* to = fitting_format(weight, *as_);
  if (to->row_bytes(weight.n_cols()) >= weight.row_bytes()) return weight;
  const int64_t n_bytes = weight.n_rows() * to->row_bytes(weight.n_cols());
  QR_TRY(room, Buffer::allocate(n_bytes));
  QR_TRY_VOID(convert_weight(weight, *to, {.quick = true}, room.data()));
  weight.format = to;
  weight.data = {room.data(), static_cast<size_t>(n_bytes)};
  return weight;
}

Result<HostWeight> TensorTaker::take(const std::string& name, const std::vector<int64_t>& shape) {
  QR_TRY(const SafeTensor* tensor, find(name, shape));
  left_.erase(name);
  return make_weight(*tensor, *file_.map);
}

}  // namespace quire
