#include "text/parse/marked_arguments.h"

#include <algorithm>

#include "text/parse/json_span.h"

namespace quire {
namespace {

constexpr size_t kKeyBytes = 1024;

// How much of the end of `text` may be the beginning of `mark`.
size_t begun(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(text.size(), mark.size()); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return 0;
}

// Bytes at the end of `text` that are no whole character yet.
size_t cut_bytes(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(text.size(), 3); ++n) {
    const auto c = static_cast<unsigned char>(text[text.size() - n]);
    if ((c & 0xC0U) == 0x80U) continue;
    const size_t wanted = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    return wanted > n ? n : 0;
  }
  return 0;
}

void append_inside_string(std::string& json, std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  json.append(quoted, 1, quoted.size() - 2);
}

}  // namespace

MarkedArguments::MarkedArguments(const CallForm& form, const ArgumentKinds& kinds)
    : form_(form),
      kinds_(kinds),
      key_begin_(without_space(form.key_begin)),
      key_end_(without_space(form.key_end)),
      json_key_end_(without_space(form.json_key_end)),
      call_end_(without_space(form.call_end)),
      wrap_end_(std::string(form.wrap_end) + std::string(form.value_end)) {}

MarkedArguments::Step MarkedArguments::push(char c, std::string& json) {
  switch (at_) {
    case At::body: return push_body(c, json);
    case At::key: return push_key(c);
    case At::key_end: return push_key_end(c);
    case At::value: break;
  }
  push_value(c, json);
  return Step::more;
}

MarkedArguments::Step MarkedArguments::push_body(char c, std::string& json) {
  if (is_json_space(c)) return Step::more;
  matched_ += c;
  if (matched_ == call_end_) {
    json += told_.empty() ? "{}" : "}";
    return Step::whole;
  }
  if (matched_ == key_begin_) {
    at_ = At::key;
    key_.clear();
    matched_.clear();
    return Step::more;
  }
  return key_begin_.starts_with(matched_) || call_end_.starts_with(matched_) ? Step::more : Step::broken;
}

MarkedArguments::Step MarkedArguments::push_key(char c) {
  if (c == key_end_[0]) {
    at_ = At::key_end;
    return push_key_end(c);
  }
  key_ += c;
  return key_.size() < kKeyBytes ? Step::more : Step::broken;
}

MarkedArguments::Step MarkedArguments::push_key_end(char c) {
  if (is_json_space(c)) return Step::more;
  matched_ += c;
  is_json_ = matched_ == json_key_end_;
  if (matched_ != key_end_ && !is_json_)
    return key_end_.starts_with(matched_) || json_key_end_.starts_with(matched_) ? Step::more : Step::broken;
  at_ = At::value;
  matched_.clear();
  value_.clear();
  first_ = at_begin_ = true;
  wrapped_ = false;
  kinds_here_ = kinds_here();
  again_ = std::find(told_.begin(), told_.end(), key_) != told_.end();
  return Step::more;
}

// Where the mark says what a value is, that counts, and not that the parameters let it be something else, too.
ValueKinds MarkedArguments::kinds_here() const {
  const ValueKinds kinds = kinds_.of(key_);
  if (form_.json_key_end.empty()) return kinds;
  if (is_json_) return kEveryKind;
  return (kinds & kStringKind) != 0 ? kStringKind : kinds;
}

// Of the end of a string that has begun: what may belong to its end mark, or is no whole character yet.
size_t MarkedArguments::held_bytes() const {
  const size_t n = begun(value_, value_end());
  const std::string_view before = std::string_view(value_).substr(0, value_.size() - n);
  if (form_.padded && before.ends_with('\n')) return n + 1;
  return n > 0 ? n : cut_bytes(value_);
}

void MarkedArguments::push_value(char c, std::string& json) {
  const bool pad = first_ && form_.padded && c == '\n';
  if (first_ && !again_) {
    json += told_.empty() ? "{" : ", ";
    append_json_string(json, key_);
    json += kinds_here_ == kStringKind ? ": \"" : ": ";
    told_.push_back(key_);
  }
  first_ = false;
  if (pad) return;
  value_ += c;
  if (at_begin_ && value_ == form_.wrap_begin) {
    wrapped_ = true;
    value_.clear();
  }
  at_begin_ = at_begin_ && !wrapped_ && form_.wrap_begin.starts_with(value_);
  if (at_begin_) return;
  if (value_.ends_with(value_end())) return end_value(json);
  if (kinds_here_ != kStringKind || again_) return;
  const size_t n_free = value_.size() - held_bytes();
  append_inside_string(json, std::string_view(value_).substr(0, n_free));
  value_.erase(0, n_free);
}

void MarkedArguments::end_value(std::string& json) {
  at_ = At::body;
  std::string_view value = value_;
  value.remove_suffix(value_end().size());
  if (form_.padded && value.ends_with('\n')) value.remove_suffix(1);
  if (again_) return;
  if (kinds_here_ == kStringKind) {
    append_inside_string(json, value);
    json += '"';
  } else if (is_json_ && Json::parse(value)) {
    json += value;
  } else {
    json += json_of_value(kinds_here_, value);
  }
}

}  // namespace quire
