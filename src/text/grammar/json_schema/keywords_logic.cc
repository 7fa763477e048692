// Keywords that combine schemas; see tableau.h.
#include <algorithm>

#include "text/grammar/json_schema/shape_rx.h"
#include "text/grammar/json_schema/tableau.h"

namespace quire::grammar {

Status Tableau::reference(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY(const std::string* ref, c_.string_of(todo.schema, "$ref", value));
  QR_TRY(const Json* to, c_.document.resolve(todo.schema, *ref));
  branch.todo.push_back({to, todo.broken});
  return {};
}

Status Tableau::refuse(const Todo& todo, const Json&, Branch&, Ways&) {
  return c_.document.error(Code::unsupported, todo.schema, todo.keyword, "not supported");
}

Status Tableau::all_of(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  QR_TRY(const Json::Array* parts, c_.array_of(todo.schema, todo.keyword, value));
  for (size_t i = parts->size(); i-- > 0;) {
    const Todo part{&(*parts)[i], todo.broken};
    if (todo.broken) {
      ways.insert(ways.begin(), {part});
    } else {
      branch.todo.push_back(part);
    }
  }
  if (todo.broken && ways.empty()) branch.die();
  return {};
}

Status Tableau::any_of(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  QR_TRY(const Json::Array* parts, c_.array_of(todo.schema, todo.keyword, value));
  for (const Json& part : *parts) {
    QR_TRY_VOID(c_.check_schema(&part));
    if (todo.broken) {
      branch.todo.push_back({&part, true});
    } else {
      ways.push_back({{&part, false}});
    }
  }
  if (!todo.broken && ways.empty()) branch.die();
  return {};
}

// One holds and the others are broken; those that cannot hold beside it need no breaking.
Status Tableau::one_of(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  QR_TRY(const Json::Array* parts, c_.array_of(todo.schema, todo.keyword, value));
  const size_t n = parts->size();
  if (todo.broken) {
    std::vector<Todo> none;
    for (const Json& part : *parts) none.push_back({&part, true});
    ways.push_back(std::move(none));
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = i + 1; k < n; ++k) ways.push_back({{&(*parts)[i], false}, {&(*parts)[k], false}});
      QR_TRY_VOID(c_.spend(n));
    }
    return {};
  }
  for (size_t i = 0; i < n; ++i) {
    std::vector<Todo> way{{&(*parts)[i], false}};
    for (size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      QR_TRY_VOID(c_.spend(1));
      if (!disjoint(&(*parts)[i], &(*parts)[k], 0)) way.push_back({&(*parts)[k], true});
    }
    ways.push_back(std::move(way));
  }
  if (ways.empty()) branch.die();
  return {};
}

Status Tableau::negation(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  branch.todo.push_back({&value, !todo.broken});
  return {};
}

Status Tableau::condition(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  const Json* yes = todo.schema->find("then");
  const Json* no = todo.schema->find("else");
  const auto way = [&](bool holds, const Json* next) {
    std::vector<Todo> out{{&value, !holds}};
    if (next != nullptr) out.push_back({next, todo.broken});
    if (next != nullptr || !todo.broken) ways.push_back(std::move(out));
  };
  if (yes == nullptr && no == nullptr) {
    if (todo.broken) branch.die();
    return {};
  }
  way(true, yes);
  way(false, no);
  return {};
}

// A schema without references at its top, as far as that is plain.
const Json* Tableau::plain(const Json* schema, int depth) const {
  for (; depth < 8 && schema->as_object() != nullptr; ++depth) {
    const Json* ref = schema->find("$ref");
    if (ref == nullptr || ref->as_string() == nullptr) break;
    if (c_.document.draft() != Draft::draft7 && schema->as_object()->size() > 1) break;
    const auto to = c_.document.resolve(schema, *ref->as_string());
    if (!to) break;
    schema = *to;
  }
  return schema;
}

namespace {

Types types_of(const Json* schema) {
  const Json* type = schema->find("type");
  if (type == nullptr) return kAllTypes;
  Types out = 0;
  const auto add = [&](const Json& name) {
    const std::string* n = name.as_string();
    if (n == nullptr) {
      out = kAllTypes;
    } else {
      out |= *n == "null"      ? kNull
             : *n == "boolean" ? Types{kTrue | kFalse}
             : *n == "string"  ? kString
             : *n == "array"   ? kArray
             : *n == "object"  ? kObject
             : *n == "any"     ? kAllTypes
                               : kNumber;
    }
  };
  if (const Json::Array* names = type->as_array()) {
    for (const Json& name : *names) add(name);
  } else {
    add(*type);
  }
  return out;
}

bool lists(const Json* schema) { return schema->find("const") != nullptr || schema->find("enum") != nullptr; }

bool requires_name(const Json* schema, std::string_view name) {
  const Json* required = schema->find("required");
  if (required == nullptr || required->as_array() == nullptr) return false;
  return std::any_of(required->as_array()->begin(), required->as_array()->end(),
                     [&](const Json& n) { return n.as_string() != nullptr && *n.as_string() == name; });
}

// Whether `schema` admits no property of this name, as far as that is plain.
bool excludes_name(const Json* schema, std::string_view name) {
  const Json* rest = schema->find("additionalProperties");
  const Json* known = schema->find("properties");
  return rest != nullptr && rest->as_bool() != nullptr && !*rest->as_bool() &&
         schema->find("patternProperties") == nullptr && (known == nullptr || known->find(name) == nullptr);
}

}  // namespace

// Whether no value can obey both. False where that is not plain to see.
bool Tableau::disjoint(const Json* a, const Json* b, int depth) {
  a = plain(a, 0);
  b = plain(b, 0);
  for (const Json* s : {a, b}) {
    if (s->as_bool() != nullptr) return !*s->as_bool();
    if (s->as_object() == nullptr) return false;
  }
  if (depth > 8 || (c_.document.draft() == Draft::draft7 && (a->find("$ref") || b->find("$ref")))) return false;
  const Types ta = types_of(a), tb = types_of(b);
  if ((ta & tb) == 0) return true;
  for (const auto& [own, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (!lists(own)) continue;
    const Json* one = own->find("const");
    const Json* many = own->find("enum");
    const Json::Array single = one != nullptr ? Json::Array{*one} : Json::Array{};
    const Json::Array& values = one != nullptr || many->as_array() == nullptr ? single : *many->as_array();
    if (values.empty() || !c_.spend(values.size())) return false;
    return std::all_of(values.begin(), values.end(), [&](const Json& v) {
      const auto fits = validator_.valid(v, other);
      return fits && !*fits;
    });
  }
  if ((ta & tb) != kObject) return false;
  for (const auto& [own, other] : {std::pair(a, b), std::pair(b, a)}) {
    const Json* required = own->find("required");
    if (required == nullptr || required->as_array() == nullptr) continue;
    for (const Json& n : *required->as_array()) {
      const std::string* name = n.as_string();
      if (name == nullptr || !c_.spend(1)) return false;
      if (excludes_name(other, *name)) return true;
      const Json *pa = own->find("properties"), *pb = other->find("properties");
      const Json* va = pa == nullptr ? nullptr : pa->find(*name);
      const Json* vb = pb == nullptr ? nullptr : pb->find(*name);
      if (va != nullptr && vb != nullptr && disjoint(va, vb, depth + 1)) return true;
      if (requires_name(other, *name) && va != nullptr && va->as_bool() != nullptr && !*va->as_bool()) return true;
    }
  }
  return false;
}

}  // namespace quire::grammar
