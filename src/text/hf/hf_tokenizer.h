// tokenizer.json, the whole pipeline, into a Tokenizer.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace quire {

class Json;

// What stands beside tokenizer.json in a model's folder. Names of special tokens are texts of the vocabulary.
struct HfContext {
  std::string bos, eos, unk, pad, sep, cls, mask;  // empty: not named
  std::string chat_template;
  int add_bos = -1, add_eos = -1;  // 0 or 1: the frame is this, whatever the post_processor says
};

// Code::corrupt names the field that is wrong, Code::unsupported the part that is not known.
Result<std::unique_ptr<Tokenizer>> make_hf_tokenizer(const Json& root, const HfContext& context);

}  // namespace quire
