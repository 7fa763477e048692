// The sections of tokenizer.json, each read into the pipeline's parts. hf_tokenizer.cc puts them together.
#pragma once
#include <string>
#include <vector>

#include "text/hf/json_fields.h"
#include "text/pipeline.h"

namespace quire {

// id → text, gaps empty; what "model" and "added_tokens" say about tokens.
struct HfVocab {
  std::vector<std::string> texts;
  std::vector<std::string> shown;  // what is decoded instead of the text: normalised added tokens; empty: the text
  std::vector<bool> in_model;      // listed by the model (the others were added)
  std::vector<bool> special;       // an added token that is marked special

  size_t limit = 0;  // ids lie below: what the file lists, and some gaps

  // Makes room for `id`. Code::corrupt where it is negative or beyond the limit.
  Status put(int64_t id, const std::string& text, bool from_model);
};

struct HfNormalizer {
  NormalizerChain chain;
  bool to_byte_chars = false;  // ByteLevel: the text is in byte characters afterwards
};
Result<HfNormalizer> read_normalizer(const Json* section);

struct HfPreTokenizer {
  PreTokenizer steps;
  bool byte_level = false;  // the model sees bytes
};
Result<HfPreTokenizer> read_pre_tokenizer(const Json* section);

// Fills `vocab` with the model's tokens.
Status read_model_vocab(const Json& model, HfVocab& vocab);
Result<std::unique_ptr<SubwordModel>> read_model(const Json& model, const HfVocab& vocab, bool byte_level);

// What add_special puts around the tokens.
Status read_post_processor(const Json* section, std::vector<Token>& prefix, std::vector<Token>& suffix);

// The text of each token in a running text, and whether decoding drops one leading space.
Status read_decoder(const Json* section, const HfVocab& vocab, PipelineSpec& parts);

}  // namespace quire
