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

// Byte by byte: whether the next one may begin a mark depends on what the calls have made of the last.
void AnswerParser::push(std::string_view text, AnswerParts& out) {
  for (const char c : text) {
    splitter_.push({&c, 1}, split_);
    if (splitter_.at_mark()) calls_.end_piece(out);  // what it passes on with a mark stands behind it
    pass_on(out);
    splitter_.in_string(calls_.in_string());
  }
}

void AnswerParser::finish(AnswerParts& out) {
  splitter_.finish(split_);
  pass_on(out);
  if (splitter_.inside()) calls_.push(thought_calls_.take_calls(), out);
  thought_calls_.give_up(out);
  calls_.finish(out);
}

}  // namespace quire
