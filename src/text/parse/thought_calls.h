// Calls in thoughts that no mark has ended: models that call at once leave the mark out. What may be such calls waits:
// it is calls where the answer ends with them, and thoughts like the rest where the thoughts go on or end with their
// mark. One thread at a time.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/parse/call_parser.h"

namespace quire {

class ThoughtCalls {
 public:
  // Nothing waits where `rules` are null or let thoughts have no calls, or nothing tells the form's calls from text.
  explicit ThoughtCalls(const std::shared_ptr<const CallRules>& rules);

  // More of the thoughts; appends what is certain.
  void push(std::string_view thought, AnswerParts& out);
  // The thoughts are over: what waits is of them.
  void give_up(AnswerParts& out);
  // What waits, where it is calls and nothing else; empty otherwise. REQUIRES that the answer ends here.
  std::string take_calls();

 private:
  void release(AnswerParts& out);

  std::shared_ptr<const CallRules> rules_;
  std::optional<CallParser> parser_;
  AnswerParts parts_;    // what it made of what waits
  std::string waiting_;  // what it has not made text of
};

}  // namespace quire
