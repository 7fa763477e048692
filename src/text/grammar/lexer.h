// The lower half of the parser: sets of lexemes read side by side, byte by byte. A state is what is left of each lexeme
// (its derivatives); states and their steps are made when they are first asked for and kept. A lexeme may end wherever
// its expression matches and go on as well: which of both was right, the parser above knows. One thread at a time.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/intern.h"
#include "text/grammar/network.h"
#include "text/grammar/rx.h"

namespace quire::grammar {

using LexState = uint32_t;

// Symbols that no lexeme tells apart are one class: bytes first, then each control token its own.
struct SymbolClasses {
  std::vector<uint8_t> of_byte;  // [256]
  std::vector<Symbol> example;   // by class
  uint32_t n_bytes = 0;          // classes of bytes; control token i is class n_bytes + i
  uint32_t size() const { return static_cast<uint32_t>(example.size()); }

  static SymbolClasses of(const RxStore& rx, size_t n_controls);
};

class Lexer {
 public:
  static constexpr LexState kDead = 0;

  Lexer(RxStore& rx, const Network& net, const SymbolClasses& classes);

  LexState start(std::span<const uint32_t> lexemes);  // sorted lexemes
  LexState step(LexState s, uint32_t symbol_class) {
    const int32_t known = next_[size_t{s} * classes_.size() + symbol_class];
    return known >= 0 ? static_cast<LexState>(known) : make_step(s, symbol_class);
  }
  // Lexemes that end here, sorted.
  std::span<const uint32_t> accepted(LexState s) const { return accepts_[info_[s].accepts]; }
  bool goes_on(LexState s) const { return info_[s].goes_on; }        // something but the end may follow
  const ByteSet& first(LexState s) const { return info_[s].first; }  // none that may follow is missing
  bool has_controls(LexState s) const { return info_[s].has_controls; }
  // What is left of each lexeme: lexeme, expression, lexeme, expression, …
  std::span<const uint32_t> pairs(LexState s) const { return states_[s]; }
  uint32_t width(LexState s) const { return static_cast<uint32_t>(states_[s].size() / 2); }

  size_t size() const { return info_.size(); }
  size_t bytes() const;
  void clear();

 private:
  struct Info {
    ByteSet first;
    uint32_t accepts = 0;
    bool goes_on = false, has_controls = false;
  };
  LexState make_step(LexState s, uint32_t symbol_class);
  LexState intern(std::span<const uint32_t> pairs);

  RxStore& rx_;
  const Network& net_;
  const SymbolClasses& classes_;
  Intern states_;   // lexeme, expression, lexeme, expression, …
  Intern accepts_;  // lexemes
  std::vector<Info> info_;
  std::vector<int32_t> next_;
};

}  // namespace quire::grammar
