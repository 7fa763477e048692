#include "text/parse/marked_arguments.h"

#include <algorithm>
#include <utility>

#include "text/parse/json_span.h"
#include "text/parse/marks.h"

namespace quire {
namespace {

constexpr size_t kKeyBytes = 1024;

}  // namespace

MarkedArguments::MarkedArguments(const CallForm& form, const ArgumentKinds& kinds)
    : form_(form),
      kinds_(kinds),
      key_begin_(without_space(form.key_begin)),
      key_end_(without_space(form.key_end)),
      call_end_(without_space(form.call_end)) {
  for (const JsonKeyEnd& end : json_key_ends(form, kEveryKind)) json_key_ends_.push_back(without_space(end.mark));
}

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
  is_json_ = std::find(json_key_ends_.begin(), json_key_ends_.end(), matched_) != json_key_ends_.end();
  if (matched_ != key_end_ && !is_json_) {
    const auto begins = [&](const std::string& mark) { return mark.starts_with(matched_); };
    const bool goes_on = begins(key_end_) || std::any_of(json_key_ends_.begin(), json_key_ends_.end(), begins);
    return goes_on ? Step::more : Step::broken;
  }
  at_ = At::value;
  matched_.clear();
  key_ = read_key(form_, key_);
  kinds_here_ = kinds_here();
  again_ = told_.contains(key_);
  told_key_ = again_;
  value_.emplace(form_, value_as(form_, kinds_.may_nest(key_), is_json_));
  return Step::more;
}

// Where the mark says what a value is, that counts, and not that the parameters let it be something else, too.
ValueKinds MarkedArguments::kinds_here() const {
  const ValueKinds kinds = kinds_.of(key_);
  if (form_.json_key_end.empty()) return kinds;
  if (is_json_) return kEveryKind;
  return (kinds & kStringKind) != 0 ? kStringKind : kinds;
}

void MarkedArguments::push_value(char c, std::string& json) {
  if (!std::exchange(told_key_, true)) {
    json += told_.empty() ? "{" : ", ";
    append_json_string(json, key_);
    json += kinds_here_ == kStringKind ? ": \"" : ": ";
    told_.insert(key_);
  }
  if (value_->push(c)) return end_value(json);
  if (kinds_here_ == kStringKind && !again_) append_inside_string(json, value_->take_certain());
}

void MarkedArguments::end_value(std::string& json) {
  at_ = At::body;
  if (again_) return;
  const std::string_view value = value_->rest();
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
