#include "text/parse/answer_parser.h"

namespace quire {

void AnswerParser::pass_on(AnswerParts& out) {
  for (const AnswerPart& part : split_) {
    if (calls_.over()) break;
    if (part.kind == PartKind::reasoning) {
      thought_calls_.push(part.text, out);
      continue;
    }
    thought_calls_.give_up(out);
    calls_.push(part.text, out);
  }
  split_.clear();
}

void AnswerParser::push(std::string_view text, AnswerParts& out) {
  splitter_.push(text, split_);
  pass_on(out);
}

void AnswerParser::finish(AnswerParts& out) {
  splitter_.finish(split_);
  pass_on(out);
  if (splitter_.inside()) calls_.push(thought_calls_.take_calls(), out);
  thought_calls_.give_up(out);
  calls_.finish(out);
}

}  // namespace quire
