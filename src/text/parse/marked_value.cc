#include "text/parse/marked_value.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "text/parse/json_span.h"
#include "text/parse/marks.h"

namespace quire {
namespace {

bool opens_part(char c) { return c == '[' || c == '{' || c == ',' || c == ':'; }

}  // namespace

// The automaton of step_json, outside of strings. A string begins behind [, {, a comma or a colon; a quote behind
// anything else shows that the text is no JSON.
const std::string_view kEitherPattern =
    R"re([ \t\r\n]*(?:[\[{](?:[\[{,: \t\r\n]*(?:[^\[{,: \t\r\n"]|"(?:[^"\\]|\\[\s\S])*")[^\[{,:"]*[\[{,:])*[\[{,: \t\r\n]*)re"
    R"re((?:(?:[^\[{,: \t\r\n"]|"(?:[^"\\]|\\[\s\S])*")[^\[{,:"]*(?:"[\s\S]*)?)?|[^\[{ \t\r\n][\s\S]*)?)re";

MarkedValue::MarkedValue(const CallForm& form, As as)
    : form_(form),
      in_(as == As::text   ? In::text
          : as == As::json ? In::open
                           : In::begin) {}

void MarkedValue::step_json(char c) {
  switch (in_) {
    case In::text: return;
    case In::escape: in_ = In::string; return;
    case In::string:
      if (c == '\\') in_ = In::escape;
      if (c == '"') in_ = In::part;
      return;
    case In::begin:
      if (!is_json_space(c)) in_ = c == '[' || c == '{' ? In::open : In::text;
      return;
    case In::open:
      if (c == '"')
        in_ = In::string;
      else if (!is_json_space(c) && !opens_part(c))
        in_ = In::part;
      return;
    case In::part:
      if (c == '"')
        in_ = In::text;
      else if (opens_part(c))
        in_ = In::open;
      return;
  }
}

bool MarkedValue::push(char c) {
  if (std::exchange(first_, false) && form_.padded && c == '\n') return false;
  text_ += c;
  if (at_begin_ && text_ == form_.wrap_begin) {
    at_begin_ = false;
    wrapped_ = true;
    text_.clear();
    return false;
  }
  at_begin_ = at_begin_ && form_.wrap_begin.starts_with(text_);
  if (wrapped_) return ends_wrapped(c);
  step_json(c);
  return in_ != In::string && in_ != In::escape && text_.ends_with(form_.value_end);
}

// wrap_end, white space, value_end.
bool MarkedValue::ends_wrapped(char c) {
  if (wrap_at_ != std::string::npos) {
    if (end_.empty() && is_json_space(c)) return false;
    end_ += c;
    if (form_.value_end.starts_with(end_)) return end_ == form_.value_end;
    wrap_at_ = std::string::npos;
    end_.clear();
  }
  if (text_.ends_with(form_.wrap_end)) wrap_at_ = text_.size() - form_.wrap_end.size();
  return false;
}

std::string_view MarkedValue::rest() const {
  std::string_view out(text_);
  if (wrapped_) return out.substr(0, wrap_at_);
  out.remove_suffix(form_.value_end.size());
  if (form_.padded && out.ends_with('\n')) out.remove_suffix(1);
  return out;
}

size_t MarkedValue::held_bytes() const {
  if (at_begin_) return text_.size();
  if (wrap_at_ != std::string::npos) return text_.size() - wrap_at_;
  const size_t n = quire::held_bytes(text_, wrapped_ ? form_.wrap_end : form_.value_end);
  return form_.padded && std::string_view(text_).substr(0, text_.size() - n).ends_with('\n') ? n + 1 : n;
}

std::string MarkedValue::take_certain() {
  std::string out = text_.substr(0, text_.size() - held_bytes());
  text_.erase(0, out.size());
  if (wrap_at_ != std::string::npos) wrap_at_ -= out.size();
  return out;
}

std::vector<JsonKeyEnd> json_key_ends(const CallForm& form, ValueKinds kinds) {
  struct Type {
    std::string_view name;
    ValueKinds kinds;
  };
  static constexpr std::array<Type, 5> kTypes{{{"number", kIntegerKind | kFractionKind},
                                               {"boolean", kBoolKind},
                                               {"null", kNullKind},
                                               {"object", kObjectKind},
                                               {"array", kArrayKind}}};
  const std::string_view all = form.json_key_end;
  if (all.empty()) return {};
  const size_t at = all.find('*');
  if (at == std::string_view::npos) return {{std::string(all)}};
  std::vector<JsonKeyEnd> out;
  for (const Type& type : kTypes) {
    if ((type.kinds & kinds) == 0) continue;
    out.push_back({std::string(all).replace(at, 1, type.name), static_cast<ValueKinds>(type.kinds & kinds)});
  }
  return out;
}

constexpr std::pair<std::string_view, char> kEntities[] = {{"&quot;", '"'}, {"&amp;", '&'}};

std::string written_key(const CallForm& form, std::string_view key) {
  std::string out;
  for (const char c : key) {
    const auto* const found = std::find_if(std::begin(kEntities), std::end(kEntities),
                                           [&](const auto& e) { return form.entities && e.second == c; });
    found != std::end(kEntities) ? out.append(found->first) : out += c;
  }
  return out;
}

std::string read_key(const CallForm& form, std::string_view written) {
  std::string out;
  while (!written.empty()) {
    const auto* const found = std::find_if(std::begin(kEntities), std::end(kEntities), [&](const auto& e) {
      return form.entities && written.starts_with(e.first);
    });
    const bool is_entity = found != std::end(kEntities);
    out += is_entity ? found->second : written[0];
    written.remove_prefix(is_entity ? found->first.size() : 1);
  }
  return out;
}

MarkedValue::As value_as(const CallForm& form, bool may_nest, bool is_json) {
  if (is_json) return MarkedValue::As::json;
  return may_nest && form.json_key_end.empty() ? MarkedValue::As::either : MarkedValue::As::text;
}

bool fits_marks(const CallForm& form, MarkedValue::As as, std::string_view text) {
  MarkedValue value(form, as);
  const std::string line = form.padded ? "\n" : "";
  const std::string whole = line + std::string(text) + line + std::string(form.value_end);
  for (size_t i = 0; i < whole.size(); ++i)
    if (value.push(whole[i])) return i + 1 == whole.size() && value.rest() == text;
  return false;
}

}  // namespace quire
