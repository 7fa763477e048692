// How the weights of a Hugging Face folder are quantised: the member "quantization_config" of config.json, or a file of
// older folders (quantize_config.json of GPTQ, quant_config.json of AWQ), and the tensors that make one weight there:
// NAME.qweight, .qzeros, .scales and, where columns have been reordered, .g_idx become NAME.weight
// (quant/grouped_rows.h); of compressed-tensors NAME.weight_packed, _scale, _shape, _zero_point and _g_idx do. What is
// not supported is refused by key, value found and values supported. Pure functions of the files; any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/folder_files.h"
#include "io/model_file.h"
#include "quant/grouped_rows.h"

namespace quire {

struct HfQuantisation {
  GroupedParts::Layout layout = GroupedParts::Layout::gptq;
  int bits = 4;
  int64_t group = 0;           // columns of a group; 0: all are one
  bool zeros_less_one = true;  // GroupedParts::zeros_less_one
  bool is_ordered = false;     // every weight must say which group a column belongs to
  bool has_zeros = true;
};

// Nothing where the folder says that nothing is quantised. `config`: config.json. Errors name file and key.
Result<std::optional<HfQuantisation>> read_quantisation(const std::string& folder, const Json& config);

// Whether the name is of a part of such a weight, and whether that part is the weight's numbers.
bool is_quantised_part(std::string_view tensor);
bool is_quantised_numbers(std::string_view tensor);

// Adds every weight that `shards` hold in several tensors to `out` and takes those tensors away from `shards`. Errors
// name file, tensor, what was found and what is wanted: types, shapes and groups that do not fit together, scales that
// are not finite, a part that is missing. Nothing of a weight's size is allocated.
Status take_quantised(const HfQuantisation& how, std::vector<TensorFile>& shards, ModelFile& out);

}  // namespace quire
