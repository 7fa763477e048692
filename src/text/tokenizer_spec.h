// What a file says about its tokenizer, as plain data: filled by io (GGUF metadata) or by text itself (tokenizer.json,
// tokenizer.model, tiktoken ranks), read by text's make_tokenizer. The only header of text that io may include.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace quire {

// Kinds of vocabulary entries; the numbers are those of tokenizer.ggml.token_type.
enum class TokenType : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct TokenizerSpec {
  std::string model;  // "llama" SentencePiece BPE, "gpt2" listed merges, "t5" unigram, "bert" WordPiece, "rwkv"
  std::string pre;    // name of the pre-tokenizer ("llama-bpe", "qwen2", …), may be empty
  std::vector<std::string> tokens;  // index = id
  std::vector<float> scores;        // empty or one per token
  std::vector<TokenType> types;     // empty (all normal) or one per token
  std::vector<std::string> merges;  // "left right", in rank order
  Token bos = -1, eos = -1, eot = -1, unk = -1, sep = -1, pad = -1, cls = -1, mask = -1;  // -1: none
  bool add_bos = false, add_eos = false;
  bool bos_by_name = false;  // the file leaves add_bos open: the family that `pre` names decides
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = false;
  std::string precompiled_charsmap;  // SentencePiece's normaliser table, raw bytes
  std::string unk_surface;           // what the unknown token decodes to; empty: the model's default
  std::string chat_template;         // Jinja source, may be empty
};

}  // namespace quire
