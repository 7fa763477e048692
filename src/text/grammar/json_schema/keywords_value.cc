// Keywords about types, listed values, numbers and strings; see tableau.h.
#include <algorithm>

#include "text/grammar/json_schema/tableau.h"

namespace quire::grammar {

Status Tableau::type(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  static constexpr struct {
    std::string_view name;
    Types types;
  } kNames[] = {{"null", kNull},     {"boolean", kTrue | kFalse}, {"number", kNumber}, {"integer", kNumber},
                {"string", kString}, {"array", kArray},           {"object", kObject}};
  Types types = 0;
  bool number = false, integer = false;
  const auto add = [&](const Json& name) -> Status {
    QR_TRY(const std::string* text, c_.string_of(todo.schema, "type", name));
    if (*text == "any" && c_.document.draft() == Draft::draft7) {  // draft 3
      types = kAllTypes, number = true;
      return {};
    }
    const auto* it = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) { return n.name == *text; });
    if (it == std::end(kNames)) {
      return c_.document.error(Code::invalid, todo.schema, "type", "there is no type \"" + *text + "\"");
    }
    types |= it->types;
    number |= it->name == "number";
    integer |= it->name == "integer";
    return {};
  };
  if (const Json::Array* names = value.as_array()) {
    for (const Json& name : *names) QR_TRY_VOID(add(name));
  } else {
    QR_TRY_VOID(add(value));
  }
  const bool only_whole = integer && !number;
  if (!todo.broken) {
    branch.only(types);
    branch.shape.number.whole |= only_whole;
  } else {
    if (only_whole) types &= static_cast<Types>(~kNumber);
    branch.only(static_cast<Types>(~types & kAllTypes));
    branch.shape.number.not_whole |= only_whole;
  }
  if (branch.shape.number.whole && branch.shape.number.not_whole) branch.only(static_cast<Types>(kAllTypes & ~kNumber));
  return {};
}

// Listed values are sifted with the whole key, so nothing else of this branch needs to be looked at.
Status Tableau::listed(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  std::vector<const Json*> all;
  if (todo.keyword == "const") {
    all.push_back(&value);
  } else {
    QR_TRY(const Json::Array* list, c_.array_of(todo.schema, "enum", value));
    for (const Json& v : *list) all.push_back(&v);
  }
  if (!todo.broken) {
    branch.shape.values.emplace();
    for (const Json* v : all) {
      QR_TRY(const bool ok, validator_.holds(*v, *key_));
      if (ok) branch.shape.values->push_back(v);
    }
    branch.todo.clear();
    if (branch.shape.values->empty()) branch.die();
    return {};
  }
  Shape& s = branch.shape;
  std::vector<Rx> texts;
  for (const Json* v : all) {
    QR_TRY_VOID(c_.spend(1));
    if (v->is_null()) branch.only(static_cast<Types>(~kNull & kAllTypes));
    if (const bool* b = v->as_bool()) branch.only(static_cast<Types>(~(*b ? kTrue : kFalse) & kAllTypes));
    if (v->is_number()) s.number.excluded.push_back(Decimal::of(*v));
    if (const std::string* text = v->as_string()) texts.push_back(c_.chars.text(*text));
    if (v->as_array() != nullptr || v->as_object() != nullptr) s.not_values.push_back(v);
  }
  if (!texts.empty()) s.texts.push_back(c_.rx.both({c_.any_string(), c_.rx.negate(c_.rx.alt(std::move(texts)))}));
  return {};
}

Status Tableau::bound(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  const bool exclusive = todo.keyword.starts_with("exclusive");
  if (exclusive && value.as_bool() != nullptr) {  // draft 4: `minimum` beside it looks at this
    if (todo.broken) branch.die();
    return {};
  }
  Bound b{{}, exclusive};
  QR_TRY(b.value, c_.number_of(todo.schema, todo.keyword, value));
  const bool low = todo.keyword.ends_with("inimum");
  if (!exclusive) {
    const Json* open = todo.schema->find(low ? "exclusiveMinimum" : "exclusiveMaximum");
    b.open = open != nullptr && open->as_bool() != nullptr && *open->as_bool();
  }
  if (todo.broken) {
    branch.only(kNumber);
    b.open = !b.open;
  }
  if (low != todo.broken) {
    branch.shape.number.at_least(b);
  } else {
    branch.shape.number.at_most(b);
  }
  return {};
}

Status Tableau::multiple_of(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY(const Decimal of, c_.number_of(todo.schema, todo.keyword, value));
  if (of.negative || of.is_zero()) {
    return c_.document.error(Code::invalid, todo.schema, todo.keyword, "must be greater than 0");
  }
  NumberRules alone;
  alone.multiples.push_back(of);
  if (!number_rx(c_.rx, alone)) {
    return c_.document.error(Code::unsupported, todo.schema, todo.keyword, "has too many digits to count with");
  }
  if (todo.broken) branch.only(kNumber);
  branch.shape.multiple_at = todo.schema;
  NumberRules& rules = branch.shape.number;
  (todo.broken ? rules.not_multiples : rules.multiples).push_back(of);
  return {};
}

Status Tableau::length(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY(const uint64_t n, c_.count_of(todo.schema, todo.keyword, value));
  Shape& s = branch.shape;
  const bool least = todo.keyword == "minLength";
  if (!todo.broken) {
    if (least) s.min_chars = std::max(s.min_chars, n);
    if (!least) s.max_chars = std::min(s.max_chars, n);
    return {};
  }
  branch.only(kString);
  if (least && n == 0) branch.die();
  if (least && n > 0) s.max_chars = std::min(s.max_chars, n - 1);
  if (!least) s.min_chars = std::max(s.min_chars, n + 1);
  return {};
}

Status Tableau::pattern(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY(const std::string* text, c_.string_of(todo.schema, todo.keyword, value));
  std::optional<Rx> rx;
  if (todo.keyword == "format") {
    QR_TRY(rx, c_.format(todo.schema, *text));
  } else {
    QR_TRY(rx, c_.pattern(todo.schema, todo.keyword, *text));
  }
  if (!todo.broken) {
    if (rx) branch.shape.texts.push_back(*rx);
    return {};
  }
  branch.only(kString);
  if (!rx) branch.die();  // what says nothing cannot be broken
  if (rx) branch.shape.texts.push_back(c_.rx.both({c_.any_string(), c_.rx.negate(*rx)}));
  return {};
}

}  // namespace quire::grammar
