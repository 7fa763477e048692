// Any bytes through the kinds of models over small vocabularies: encoding is total, and decoding gives the text
// back. The first byte picks the model.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/detok.h"
#include "text/spm.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

TokenizerSpec spm_spec() {
  TokenizerSpec spec;
  spec.model = "llama";
  const char* hex = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) {
    spec.tokens.push_back(std::string("<0x") + hex[b / 16] + hex[b % 16] + ">");
    spec.types.push_back(TokenType::byte);
  }
  for (const char* piece :
       {"\u2581", "a", "b", "ab", "\u2581a", "aab", "bb", "\u00E9", "\u00E9a", "aaaa", "\u2581\u2581"}) {
    spec.tokens.emplace_back(piece);
    spec.types.push_back(TokenType::normal);
  }
  for (size_t i = 0; i < spec.tokens.size(); ++i) spec.scores.push_back(-static_cast<float>(i % 7));
  spec.add_space_prefix = false;
  return spec;
}

TokenizerSpec byte_spec() {
  TokenizerSpec spec;
  spec.model = "gpt2";
  for (char32_t c = 0x21; c < 0x144; ++c) {  // every byte character, and some that stand for no byte
    std::string text;
    if (c < 0x80) {
      text.push_back(static_cast<char>(c));
    } else {
      text.push_back(static_cast<char>(0xC0 | c >> 6));
      text.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    }
    spec.tokens.push_back(text);
  }
  for (const char* merge : {"a b", "a a", "aa aa", "ab ab", "\u0120 a", "\u00C3 \u00A9", "aaaa aaaa"}) {
    spec.merges.emplace_back(merge);
    std::string joined(merge);
    joined.erase(joined.find(' '), 1);
    spec.tokens.push_back(joined);
  }
  spec.pre = "llama-bpe";
  return spec;
}

// The pieces of spm_spec(), with the merges listed.
TokenizerSpec character_spec() {
  TokenizerSpec spec = spm_spec();
  spec.model = "gpt2";
  spec.pre = "gemma4";
  spec.scores.clear();
  spec.merges = {"a b", "\u2581 a", "a ab", "b b", "\u00E9 a", "\u2581 \u2581"};
  return spec;
}

std::unique_ptr<Tokenizer> must(Result<std::unique_ptr<Tokenizer>> made) {
  QR_CHECK(made.has_value(), made ? "" : made.error().message);
  return std::move(*made);
}

void check(const Tokenizer& t, std::string_view text) {
  std::vector<Token> ids;
  t.encode(text, {}, ids);
  std::string bytes;
  for (const Token id : ids) {
    QR_CHECK(id >= 0 && id < t.n_vocab());
    t.append_bytes(id, false, bytes);
  }
  std::string want(text);  // the symbol for a space is a space in these vocabularies
  if (t.spec().pre != "llama-bpe") {
    for (size_t at = want.find("\u2581"); at != std::string::npos; at = want.find("\u2581", at))
      want.replace(at, 3, " ");
  }
  QR_CHECK(bytes == want);
  QR_CHECK(t.decode(ids, false) == to_valid_utf8(want));
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  static const auto spm = must(make_tokenizer(spm_spec()));
  static const auto bytes = must(make_tokenizer(byte_spec()));
  static const auto unigram = must(make_spm_unigram(spm_spec(), {.own_normalizer = true}));
  if (size == 0) return 0;
  static const auto characters = must(make_tokenizer(character_spec()));
  const Tokenizer* const all[] = {spm.get(), bytes.get(), unigram.get(), characters.get()};
  check(*all[data[0] % 4], {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
