#include "text/parse/json_span.h"

#include <string_view>

#include "base/json.h"

namespace quire {

JsonSpan::Step JsonSpan::push(char c) {
  constexpr std::string_view kScalar = "+-.0123456789truefalsnEI";
  if (in_string_) {
    if (escaped_ || c == '\\') {
      escaped_ = !escaped_;
      return Step::more;
    }
    in_string_ = c != '"';
    return !in_string_ && closers_.empty() ? Step::whole : Step::more;
  }
  if (scalar_) {
    if (is_json_space(c) || c == ',' || c == '}' || c == ']') return Step::past;
    return kScalar.find(c) != std::string_view::npos ? Step::more : Step::broken;
  }
  if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    if (closers_.size() == static_cast<size_t>(kMaxJsonDepth)) return Step::broken;
    closers_ += c == '{' ? '}' : ']';
  } else if (c == '}' || c == ']') {
    if (closers_.empty() || closers_.back() != c) return Step::broken;
    closers_.pop_back();
    return closers_.empty() ? Step::whole : Step::more;
  } else if (closers_.empty()) {
    scalar_ = kScalar.find(c) != std::string_view::npos;
    return scalar_ ? Step::more : Step::broken;
  }
  return Step::more;
}

}  // namespace quire
