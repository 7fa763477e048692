// The parser as one automaton over bytes, made bit by bit. A configuration is what the parser could be in the middle
// of: pairs of a row and what is left of the lexemes that began there. Every step is worked out once and kept, so that
// walking a vocabulary is a table look-up a byte. Caches only: what they forget is worked out again, with the same
// result. One thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/grammar/earley.h"
#include "text/grammar/lexer.h"
#include "text/grammar/network.h"
#include "text/grammar/rx.h"

namespace quire::grammar {

// A compiled grammar's constant part; shared by all automata that run it.
struct Program {
  RxStore rx;
  Network net;
  SymbolClasses classes;
  std::vector<std::string> warnings;

  size_t bytes() const { return rx.bytes() + net.bytes() + 4096; }
};

using Config = uint32_t;

class Automaton {
 public:
  static constexpr Config kDead = 0;
  static constexpr size_t kMaxBytes = size_t{24} << 20;   // beyond it, to be emptied before the next token
  static constexpr size_t kHardBytes = size_t{72} << 20;  // failed: one token or mask took all that

  explicit Automaton(std::shared_ptr<const Program> program);
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  Config start() const { return start_; }
  Config step(Config c, uint32_t symbol_class) {
    const int32_t known = next_[size_t{c} * n_classes_ + symbol_class];
    return known >= 0 ? static_cast<Config>(known) : make_step(c, symbol_class);
  }
  Config step_byte(Config c, uint8_t b) { return step(c, program_->classes.of_byte[b]); }
  Config step_control(Config c, uint32_t index) { return step(c, program_->classes.n_bytes + index); }
  bool may_end(Config c) const { return info_[c].may_end; }
  bool has_controls(Config c) const { return info_[c].has_controls; }
  // The only byte that may follow, −1 when there are several, none, or the end may come.
  int forced_byte(Config c);
  // The index of the only control token that may follow, −1 likewise and where a byte may.
  int forced_control(Config c);
  // How much work `c` is, the same whatever is cached: lexemes and items that it consists of.
  uint32_t cost(Config c) const { return info_[c].cost; }
  // Texts of at most this many characters that JSON strings hold unescaped may follow, whatever they are.
  int free_chars(Config c);
  static constexpr int kMaxFreeChars = 32;

  const Program& program() const { return *program_; }
  size_t n_configs() const { return info_.size(); }
  size_t bytes() const;
  // A row, an expression or all together outgrew its bounds: what step() said since is not to be trusted. Until
  // clear().
  bool failed() const { return overfull_ || rows_.exhausted() || rx_.exhausted(); }
  void clear();

 private:
  struct Info {
    ByteSet first;
    uint32_t cost = 0;
    bool may_end = false, has_controls = false;
  };
  struct Controls {
    int n = 0;
    uint32_t first = 0;
  };
  Controls n_controls(Config c);
  Config intern(std::vector<uint32_t>& entries, bool may_end, uint32_t row_cost);
  Config make_step(Config c, uint32_t symbol_class);
  int free_chars_of(LexState s);
  int shown_free_chars(LexState s) const;
  int searched_free_chars(LexState s);
  void find_phase_classes();

  std::shared_ptr<const Program> program_;
  RxStore rx_;  // the program's expressions and the derivatives that were needed
  Lexer lexer_;
  Rows rows_;
  Intern configs_;  // may end, row, state, row, state, …
  std::vector<Info> info_;
  std::vector<int32_t> next_;
  std::vector<int8_t> free_;  // by LexState; −1 not known
  static constexpr int kPhases = 8;
  std::vector<uint8_t> phase_bytes_[kPhases];  // one byte of each class that may come in this part of a character
  uint32_t n_classes_;
  Config start_ = 0;
  bool overfull_ = false;
};

}  // namespace quire::grammar
