// Tokenizers from files other than GGUF (which goes through io and make_tokenizer): a Hugging Face folder, a
// tokenizer.json, SentencePiece's tokenizer.model, tiktoken ranks, vocab.json with merges.txt, BERT's vocab.txt.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace quire {

inline constexpr size_t kMaxTokenizerFileBytes = size_t{256} << 20;

// Whether `path` is something load_tokenizer() can try: one of those files, or a folder that holds one.
bool has_tokenizer_files(const std::string& path);
// Decides by content, not by name. In a folder, tokenizer_config.json, special_tokens_map.json and chat_template.jinja
// add the names of special tokens and the template. Code::not_found when there is nothing, Code::corrupt names the file
// and field, Code::unsupported the part that is not known.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path);

// What load_tokenizer() reads of a folder, as bytes by file name, for a model file that carries it along.
using TokenizerFiles = std::map<std::string, std::string>;
Result<TokenizerFiles> read_tokenizer_files(const std::string& path);
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const TokenizerFiles& files);

}  // namespace quire
