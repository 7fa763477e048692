// An answer that is calls and nothing else, without the marks that the model was asked to put around them: objects of a
// name and arguments, one behind another. Models that know a form only from the prompt write so. Whether it is one
// shows at its end only. One thread at a time.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/parse/call_item.h"

namespace quire {

class BareCalls {
 public:
  struct Call {
    std::string name, arguments;
  };

  // `rules` have a form, whose calls are objects, and outlive it.
  explicit BareCalls(const CallRules& rules) : rules_(rules) {}

  // The next byte. False: the answer is no such calls.
  bool push(char c);
  // Whether it is some if no byte follows.
  bool whole() const { return !item_ && !calls_.empty(); }
  const std::vector<Call>& calls() const { return calls_; }

 private:
  const CallRules& rules_;
  std::optional<CallItem> item_;  // the one that is read
  std::vector<Call> calls_;
};

}  // namespace quire
