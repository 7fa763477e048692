// What a tokenizer's file may get wrong (F15), in one place, before anything is built from it. Defined behaviour where
// real files differ: of equal tokens the lowest id is found by text, an empty token is never found, EOS may be missing.
#include <algorithm>
#include <cmath>
#include <string>

#include "text/pipeline.h"

namespace quire {

namespace {

constexpr size_t kMaxVocab = size_t{1} << 24;  // sixty times the largest known; keeps every product in 64 bits
constexpr size_t kMaxVocabBytes = size_t{1} << 31;
// Builders try every cut of every token: this bounds their work (real vocabularies stay below 2^27).
constexpr size_t kMaxSquares = size_t{1} << 31;
// At each place of a text as much is looked at as the longest token has (the longest of real ones have hundreds).
constexpr size_t kMaxTokenBytes = 4096;

Status check_id(const char* name, Token id, size_t n_vocab) {
  if (id >= -1 && id < static_cast<int64_t>(n_vocab)) return {};
  return fail(Code::corrupt, "tokenizer: " + std::string(name) + " id " + std::to_string(id) +
                                 " is outside the vocabulary of " + std::to_string(n_vocab));
}

Status check_length(const char* name, size_t n, size_t n_vocab) {
  if (n == 0 || n == n_vocab) return {};
  return fail(Code::corrupt, "tokenizer: " + std::string(name) + " has " + std::to_string(n) + " entries for " +
                                 std::to_string(n_vocab) + " tokens");
}

}  // namespace

Status check_token_lengths(const std::vector<std::string>& tokens) {
  size_t n_squares = 0;
  for (const std::string& t : tokens) {
    n_squares += std::min(t.size(), size_t{1} << 31) * t.size();
    if (n_squares > kMaxSquares || t.size() > kMaxTokenBytes) {
      return fail(Code::corrupt, "tokenizer: its tokens are too long, one has " + std::to_string(t.size()) +
                                     " bytes: the limit is " + std::to_string(kMaxTokenBytes) + ", and " +
                                     std::to_string(kMaxSquares) + " for the squares of all");
    }
  }
  return {};
}

Status check_spec(const TokenizerSpec& spec) {
  const size_t n = spec.tokens.size();
  if (n == 0) return fail(Code::corrupt, "tokenizer: tokens is empty");
  if (n > kMaxVocab) {
    return fail(Code::corrupt,
                "tokenizer: " + std::to_string(n) + " tokens, the limit is " + std::to_string(kMaxVocab));
  }
  size_t n_bytes = 0;
  for (const std::string& t : spec.tokens) n_bytes += t.size();
  if (n_bytes > kMaxVocabBytes) {
    return fail(Code::corrupt, "tokenizer: tokens have " + std::to_string(n_bytes) + " bytes, the limit is " +
                                   std::to_string(kMaxVocabBytes));
  }
  QR_TRY_VOID(check_token_lengths(spec.tokens));
  QR_TRY_VOID(check_length("scores", spec.scores.size(), n));
  QR_TRY_VOID(check_length("token_type", spec.types.size(), n));
  for (size_t i = 0; i < spec.scores.size(); ++i) {
    if (std::isnan(spec.scores[i]))
      return fail(Code::corrupt, "tokenizer: score of token " + std::to_string(i) + " is NaN");
  }
  for (size_t i = 0; i < spec.types.size(); ++i) {
    const auto type = static_cast<unsigned>(spec.types[i]);
    if (type > 6) {
      return fail(Code::corrupt, "tokenizer: type of token " + std::to_string(i) + " is " + std::to_string(type));
    }
  }
  const std::pair<const char*, Token> ids[] = {{"bos", spec.bos},     {"eos", spec.eos},       {"eot", spec.eot},
                                               {"unknown", spec.unk}, {"separator", spec.sep}, {"padding", spec.pad},
                                               {"cls", spec.cls},     {"mask", spec.mask}};
  for (const auto& [name, id] : ids) QR_TRY_VOID(check_id(name, id, n));
  return {};
}

}  // namespace quire
