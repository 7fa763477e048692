#include "text/parse/keyword_arguments.h"

#include <charconv>

#include "base/json.h"
#include "text/parse/json_span.h"
#include "text/parse/literals.h"

namespace quire {
namespace {

using Step = KeywordArguments::Step;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

}  // namespace

void KeywordArguments::tell(std::string_view text, std::string& json) {
  if (!again_) json += text;
}

void KeywordArguments::tell_separator(std::string& json) {
  if (!first_) tell(", ", json);
}

Step KeywordArguments::push(char c, std::string& json) {
  switch (at_) {
    case At::string: return push_string(c, json);
    case At::escape: return push_escape(c, json);
    case At::code: return push_code(c, json);
    case At::octal: return push_octal(c, json);
    case At::scalar: return push_scalar(c, json);
    case At::key: return push_key(c, json);
    default: break;
  }
  if (is_json_space(c)) return Step::more;
  if (at_ == At::item) return push_item(c, json);
  if (at_ == At::next) return push_next(c, json);
  if (at_ == At::value) return begin_value(c, json);
  if (c != ':') return Step::broken;
  tell(": ", json);
  at_ = At::value;
  return Step::more;
}

// Behind an opening bracket or a comma.
Step KeywordArguments::push_item(char c, std::string& json) {
  if (c == closers_.back()) return close(c, json);
  token_.clear();
  if (closers_.back() == ')') {
    at_ = At::key;
    return push_key(c, json);
  }
  dict_key_ = closers_.back() == '}';
  if (dict_key_ && c != '"' && c != '\'') return Step::broken;
  tell_separator(json);
  return begin_value(c, json);
}

Step KeywordArguments::push_key(char c, std::string& json) {
  if (c != '=') {
    if (static_cast<unsigned char>(c) < 0x20 || kNotInKeywords.find(c) != std::string_view::npos) return Step::broken;
    token_ += c;
    return token_.size() <= kKeywordBytes ? Step::more : Step::broken;
  }
  while (token_.ends_with(' ')) token_.pop_back();
  if (token_.empty()) return Step::broken;
  const bool first = told_.empty();
  again_ = !told_.insert(token_).second;
  tell(first ? "{" : ", ", json);
  if (!again_) append_json_string(json, token_);
  tell(": ", json);
  at_ = At::value;
  return Step::more;
}

Step KeywordArguments::begin_value(char c, std::string& json) {
  if (c == '"' || c == '\'') {
    quote_ = c;
    at_ = At::string;
    tell("\"", json);
    return Step::more;
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
Step KeywordArguments::push_next(char c, std::string& json) {
  if (closers_.size() == 1) again_ = false;
  if (c == closers_.back()) return close(c, json);
  if (c != ',') return Step::broken;
  first_ = false;
  at_ = At::item;
  return Step::more;
}

Step KeywordArguments::close(char c, std::string& json) {
  if (c == ')') {
    json += told_.empty() ? "{}" : "}";
    return Step::whole;
  }
  tell({&c, 1}, json);
  closers_.pop_back();
  at_ = At::next;
  return Step::more;
}

Step KeywordArguments::push_scalar(char c, std::string& json) {
  if (in_scalar(c)) {
    token_ += c;
    return token_.size() <= kKeywordBytes ? Step::more : Step::broken;
  }
  const std::string value = json_scalar(token_);
  if (value.empty()) return Step::broken;
  tell(value, json);
  at_ = At::next;
  return push(c, json);
}

Step KeywordArguments::push_string(char c, std::string& json) {
  at_ = At::string;
  if (c == quote_) {
    tell("\"", json);
    at_ = dict_key_ ? At::colon : At::next;
    dict_key_ = false;
  } else if (c == '\\') {
    at_ = At::escape;
  } else if (c == '"') {
    tell("\\\"", json);
  } else if (static_cast<unsigned char>(c) < 0x20) {
    tell(json_escape(static_cast<unsigned char>(c)), json);
  } else {
    tell({&c, 1}, json);
  }
  return Step::more;
}

// Escapes of Python and of JSON; before anything else a backslash is one.
Step KeywordArguments::push_escape(char c, std::string& json) {
  at_ = At::string;
  token_.clear();
  switch (c) {
    case 'n':
    case 't':
    case 'r':
    case 'b':
    case 'f':
    case '"':
    case '\\': tell(std::string{'\\', c}, json); return Step::more;
    case '\'':
    case '/': tell({&c, 1}, json); return Step::more;
    case 'a': tell(json_escape('\a'), json); return Step::more;
    case 'v': tell(json_escape('\v'), json); return Step::more;
    case '\n': return Step::more;
    case 'x':
    case 'u':
    case 'U':
      code_digits_ = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      at_ = At::code;
      return Step::more;
    default: break;
  }
  if (c >= '0' && c <= '7') {
    at_ = At::octal;
    return push_octal(c, json);
  }
  tell("\\\\", json);
  return push_string(c, json);
}

// Half a pair of surrogates stays one, as in JSON: the other half may come.
Step KeywordArguments::push_code(char c, std::string& json) {
  if (!is_hex(c)) return Step::broken;
  token_ += c;
  if (token_.size() < code_digits_) return Step::more;
  uint32_t code = 0;
  std::from_chars(token_.data(), token_.data() + token_.size(), code, 16);
  if (code > 0x10FFFF || (code_digits_ == 8 && code >= 0xD800 && code < 0xE000)) return Step::broken;
  tell(json_escape(code), json);
  at_ = At::string;
  return Step::more;
}

Step KeywordArguments::push_octal(char c, std::string& json) {
  const bool digit = c >= '0' && c <= '7';
  if (digit) token_ += c;
  if (digit && token_.size() < 3) return Step::more;
  uint32_t code = 0;
  std::from_chars(token_.data(), token_.data() + token_.size(), code, 8);
  tell(json_escape(code), json);
  at_ = At::string;
  return digit ? Step::more : push_string(c, json);
}

}  // namespace quire
