// What a model file says, for people and for programs: `quire inspect`. It reads more than open_model does: files whose
// tensor types have no weight format here are described too, and a broken tokenizer is a line of the answer.
#pragma once
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace quire {

// Members, those without an answer left out:
//   path, container, file_bytes, alignment
//   arch, name, n_params
//   weights    {n_tensors, bytes, types: [{type, supported, n_tensors, n_params, bytes}], largest first}
//   hyper      the architecture's own keys without their prefix ("block_count": 16); arrays as {"length": n}
//   tokenizer  {model, pre, n_tokens, n_merges, kinds: {normal: n, …}, bos, eos, eot, unk, sep, pad, cls, mask: {id,
//   text},
//              add_bos, add_eos, add_space_prefix, chat_template_bytes} or {error}
//   facts      every other key that is no tokenizer's
// weights.bytes is what the weights take as they are stored; a backend's own layout may take more.
// Of a Hugging Face folder: config.json's members are `hyper` ("rope_scaling.factor": 8), generation_config.json's are
// `facts`; its tokenizer is text's to describe, and file_bytes are the tensors' alone.
// Errors as open_model's, types without a weight format aside.
Result<Json> describe_model(const std::string& path);

// The same for a terminal: one fact a line, sizes in MiB. Control characters in the file's texts are escaped.
std::string describe_text(const Json& description);

}  // namespace quire
