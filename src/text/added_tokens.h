// Tokens that are found in the text before any model sees it: control tokens ("<|im_end|>") where the caller asks for
// them, and user-defined ones always. One pass, the leftmost and there the longest match wins, as Hugging Face's
// tokenizers do. Immutable after build.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "text/byte_range.h"
#include "text/byte_trie.h"

namespace quire {

struct AddedToken {
  std::string text;
  Token id = -1;
  bool special = false;      // matched only where the caller parses special tokens
  bool normalized = false;   // matched in the normalised text instead of the raw one
  bool strip_left = false;   // swallows the white space before it
  bool strip_right = false;  // swallows the white space after it
  bool single_word = false;  // only where no word character touches it
};

struct Fragment {
  std::string_view text;
  Token id = -1;  // -1: ordinary text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return trie_.empty(); }
  // Appends the fragments of `text` (views into it). O(text · longest token). `plain` as in EncodeOptions.
  void split(std::string_view text,
             bool parse_special,
             std::vector<Fragment>& out,
             std::span<const ByteRange> plain = {}) const;

 private:
  const AddedToken* match(std::string_view text, size_t at, size_t& len) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // value = index into tokens_
};

}  // namespace quire
