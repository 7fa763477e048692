#include "text/parse/answer_parts.h"

#include <algorithm>
#include <utility>

namespace quire {

void AnswerParts::add(PartKind kind, std::string_view text) { add(kind, text, 0); }
void AnswerParts::add_arguments(int call, std::string_view text) { add(PartKind::arguments, text, call); }

void AnswerParts::add(PartKind kind, std::string_view text, int call) {
  if (text.empty()) return;
  if (list_.empty() || list_.back().kind != kind || list_.back().call != call)
    list_.push_back({kind, std::string(text), call});
  else
    list_.back().text += text;
}

void AnswerParts::append(AnswerParts& more) {
  if (list_.empty()) {
    std::swap(list_, more.list_);
    return;
  }
  for (AnswerPart& part : more.list_) {
    if (part.kind == PartKind::call)
      list_.push_back(std::move(part));
    else
      add(part.kind, part.text, part.call);
  }
  more.clear();
}

bool AnswerParts::has(PartKind kind) const {
  return std::any_of(list_.begin(), list_.end(), [kind](const AnswerPart& p) { return p.kind == kind; });
}

std::string AnswerParts::joined(PartKind kind) const {
  std::string out;
  for (const AnswerPart& part : list_)
    if (part.kind == kind) out += part.text;
  return out;
}

int64_t AnswerParts::bytes() const {
  size_t n = 0;
  for (const AnswerPart& part : list_) n += part.text.size();
  return static_cast<int64_t>(n);
}

}  // namespace quire
