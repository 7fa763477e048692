// A regex tree as a program for a machine with threads in order of preference, which is how backtracking engines
// explore it. Only compiled further (dfa.h), never run.
#pragma once
#include <vector>

#include "text/regex/parse.h"

namespace quire {

struct Instr {
  enum class Op : uint8_t { set, split, look, match };
  Op op = Op::match;
  int set = -1;         // set, look
  bool at_end = false;  // look: what it says at the end of the text
  int next = -1;        // set, look, split: the preferred way
  int other = -1;       // split
};

struct Program {
  std::vector<Instr> code;
  int start = 0;
};

inline constexpr size_t kMaxInstrs = 8192;

// Code::unsupported where the tree is too large, repeats something that can be empty without end, or has a possessive
// count that would differ from the greedy one.
Result<Program> compile_nfa(const RegexTree& tree);

}  // namespace quire
