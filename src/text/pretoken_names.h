// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pretoken.h"

namespace quire {

struct NamedPreTokenizer {
  std::string_view names;                  // one or more, separated by spaces
  std::vector<std::string> (*patterns)();  // each cuts the pieces of the one before
  bool nfc = false;                        // the text is brought to Unicode's form C first
  bool whole_word = false;                 // a word that is a token is that token, whatever the merges say
  bool characters = false;                 // merges start from characters (spaces written ▁), not from bytes
  bool adds_bos = false;                   // the family begins with BOS where the file does not say
};

// Stands among the patterns where the text turns into byte characters (the patterns behind it see those).
inline constexpr std::string_view kToByteChars = "<bytes>";

// Code::unsupported names the unknown pre-tokenizer. The empty name is the old default.
Result<const NamedPreTokenizer*> find_pre_tokenizer(std::string_view name);
// Its patterns as steps.
Result<PreTokenizer> make_pre_tokenizer(const NamedPreTokenizer& named);
// All of them, for the tests.
std::span<const NamedPreTokenizer> all_pre_tokenizers();

}  // namespace quire
