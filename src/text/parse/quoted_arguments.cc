#include "text/parse/quoted_arguments.h"

#include "base/json.h"
#include "text/parse/json_span.h"
#include "text/parse/literals.h"

namespace quire {
namespace {

using Step = QuotedArguments::Step;

constexpr std::string_view kNotInKeys = "\"{},<>";

}  // namespace

void QuotedArguments::tell(std::string_view text, std::string& json) {
  if (!again_) json += text;
}

Step QuotedArguments::push(char c, std::string& json) {
  switch (at_) {
    case At::string: return push_string(c, json);
    case At::mark: return push_mark(c, json);
    case At::scalar: return push_scalar(c, json);
    case At::key: return push_key(c, json);
    default: break;
  }
  if (is_json_space(c)) return Step::more;
  if (at_ == At::item) return push_item(c, json);
  return at_ == At::next ? push_next(c, json) : begin_value(c, json);
}

// Behind an opening bracket or a comma.
Step QuotedArguments::push_item(char c, std::string& json) {
  if (c == closers_.back() && first_) return close(c, json);
  token_.clear();
  if (closers_.back() == '}') {
    at_ = At::key;
    return push_key(c, json);
  }
  if (!first_) tell(", ", json);
  return begin_value(c, json);
}

Step QuotedArguments::push_key(char c, std::string& json) {
  if (c != ':') {
    if (static_cast<unsigned char>(c) < 0x20 || kNotInKeys.find(c) != std::string_view::npos) return Step::broken;
    token_ += c;
    return token_.size() <= kTokenBytes ? Step::more : Step::broken;
  }
  while (token_.ends_with(' ')) token_.pop_back();
  if (token_.empty()) return Step::broken;
  const bool argument = closers_.size() == 1, first = argument ? told_.empty() : first_;
  if (argument) again_ = !told_.insert(token_).second;
  if (argument && first) tell("{", json);
  if (!first) tell(", ", json);
  std::string key;
  append_json_string(key, token_);
  tell(key + ": ", json);
  token_.clear();
  at_ = At::value;
  return Step::more;
}

Step QuotedArguments::begin_value(char c, std::string& json) {
  if (c == mark_.front()) {
    token_.clear();
    at_ = At::mark;
    return push_mark(c, json);
  }
  if (c == '[' || c == '{') {
    if (closers_.size() == static_cast<size_t>(kMaxJsonDepth)) return Step::broken;
    closers_ += c == '[' ? ']' : '}';
    first_ = true;
    at_ = At::item;
    tell({&c, 1}, json);
    return Step::more;
  }
  if (!in_scalar(c)) return Step::broken;
  token_.assign(1, c);
  at_ = At::scalar;
  return Step::more;
}

// Behind a value.
Step QuotedArguments::push_next(char c, std::string& json) {
  if (closers_.size() == 1) again_ = false;
  if (c == closers_.back()) return close(c, json);
  if (c != ',') return Step::broken;
  first_ = false;
  at_ = At::item;
  return Step::more;
}

Step QuotedArguments::close(char c, std::string& json) {
  if (closers_.size() == 1) {
    json += told_.empty() ? "{}" : "}";
    return Step::whole;
  }
  tell({&c, 1}, json);
  closers_.pop_back();
  at_ = At::next;
  return Step::more;
}

Step QuotedArguments::push_scalar(char c, std::string& json) {
  if (in_scalar(c)) {
    token_ += c;
    return token_.size() <= kTokenBytes ? Step::more : Step::broken;
  }
  const std::string value = json_scalar(token_);
  if (value.empty()) return Step::broken;
  tell(value, json);
  at_ = At::next;
  return push(c, json);
}

// The mark that begins a string.
Step QuotedArguments::push_mark(char c, std::string& json) {
  token_ += c;
  if (!mark_.starts_with(token_)) return Step::broken;
  if (token_ != mark_) return Step::more;
  token_.clear();
  tell("\"", json);
  at_ = At::string;
  return Step::more;
}

// What may be the beginning of the mark is held back.
Step QuotedArguments::push_string(char c, std::string& json) {
  token_ += c;
  while (!mark_.starts_with(token_)) {
    const char first = token_.front();
    token_.erase(0, 1);
    if (first == '"' || first == '\\')
      tell(std::string{'\\', first}, json);
    else if (static_cast<unsigned char>(first) < 0x20)
      tell(json_escape(static_cast<unsigned char>(first)), json);
    else
      tell({&first, 1}, json);
  }
  if (token_ != mark_) return Step::more;
  token_.clear();
  tell("\"", json);
  at_ = At::next;
  return Step::more;
}

}  // namespace quire
