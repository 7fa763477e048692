// Lists of what each layer is, in the facts of Hugging Face folders.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "model/hf_names.h"

namespace quire {

// The kinds that `key` lists, one for each of "num_hidden_layers"; where it is not there, `otherwise`, unless that is
// empty. Errors name the key: corrupt for a list of another length, unsupported for a kind that is not `known`.
Result<std::vector<std::string>> layer_kinds(HfFacts& hf,
                                             std::string_view key,
                                             const std::vector<std::string_view>& known,
                                             std::vector<std::string> otherwise = {});

}  // namespace quire
