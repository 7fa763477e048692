#include "model/peft_folder.h"

#include <cmath>

#include "io/in_quotes.h"
#include "io/shape_text.h"

namespace quire {

bool says_nothing(const Json& value) {
  if (value.as_array() != nullptr) return value.as_array()->empty();
  if (value.as_object() != nullptr) return value.as_object()->empty();
  return value.is_null() || (value.as_bool() != nullptr && !*value.as_bool());
}

Status check_task(const Json& config) {
  const Json* task = config.find("task_type");
  if (task == nullptr || task->is_null()) return {};
  if (task->as_string() != nullptr && *task->as_string() == "CAUSAL_LM") return {};
  return fail(Code::unsupported, "key \"task_type\": must be CAUSAL_LM, found " + shown_json(task));
}

Status check_shape(const SafeTensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.shape == shape) return {};
  return fail(Code::corrupt, "tensor " + in_quotes(tensor.name) + ": must have shape " + shape_text(shape) + ", has " +
                                 shape_text(tensor.shape));
}

Result<std::vector<float>> read_finite(const SafeTensor& tensor,
                                       const std::vector<int64_t>& shape,
                                       const MappedFile& map) {
  QR_TRY_VOID(check_shape(tensor, shape));
  QR_TRY(const HostWeight weight, make_weight(tensor, map));
  std::vector<float> out(static_cast<size_t>(weight.n_rows() * weight.n_cols()));
  for (size_t i = 0; i < out.size(); ++i) {
    weight.format->decode(weight.data.data() + i * static_cast<size_t>(weight.format->bytes), &out[i]);
    if (std::isfinite(out[i])) continue;
    return fail(Code::corrupt, "tensor " + in_quotes(tensor.name) + ": value " + std::to_string(i) + " is not finite");
  }
  return out;
}

}  // namespace quire
