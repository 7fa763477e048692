// A Hugging Face folder's model as GGUF files hold it, so that it can be written as one: neutral_form() with what is
// left to tell the two apart put right. Rows of q and k that lie as halves are permuted into pairs where GGUF's
// architecture of that name has pairs (llama; mistral is llama there), experts that lie one by one become one tensor a
// layer, vectors and routers are F32, and the scaling of positions is said as GGUF says it: llama3's as the tensor
// "rope_freqs.weight", longrope's factors as "rope_factors_long.weight" and "rope_factors_short.weight", magnitudes as
// rope.scaling.attn_factor, and the numbers of xIELU, tensors there, are lists. A yarn with unusual betas, or that does
// not round its range, is divisors too where the architecture is llama: others would take it for the usual one. What
// GGUF has no word for keeps keys that only model/rope.h reads: the factor of "dynamic", and such a yarn in other
// architectures.
#pragma once
#include "base/result.h"
#include "io/model_file.h"

namespace quire {

// Ids that end a turn by the folder's generation_config.json or config.json, where GGUF has a single one.
inline constexpr std::string_view kEndTokensKey = "tokenizer.quire_end_ids";

// REQUIRES folder.is_hugging_face. What is changed lies in `owned`. Errors as neutral_form's, and Code::corrupt where a
// tensor that must be permuted has another shape than the facts say.
Result<ModelFile> gguf_form(const ModelFile& folder);

// Matrices that lie one by one, name.0.weight to name.<n - 1>.weight, as one, all_name.weight [n, …]; nothing where the
// first is not there. Code::unsupported where their types differ.
Status stack_matrices(const std::string& name, const std::string& all_name, int n, ModelFile& file);

// The same facts under another architecture's name.
void rename_arch(ModelFile& file, const std::string& from, const std::string& to);

}  // namespace quire
