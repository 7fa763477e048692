#include "text/parse/tagged_arguments.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "text/parse/json_span.h"
#include "text/parse/marks.h"

namespace quire {
namespace {

using Step = TaggedArguments::Step;

constexpr size_t kTagBytes = 1024;

// Whether JSON that stands in `n_around` objects or lists is no deeper with them than JSON may be.
bool fits_depth(std::string_view text, size_t n_around) {
  auto depth = static_cast<int64_t>(n_around), deepest = depth;
  bool in_string = false, escaped = false;
  for (const char c : text) {
    if (std::exchange(escaped, false)) continue;
    escaped = in_string && c == '\\';
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest <= kMaxJsonDepth;
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

bool is_blank(std::string_view text) { return std::all_of(text.begin(), text.end(), is_json_space); }

}  // namespace

TaggedArguments::TaggedArguments(const CallForm& form, const ArgumentKinds& kinds)
    : form_(form), root_(kinds.schema()) {
  Element arguments;
  arguments.schema = root_;
  arguments.holds = Element::Holds::object;
  open_.push_back(std::move(arguments));
}

void TaggedArguments::tell(const Element& element, std::string_view text, std::string& json) {
  if (!element.mute) json += text;
}

Step TaggedArguments::push(char c, std::string& json) {
  if (in_tag_) {
    tag_ += c;
    if (c == '>') return push_tag(json);
    return tag_[0] == '<' && tag_.size() < kTagBytes ? Step::more : Step::broken;
  }
  text_ += c;
  if (text_.ends_with(form_.tag_mark)) {
    text_.resize(text_.size() - form_.tag_mark.size());
    in_tag_ = true;
    tag_.clear();
    return Step::more;
  }
  const Element& top = open_.back();
  const size_t n = text_.size() - held_bytes(text_, form_.tag_mark);
  while (n_blank_ < n && is_json_space(text_[n_blank_])) ++n_blank_;
  if (open_.size() == 1) return n_blank_ == n ? Step::more : Step::broken;
  const bool begun = top.holds == Element::Holds::text || (top.holds == Element::Holds::nothing && n_blank_ < n);
  if (begun && top.kinds == kStringKind) tell_text(n, json);
  return Step::more;
}

// Of a string, once there is more than white space, which may stand in front of an element.
void TaggedArguments::tell_text(size_t n, std::string& json) {
  Element& top = open_.back();
  if (std::exchange(top.holds, Element::Holds::text) == Element::Holds::nothing) tell(top, "\"", json);
  if (!top.mute) append_inside_string(json, std::string_view(text_).substr(0, n));
  text_.erase(0, n);
  n_blank_ = 0;
}

Step TaggedArguments::push_tag(std::string& json) {
  in_tag_ = false;
  const bool closes = tag_.starts_with("</");
  if (closes && open_.size() == 1) {
    if (form_.call_end.substr(form_.tag_mark.size()) != tag_ || !is_blank(text_)) return Step::broken;
    json += open_[0].told.empty() ? "{}" : "}";
    return Step::whole;
  }
  const Step step = closes ? close(json) : open(tag_.substr(1, tag_.size() - 2), json);
  text_.clear();
  n_blank_ = 0;
  return step;
}

TaggedArguments::Element TaggedArguments::inner(const Element& outer, const std::string& name) const {
  Element out;
  if (outer.schema == nullptr) return out;
  const Json& schema = resolved(*outer.schema, *root_);
  const auto part = [](const Json* of, std::string_view key) { return of != nullptr ? of->find(key) : nullptr; };
  if (outer.holds == Element::Holds::list) {
    out.schema = part(&schema, "items");
  } else {
    out.schema = part(part(&schema, "properties"), name);
    if (out.schema == nullptr) out.schema = part(&schema, "additionalProperties");
  }
  if (out.schema != nullptr) out.kinds = kinds_of(*out.schema, *root_);
  return out;
}

// The first element in one that held nothing says what that is.
bool TaggedArguments::begin_inner(const std::string& name, std::string& json) {
  Element& top = open_.back();
  if (top.holds == Element::Holds::text || !is_blank(text_)) return false;
  if (top.holds != Element::Holds::nothing) return true;
  const Json* schema = top.schema != nullptr ? &resolved(*top.schema, *root_) : nullptr;
  const Json* properties = schema != nullptr ? schema->find("properties") : nullptr;
  const bool is_property = properties != nullptr && properties->find(name) != nullptr;
  const bool only_object = (top.kinds & kObjectKind) != 0 && (top.kinds & kArrayKind) == 0;
  top.holds = name == kListItem && !is_property && !only_object ? Element::Holds::list : Element::Holds::object;
  tell(top, top.holds == Element::Holds::list ? "[" : "{", json);
  return true;
}

Step TaggedArguments::open(const std::string& name, std::string& json) {
  if (name.empty() || open_.size() > static_cast<size_t>(kMaxJsonDepth) || !begin_inner(name, json))
    return Step::broken;
  Element& top = open_.back();
  Element next = inner(top, name);
  next.mute = top.mute;
  if (top.holds == Element::Holds::list) {
    if (std::exchange(top.any, true)) tell(top, ", ", json);
  } else {
    const bool first = top.told.empty();
    if (!top.told.insert(name).second) {
      next.mute = true;
    } else {
      if (first && open_.size() == 1) tell(top, "{", json);
      std::string key = first ? "" : ", ";
      append_json_string(key, name);
      tell(top, key + ": ", json);
    }
  }
  open_.push_back(std::move(next));
  return Step::more;
}

Step TaggedArguments::close(std::string& json) {
  Element& top = open_.back();
  switch (top.holds) {
    case Element::Holds::text:
      if (!top.mute) append_inside_string(json, text_);
      tell(top, "\"", json);
      break;
    case Element::Holds::nothing: {
      const bool empty = text_.empty() && (top.kinds & kStringKind) == 0;
      if (empty && (top.kinds & (kObjectKind | kArrayKind)) != 0)
        tell(top, (top.kinds & kObjectKind) != 0 ? "{}" : "[]", json);
      else
        tell(top, fits_depth(text_, open_.size() - 1) ? json_of_value(top.kinds, text_) : json_string(text_), json);
      break;
    }
    case Element::Holds::object:
    case Element::Holds::list:
      if (!is_blank(text_)) return Step::broken;
      tell(top, top.holds == Element::Holds::list ? "]" : "}", json);
      break;
  }
  open_.pop_back();
  return Step::more;
}

}  // namespace quire
