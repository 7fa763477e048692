// What an answer has to be, compiled: made once, on any thread, and shared by all whose answers it holds for.
// Immutable.
#pragma once
#include <memory>
#include <string>

#include "text/grammar/grammar.h"

namespace quire {

struct Constraint {
  std::string source;                      // GrammarSource::written
  std::string field;                       // of the request that asked for it, as errors name it
  std::shared_ptr<const Grammar> grammar;  // null: read from a recording and not compiled; then it has no effect
  std::shared_ptr<const TokenTrie> vocabulary;
};

}  // namespace quire
