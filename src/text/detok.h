// The streaming detokeniser: tokens in, whole UTF-8 out. A token's bytes may end inside a code point; the at most three
// bytes that could still become one are held back until the next token decides. Bytes that can never become valid turn
// into U+FFFD, one for each maximal ill-formed run (what Python and Rust print), so the output is valid UTF-8 always.
// One Detok a sequence, used by one thread at a time (io thread); the tokenizer must outlive it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace quire {

// Bytes to valid UTF-8, incrementally.
class Utf8Stream {
 public:
  // Appends what has become certain to `out`; keeps at most 3 bytes.
  void push(std::string_view bytes, std::string& out);
  // End of text: a held unfinished code point becomes one U+FFFD.
  void flush(std::string& out);
  int n_held() const { return n_held_; }

 private:
  void push_byte(uint8_t byte, std::string& out);

  std::array<char, 4> held_{};
  int n_held_ = 0;
};

class Detok {
 public:
  // `special`: control tokens show their text. `at_start`: the first token begins the text, so the space that encoding
  // put before it is dropped (where the tokenizer does that); false where the tokens continue a prompt.
  Detok(const Tokenizer& tokenizer, bool special, bool at_start)
      : tokenizer_(tokenizer), special_(special), strip_(at_start && tokenizer.strips_leading_space()) {}

  // Appends only whole code points to `out`. REQUIRES 0 ≤ id; ids past the vocabulary have no text.
  void push(Token id, std::string& out);
  // End of the sequence: held bytes become U+FFFD.
  void flush(std::string& out) { utf8_.flush(out); }
  int n_held() const { return utf8_.n_held(); }

 private:
  const Tokenizer& tokenizer_;
  Utf8Stream utf8_;
  std::string bytes_;  // scratch for one token
  bool special_;
  bool strip_;  // the next first byte may be the added space
};

// `bytes` with every ill-formed run replaced by U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

}  // namespace quire
