// Base64, as tokenizer files carry binary tables and tiktoken ranks.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Standard alphabet, with or without padding. Code::corrupt names the offset of the first bad character.
Result<std::string> decode_base64(std::string_view text);

}  // namespace quire
