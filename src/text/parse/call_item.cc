#include "text/parse/call_item.h"

#include <algorithm>

#include "base/json.h"

namespace quire {
namespace {

constexpr size_t kNameBytes = 1024;  // with what stands beside it

}  // namespace

bool CallItem::know_name(std::string_view name) {
  const auto found = std::find(rules_.names.begin(), rules_.names.end(), name);
  calls_nothing_ = found == rules_.names.end() && !form_.no_tool.empty() && name == form_.no_tool;
  has_name_ = calls_nothing_ || found != rules_.names.end();
  if (!has_name_) return false;
  name_ = name;
  static const ArgumentKinds kAny;
  const auto i = static_cast<size_t>(found - rules_.names.begin());
  const ArgumentKinds& kinds = i < rules_.kinds.size() ? rules_.kinds[i] : kAny;
  if (form_.marked()) marked_.emplace(form_, kinds);
  if (form_.tagged()) tagged_.emplace(form_, kinds);
  return true;
}

// Whether keys and the name are as the grammar of calls spells them, so that nothing else is taken for them.
bool CallItem::is_spelled_out() const { return form_.trigger.empty() && (exact_ || !has_name_); }

// token_ is a JSON string.
bool CallItem::know_json_name() {
  const auto name = Json::parse(token_);
  if (!name || name->as_string() == nullptr || (is_spelled_out() && name->dump() != token_)) return false;
  return know_name(*name->as_string());
}

CallItem::Step CallItem::push(char c) {
  if (at_ == At::in_arguments) return push_arguments(c);
  if (at_ == At::in_marked) return push_marked(c);
  if (at_ == At::in_keywords) return push_keywords(c);
  if (at_ == At::in_quoted) return push_quoted(c);
  if (at_ == At::in_tagged) return push_tagged(c);
  return form_.objects() ? push_object(c) : push_named(c);
}

bool CallItem::in_string() const {
  switch (at_) {
    case At::in_arguments: return span_.in_string();
    case At::in_marked: return marked_->in_value();
    case At::in_keywords: return keywords_.in_string();
    case At::in_quoted: return quoted_.in_string();
    case At::in_tagged: return tagged_->in_text();
    default: return false;
  }
}

CallItem::Step CallItem::push_arguments(char c) {
  const JsonSpan::Step step = span_.push(c);
  if (step == JsonSpan::Step::broken) return Step::broken;
  arguments_ += c;
  certain_ = has_name_ && !exact_;
  if (step != JsonSpan::Step::whole) return Step::more;
  has_arguments_ = true;
  at_ = At::next;
  return form_.objects() ? Step::more : Step::whole;
}

CallItem::Step CallItem::push_object(char c) {
  if (at_ == At::in_key || at_ == At::in_name || at_ == At::in_other) return push_value(c);
  if (is_json_space(c)) return Step::more;
  switch (at_) {
    case At::open: at_ = At::key; return c == '{' ? Step::more : Step::broken;
    case At::key:
      if (c != '"') return Step::broken;
      at_ = At::in_key;
      span_ = {};
      token_.clear();
      return push_value(c);
    case At::colon: at_ = At::value; return c == ':' ? Step::more : Step::broken;
    case At::value:
      span_ = {};
      if (token_ == form_.arguments_key) {
        at_ = At::in_arguments;
        return c == '{' && !has_arguments_ ? push_arguments(c) : Step::broken;
      }
      at_ = token_ == form_.name_key ? At::in_name : At::in_other;
      token_.clear();
      return at_ == At::in_name && (c != '"' || has_name_) ? Step::broken : push_value(c);
    case At::next:
      if (c == ',') at_ = At::key;
      if (c == ',') return Step::more;
      return c == '}' ? end_object() : Step::broken;
    default: return Step::broken;
  }
}

// What may stand before the name is known; where no mark tells a call, its type at most.
bool CallItem::is_out_of_place(std::string_view key) {
  if (exact_) return has_arguments_ || key != (has_name_ ? form_.arguments_key : form_.name_key);
  if (!form_.trigger.empty() || has_name_ || key == form_.name_key) return false;
  return key != "type" || std::exchange(has_type_, true);
}

// A key, the name, or a value that says nothing here.
CallItem::Step CallItem::push_value(char c) {
  const JsonSpan::Step step = span_.push(c);
  if (step == JsonSpan::Step::broken) return Step::broken;
  if (step == JsonSpan::Step::past) {
    at_ = At::next;
    return push_object(c);
  }
  if (at_ != At::in_other)
    token_ += c;
  else if (is_spelled_out() && (c == '\\' || (c != '"' && !span_.in_string())))
    return Step::broken;
  if (step != JsonSpan::Step::whole) return Step::more;
  if (at_ == At::in_key) {
    const auto key = Json::parse(token_);
    if (!key || key->as_string() == nullptr || (is_spelled_out() && key->dump() != token_)) return Step::broken;
    token_ = *key->as_string();
    at_ = At::colon;
    return is_out_of_place(token_) ? Step::broken : Step::more;
  }
  if (at_ == At::in_name && !know_json_name()) return Step::broken;
  certain_ = certain_ || (has_name_ && has_arguments_);
  at_ = At::next;
  return Step::more;
}

// Without arguments a call has none.
CallItem::Step CallItem::end_object() {
  if (!has_name_ || (exact_ && !has_arguments_)) return Step::broken;
  if (!has_arguments_) arguments_ = "{}";
  certain_ = true;
  return Step::whole;
}

// What ends a name, without the white space behind it.
std::string_view CallItem::name_end() const {
  std::string_view end = form_.name_end;
  while (end.size() > 1 && is_json_space(end.back())) end.remove_suffix(1);
  return end;
}

// `next` comes behind it.
CallItem::Step CallItem::end_name(std::string_view name, char next) {
  if (!form_.id_mark.empty()) name = name.substr(0, name.find(form_.id_mark));
  while (!name.empty() && is_json_space(name.back())) name.remove_suffix(1);
  if (!know_name(name)) return Step::broken;
  certain_ =
      form_.quoted();  // prose may name a tool behind a mark: of marked calls the first argument or the end tells
  at_ = form_.marked()   ? At::in_marked
        : form_.keywords ? At::in_keywords
        : form_.quoted() ? At::in_quoted
        : form_.tagged() ? At::in_tagged
                         : At::value;
  return push(next);
}

CallItem::Step CallItem::push_marked(char c) {
  const MarkedArguments::Step step = marked_->push(c, arguments_);
  certain_ = certain_ || step == MarkedArguments::Step::whole || !arguments_.empty();
  if (step == MarkedArguments::Step::more) return Step::more;
  return step == MarkedArguments::Step::whole ? Step::whole : Step::broken;
}

// Where no mark tells a call, text behind a bracket is no call as soon as its first key is none.
CallItem::Step CallItem::push_keywords(char c) {
  const KeywordArguments::Step step = keywords_.push(c, arguments_);
  if (step == KeywordArguments::Step::broken) return Step::broken;
  const bool whole = step == KeywordArguments::Step::whole;
  certain_ = certain_ || whole || (!exact_ && !arguments_.empty());
  return whole ? Step::whole : Step::more;
}

CallItem::Step CallItem::push_quoted(char c) {
  const QuotedArguments::Step step = quoted_.push(c, arguments_);
  if (step == QuotedArguments::Step::more) return Step::more;
  return step == QuotedArguments::Step::whole ? Step::whole : Step::broken;
}

CallItem::Step CallItem::push_tagged(char c) {
  const TaggedArguments::Step step = tagged_->push(c, arguments_);
  certain_ = certain_ || step == TaggedArguments::Step::whole || !arguments_.empty();
  if (step == TaggedArguments::Step::more) return Step::more;
  return step == TaggedArguments::Step::whole ? Step::whole : Step::broken;
}

// Of calls with no mark, or one that text may hold: text that begins like one need not wait for more.
bool CallItem::may_become_name() const {
  std::string_view begun = token_;
  if (form_.said.empty()) {
    while (!begun.empty() && is_json_space(begun.back())) begun.remove_suffix(1);
  } else if (form_.said.starts_with(begun)) {
    return true;
  }
  return std::any_of(rules_.names.begin(), rules_.names.end(), [&](const auto& n) { return n.starts_with(begun); });
}

CallItem::Step CallItem::push_named(char c) {
  const bool space = is_json_space(c);
  switch (at_) {
    case At::open:
      if (space && form_.said.empty()) return Step::more;
      at_ = At::name;
      return push_named(c);
    case At::name: {
      // Where only white space ends a name, a mark does, too.
      if (form_.marked() && c == form_.call_end[0] && is_json_space(form_.name_end[0])) return end_name(token_, c);
      token_ += c;
      const std::string_view end = name_end();
      if (!token_.ends_with(end)) {
        const bool goes_on =
            token_.size() < kNameBytes && ((!form_.keywords && form_.said.empty()) || may_become_name());
        return goes_on ? Step::more : Step::broken;
      }
      std::string_view name(token_);
      name.remove_suffix(end.size());
      return end_name(name, ' ');
    }
    case At::value:
      if (space) return Step::more;
      if (c != '{') return Step::broken;
      at_ = At::in_arguments;
      span_ = {};
      return push_arguments(c);
    default: return Step::broken;
  }
}

}  // namespace quire
