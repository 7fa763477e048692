// --draft-vocab: which of its tokens a model that drafts can write.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace quire {

// Of "": none, for all of them. Of a number: so many of the lowest ids. Of a file of safetensors: those of its tensor
// "d2t", as EAGLE-3 heads have it (I64, of output i how far its token lies behind i). Ascending, each once.
// Code::invalid names the option, the range and what was found; Code::corrupt file and tensor; Code::not_found,
// Code::io.
Result<std::vector<Token>> draft_vocabulary(const std::string& wanted, int n_vocab);

}  // namespace quire
