// Keywords about objects; see tableau.h.
#include <algorithm>

#include "text/grammar/json_schema/tableau.h"

namespace quire::grammar {

namespace {

void require_name(Shape& s, const std::string& name) {
  if (s.forbidden.contains(name)) s.types &= static_cast<Types>(~kObject);
  if (std::find(s.required.begin(), s.required.end(), name) == s.required.end()) s.required.push_back(name);
}

void forbid_name(Shape& s, const std::string& name) {
  if (std::find(s.required.begin(), s.required.end(), name) != s.required.end()) {
    s.types &= static_cast<Types>(~kObject);
  }
  s.forbidden.insert(name);
}

void add_group(std::vector<const Json*>& groups, const Json* schema) {
  if (std::find(groups.begin(), groups.end(), schema) == groups.end()) groups.push_back(schema);
}

}  // namespace

Status Tableau::object_count(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY(const uint64_t n, c_.count_of(todo.schema, todo.keyword, value));
  Shape& s = branch.shape;
  const bool least = todo.keyword == "minProperties";
  if (!todo.broken) {
    if (least) s.min_properties = std::max(s.min_properties, n);
    if (!least) s.max_properties = std::min(s.max_properties, n);
    return {};
  }
  branch.only(kObject);
  if (least && n == 0) branch.die();
  if (least && n > 0) s.max_properties = std::min(s.max_properties, n - 1);
  if (!least) s.min_properties = std::max(s.min_properties, n + 1);
  return {};
}

Status Tableau::required(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  if (value.as_bool() != nullptr && c_.document.draft() == Draft::draft7) {  // draft 3 and 4 habits: in the property
    c_.warnings.push_back("json_schema: " + c_.document.pointer(todo.schema) +
                          "/required: must be an array; says nothing");
    if (todo.broken) branch.die();
    return {};
  }
  QR_TRY(const Json::Array* names, c_.array_of(todo.schema, todo.keyword, value));
  for (size_t i = 0; i < names->size(); ++i) {
    QR_TRY(const std::string* name, c_.string_of(todo.schema, todo.keyword, (*names)[i]));
    QR_TRY_VOID(c_.spend(branch.shape.required.size() / kLookedAtAStep));
    if (!todo.broken) require_name(branch.shape, *name);
    if (todo.broken && todo.index == i) {
      branch.only(kObject);
      forbid_name(branch.shape, *name);
    }
    if (todo.broken && todo.index == Todo::kAll) ways.push_back({{todo.schema, true, todo.keyword, nullptr, i}});
  }
  if (todo.broken && names->empty()) branch.die();
  return {};
}

Status Tableau::properties(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  QR_TRY(const Json::Object* members, c_.object_of(todo.schema, todo.keyword, value));
  if (!todo.broken) {
    add_group(branch.shape.object_groups, todo.schema);
    return {};
  }
  if (todo.member != nullptr) {
    branch.only(kObject);
    require_name(branch.shape, todo.member->first);
    branch.shape.named.push_back({todo.member->first, c_.sign(&todo.member->second, true)});
    return {};
  }
  for (const Json::Member& m : *members) ways.push_back({{todo.schema, true, todo.keyword, &m}});
  if (ways.empty()) branch.die();
  return {};
}

Status Tableau::pattern_properties(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  QR_TRY(const Json::Object* members, c_.object_of(todo.schema, todo.keyword, value));
  if (!todo.broken) {
    for (const Json::Member& m : *members) {
      QR_TRY([[maybe_unused]] const Rx rx, c_.pattern(todo.schema, todo.keyword, m.first));
    }
    add_group(branch.shape.object_groups, todo.schema);
    return {};
  }
  if (todo.member != nullptr) {
    branch.only(kObject);
    QR_TRY(const Rx name, c_.pattern(todo.schema, todo.keyword, todo.member->first));
    branch.shape.some.push_back({name, {c_.sign(&todo.member->second, true)}, todo.schema});
    return {};
  }
  for (const Json::Member& m : *members) ways.push_back({{todo.schema, true, todo.keyword, &m}});
  if (ways.empty()) branch.die();
  return {};
}

Status Tableau::additional_properties(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY_VOID(c_.check_schema(&value));
  if (!todo.broken) {
    add_group(branch.shape.object_groups, todo.schema);
    return {};
  }
  branch.only(kObject);
  std::vector<Rx> others;
  if (const Json* known = todo.schema->find("properties"); known != nullptr && known->as_object() != nullptr) {
    for (const auto& [name, unused] : *known->as_object()) others.push_back(c_.chars.text(name));
  }
  if (const Json* p = todo.schema->find("patternProperties"); p != nullptr && p->as_object() != nullptr) {
    for (const auto& [text, unused] : *p->as_object()) {
      QR_TRY(const Rx rx, c_.pattern(todo.schema, "patternProperties", text));
      others.push_back(rx);
    }
  }
  const Rx name = c_.rx.both({c_.any_string(), c_.rx.negate(c_.rx.alt(std::move(others)))});
  branch.shape.some.push_back({name, {c_.sign(&value, true)}, todo.schema});
  return {};
}

Status Tableau::property_names(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY_VOID(c_.check_schema(&value));
  QR_TRY(const Rx names, strings_of({c_.sign(&value, false)}));
  if (!todo.broken) {
    branch.shape.names.push_back(names);
    return {};
  }
  branch.only(kObject);
  const Rx others = c_.rx.both({c_.any_string(), c_.rx.negate(names)});
  branch.shape.some.push_back({others, {}, todo.schema});
  return {};
}

// Each dependency splits in two: its property is absent, or present with all that it needs.
Status Tableau::dependencies(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  constexpr size_t kAbsent = 0, kPresent = 1;
  QR_TRY(const Json::Object* members, c_.object_of(todo.schema, todo.keyword, value));
  if (todo.member == nullptr) {
    std::vector<Todo> each;
    for (const Json::Member& m : *members) {
      if (todo.broken)
        ways.push_back({{todo.schema, true, todo.keyword, &m}});
      else
        each.push_back({todo.schema, false, todo.keyword, &m});
    }
    branch.todo.insert(branch.todo.begin(), each.rbegin(), each.rend());
    if (todo.broken && ways.empty()) branch.die();
    return {};
  }
  const std::string& name = todo.member->first;
  const Json& needs = todo.member->second;
  if (!todo.broken && todo.index == Todo::kAll) {
    ways.push_back({{todo.schema, false, todo.keyword, todo.member, kAbsent}});
    ways.push_back({{todo.schema, false, todo.keyword, todo.member, kPresent}});
    return {};
  }
  if (!todo.broken && todo.index == kAbsent) {
    forbid_name(branch.shape, name);
    return {};
  }
  branch.only(kObject);
  require_name(branch.shape, name);
  const Json::Array* list = needs.as_array();
  if (list == nullptr) {
    branch.todo.push_back({&needs, todo.broken});
    return {};
  }
  for (size_t i = 0; i < list->size(); ++i) {
    QR_TRY(const std::string* needed, c_.string_of(todo.schema, todo.keyword, (*list)[i]));
    QR_TRY_VOID(c_.spend(branch.shape.required.size() / kLookedAtAStep));
    if (!todo.broken) require_name(branch.shape, *needed);
    if (todo.broken && todo.index == i) forbid_name(branch.shape, *needed);
    if (todo.broken && todo.index == Todo::kAll) ways.push_back({{todo.schema, true, todo.keyword, todo.member, i}});
  }
  if (todo.broken && list->empty()) branch.die();
  return {};
}

// Beside nothing but properties and items of the same schema these are the additional ones; what schemas in other
// keywords have evaluated is not followed.
Status Tableau::unevaluated_properties(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY_VOID(c_.check_schema(&value));
  const bool of_items = todo.keyword == "unevaluatedItems";
  if (todo.schema->find(of_items ? "items" : "additionalProperties") != nullptr ||
      (value.as_bool() != nullptr && *value.as_bool())) {
    if (todo.broken) branch.die();
    return {};
  }
  for (const std::string_view other : {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "contains",
                                       "dependencies", "$dynamicRef", "$recursiveRef"}) {
    if (todo.schema->find(other) != nullptr && (other != "contains" || of_items)) {
      return c_.document.error(Code::unsupported, todo.schema, todo.keyword,
                               "not supported beside " + std::string(other));
    }
  }
  if (todo.broken)
    return c_.document.error(Code::unsupported, todo.schema, todo.keyword, "not supported in a negation");
  add_group(of_items ? branch.shape.array_groups : branch.shape.object_groups, todo.schema);
  return {};
}

}  // namespace quire::grammar
