// The tokenizer files of before tokenizer.json, put into its form: vocab.json + merges.txt, and BERT's vocab.txt.
#pragma once
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/added_tokens.h"
#include "text/hf/hf_tokenizer.h"

namespace quire {

struct ByteLevelFiles {
  Json vocab;               // vocab.json
  std::string_view merges;  // merges.txt
  std::string_view family;  // "tokenizer_class" of tokenizer_config.json
  bool add_prefix_space = false;
  std::vector<AddedToken> added;
};

Result<std::unique_ptr<Tokenizer>> make_byte_level_files(ByteLevelFiles files, const HfContext& context);
// One token a line; the line's number is its id.
Result<std::unique_ptr<Tokenizer>> make_bert_vocab(std::string_view file, const HfContext& context, bool lowercase);

}  // namespace quire
