// What may shape the next token, and what may end a sequence. Rules are stepped by the engine thread, once per
// committed token; rollback undoes the last n accepts (drafts that were rejected), exactly.
#pragma once
#include "base/types.h"
#include "ops/ops.h"

namespace quire {

class LogitsRule {
 public:
  virtual ~LogitsRule() = default;
  virtual void edits(LogitEdits& out) const = 0;  // adds its edits for the next token
  virtual void shape(SampleParams&) const {}      // changes numbers of the filters for the next token
  virtual void observe(const Sampled&) {}         // how the token came about that accept() is told of next
  virtual void accept(Token) = 0;
  virtual void rollback(int n) = 0;
};

class EndRule {
 public:
  virtual ~EndRule() = default;
  virtual bool accept(Token) = 0;  // true: the sequence ends with this token
  virtual void rollback(int n) = 0;
};

}  // namespace quire
