#include "text/parse/json_span.h"

#include <algorithm>
#include <iterator>

#include "base/json.h"

namespace quire {

std::string without_space(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return !is_json_space(c); });
  return out;
}

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
