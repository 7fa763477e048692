#include "text/parse/answer_parser.h"

namespace quire {

void AnswerParser::pass_on(AnswerParts& out) {
  for (const AnswerPart& part : split_) {
    if (part.kind == PartKind::text)
      calls_.push(part.text, out);
    else if (!calls_.over())
      out.add(part.kind, part.text);
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
  calls_.finish(out);
}

}  // namespace quire
