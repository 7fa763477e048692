// Every tokenizer is this one pipeline with different parts: cut out added tokens, normalise, split into words, run the
// subword model on each word, add the frame (BOS, EOS). Builders (spm.cc, …) fill a PipelineSpec.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/pretoken.h"
#include "text/subword.h"
#include "text/tokenizer.h"

namespace quire {

struct PipelineSpec {
  AddedTokens added;             // looked for in the raw text
  AddedTokens added_normalized;  // looked for in the normalised text
  NormalizerChain normalizers;
  bool normalized_to_byte_chars = false;  // the normalised text is in byte characters
  PreTokenizer pre_tokenizer;
  std::unique_ptr<SubwordModel> model;
  std::vector<Token> prefix, suffix;     // what add_special puts around the tokens
  std::vector<std::string> token_bytes;  // what each token stands for in running text
  std::vector<bool> hidden;              // control tokens: shown only where the caller asks
  bool strips_leading_space = false;
  bool clean_up_spaces = false;  // decode() takes spaces before punctuation away, over the whole text
};

class Pipeline final : public Tokenizer {
 public:
  Pipeline(TokenizerSpec spec, PipelineSpec parts);
  Status encode(std::string_view text, EncodeOptions options, std::vector<Token>& out) const override;
  void append_bytes(Token id, bool special, std::string& out) const override;
  std::string decode(std::span<const Token> ids, bool special) const override;
  bool strips_leading_space() const override { return parts_.strips_leading_space; }

 private:
  // A stretch of the text. False where the budget did not suffice.
  struct Stretch {
    std::string_view text;
    bool at_start = false;
    TextBudget& budget;
  };
  bool encode_fragment(const Stretch& raw, bool parse_special, std::vector<Token>& out) const;
  bool encode_normal(const Stretch& normal, std::vector<Token>& out) const;

  PipelineSpec parts_;
};

// Builders, one per spec.model; SentencePiece's are in spm.h. REQUIRES check_spec(spec).
Result<std::unique_ptr<Tokenizer>> make_listed_bpe(TokenizerSpec spec);     // "gpt2"
Result<std::unique_ptr<Tokenizer>> make_word_piece(TokenizerSpec spec);     // "bert"
Result<std::unique_ptr<Tokenizer>> make_longest_match(TokenizerSpec spec);  // "rwkv"

// F15: everything a builder relies on: sizes, ids in range, finite scores.
Status check_spec(const TokenizerSpec& spec);
// Builders that try every cut of every token need this: the sum of the squared lengths is limited.
Status check_token_lengths(const std::vector<std::string>& tokens);

}  // namespace quire
