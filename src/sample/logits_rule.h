// What may shape the next token, and what may end a sequence. Stepped by the engine thread, once per committed token;
// asked for edits by that or, while it waits, by one of the backend's threads, so that rules share nothing unguarded. A
// LogitsRule is led along guesses too, to ask for its edits behind each, and back before the step is over: rollback
// undoes the last n accepts, exactly, and an accept that throws leaves the rule as it was. An EndRule hears committed
// tokens alone.
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
  // Whether accept() needs what observe() was told: then it cannot follow guesses, and its request has none.
  virtual bool needs_samples() const { return false; }
  virtual void accept(Token) = 0;
  virtual void rollback(int n) = 0;  // throws nothing
};

class EndRule {
 public:
  virtual ~EndRule() = default;
  virtual bool accept(Token) = 0;  // true: the sequence ends with this token
  virtual void rollback(int n) = 0;
};

}  // namespace quire
