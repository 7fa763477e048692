// What all folders of PEFT's have in common: adapter_config.json and adapter_model.safetensors, and how errors about
// them are spelled. Pure functions; any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "io/folder_files.h"

namespace quire {

inline constexpr size_t kMaxPeftConfigBytes = size_t{1} << 20;
inline constexpr const char* kPeftConfig = "adapter_config.json";
inline constexpr const char* kPeftWeights = "adapter_model.safetensors";

// Null, false, or a list or an object of nothing: as if the key were not there.
bool says_nothing(const Json& value);
// Code::unsupported unless "task_type" is absent, null or CAUSAL_LM.
Status check_task(const Json& config);
// Code::corrupt names the tensor unless it has this shape.
Status check_shape(const SafeTensor& tensor, const std::vector<int64_t>& shape);
// All numbers of a tensor of this shape. Errors name the tensor: Code::corrupt for another shape or a value that is not
// finite, Code::unsupported for a type.
Result<std::vector<float>> read_finite(const SafeTensor& tensor,
                                       const std::vector<int64_t>& shape,
                                       const MappedFile& map);

}  // namespace quire
