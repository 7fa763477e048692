// How the weights of a Hugging Face folder are quantised: the member "quantization_config" of config.json, or a file of
// folders without it (quantize_config.json of GPTQ, quant_config.json of AWQ, hf_quant_config.json of ModelOpt), and
// the tensors that make one weight there: NAME.qweight, .qzeros, .scales and, where columns have been reordered, .g_idx
// become NAME.weight (quant/grouped_rows.h); of compressed-tensors NAME.weight_packed or, as bytes, NAME.weight, and
// _scale, _shape, _zero_point and _g_idx do; of FP8 NAME.weight with NAME.weight_scale_inv or NAME.weight_scale
// (quant/scaled_rows.h); of bitsandbytes NAME.weight with NAME.SCB, or with NAME.weight.absmax and others
// (quant/table_rows.h); of stacked experts in MXFP4 NAME_blocks and NAME_scales do, as the weight NAME_blocks
// (quant/fp4_rows.h); of ModelOpt NAME.weight with NAME.weight_scale and, in four bits, NAME.weight_scale_2; of BitNet
// NAME.weight with NAME.weight_scale (quant/ternary_rows.h). What is not supported is refused by key, value found and
// values supported. Pure functions of the files; any thread.
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

struct QuantisedKind;  // io/quantised_kinds.h

struct HfQuantisation {
  const QuantisedKind* kind = nullptr;
  // Of numbers in groups.
  GroupedParts::Layout layout = GroupedParts::Layout::gptq;
  int bits = 4;
  int64_t group = 0;           // columns of a group; 0: all are one
  bool zeros_less_one = true;  // GroupedParts::zeros_less_one
  bool is_ordered = false;     // every weight must say which group a column belongs to
  bool has_zeros = true;
  bool has_one_scale = false;  // GroupedParts::has_one_scale
  // Of floats under scales: rows and columns that share one; 0: all do.
  int64_t scale_rows = 0, scale_columns = 0;
  bool has_exponents = false;  // scales are bytes, 127 more than powers of two
  bool divides = false;        // of ternary numbers: the scale is a divisor
};

// Nothing where the folder says that nothing is quantised. `config`: config.json. Errors name file and key.
Result<std::optional<HfQuantisation>> read_quantisation(const std::string& folder, const Json& config);

// How many numbers of a weight a tensor holds: none where it is a scale or another part beside them. Nothing where it
// is no part of a weight in several tensors.
std::optional<int64_t> quantised_numbers(const HfQuantisation& how, const SafeTensor& tensor);

// Adds every weight that `shards` hold in several tensors to `out` and takes those tensors away from `shards`. Errors
// name file, tensor, what was found and what is wanted: types, shapes and groups that do not fit together, scales that
// are not finite, a part that is missing, a plain weight beside scales. Nothing of a weight's size is allocated.
Status take_quantised(const HfQuantisation& how, std::vector<TensorFile>& shards, ModelFile& out);

}  // namespace quire
