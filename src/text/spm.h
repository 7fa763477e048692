// SentencePiece's two models from a spec, whatever file it came from.
#pragma once
#include "text/pipeline.h"

namespace quire {

// Where the two families of users of these vocabularies differ.
struct SpmStyle {
  // SentencePiece itself: its own normaliser (character map, white space rules), user-defined symbols found inside the
  // normalised text. Otherwise what Llama-like GGUF files mean: spaces become U+2581 and nothing else changes; control
  // and user-defined tokens cut the text, and each part gets the prefix.
  bool own_normalizer = false;
  bool escape_whitespaces = true;
  bool prefix_is_suffix = false;
};

// REQUIRES check_spec(spec). Code::corrupt names what is missing or contradictory.
Result<std::unique_ptr<Tokenizer>> make_spm_bpe(TokenizerSpec spec, const SpmStyle& style);
Result<std::unique_ptr<Tokenizer>> make_spm_unigram(TokenizerSpec spec, const SpmStyle& style);

}  // namespace quire
