#include "text/parse/thought_calls.h"

#include <utility>

namespace quire {

ThoughtCalls::ThoughtCalls(const std::shared_ptr<const CallRules>& rules) {
  if (rules == nullptr || rules->form == nullptr || !rules->in_thoughts) return;
  if (rules->form->trigger.empty() || rules->form->channels) return;
  CallRules own = *rules;
  own.only_one = own.bare = false;
  rules_ = std::make_shared<const CallRules>(std::move(own));
  parser_.emplace(rules_);
}

void ThoughtCalls::push(std::string_view thought, AnswerParts& out) {
  if (!parser_) return out.add(PartKind::reasoning, thought);
  for (const char c : thought) {
    waiting_ += c;
    parser_->push({&c, 1}, parts_);
    const bool is_text = parts_.has(PartKind::text);
    parts_.clear();
    if (!is_text) continue;
    const std::string open = waiting_.substr(waiting_.size() - parser_->open_bytes());  // may begin a call
    waiting_.resize(waiting_.size() - open.size());
    release(out);
    if (parser_->n_calls() == 0) {
      waiting_ = open;
    } else {
      parser_.emplace(rules_);
      push(open, out);
    }
  }
}

void ThoughtCalls::release(AnswerParts& out) {
  out.add(PartKind::reasoning, waiting_);
  waiting_.clear();
}

void ThoughtCalls::give_up(AnswerParts& out) {
  if (waiting_.empty()) return;
  release(out);
  parser_.emplace(rules_);
}

std::string ThoughtCalls::take_calls() {
  if (!parser_ || !parser_->ends_whole()) return "";
  return std::exchange(waiting_, {});
}

}  // namespace quire
