// See validator.h. Recursion goes as deep as schemas nest (kMaxDepth), values no deeper than kMaxJsonDepth.
#include "text/grammar/json_schema/validator.h"

#include <algorithm>

#include "text/utf8.h"

namespace quire::grammar {

namespace {

void append_normal(std::string& out, const Json& v) {  // as deep as JSON nests (kMaxJsonDepth)
  if (v.is_number()) {
    out += Decimal::of(v).text();
  } else if (const Json::Array* a = v.as_array()) {
    out += '[';
    for (const Json& e : *a) append_normal(out, e), out += ',';
    out += ']';
  } else if (const Json::Object* o = v.as_object()) {
    std::vector<const Json::Member*> members;
    for (const Json::Member& m : *o) members.push_back(&m);
    std::sort(members.begin(), members.end(), [](auto* x, auto* y) { return x->first < y->first; });
    out += '{';
    for (const Json::Member* m : members) {
      append_json_string(out, m->first);
      out += ':';
      append_normal(out, m->second);
      out += ',';
    }
    out += '}';
  } else {
    out += v.dump();
  }
}

bool one_of(std::string_view key, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

}  // namespace

std::string normal_text(const Json& value) {
  std::string out;
  append_normal(out, value);
  return out;
}

bool equal_json(const Json& a, const Json& b) { return normal_text(a) == normal_text(b); }

std::optional<bool> is_of_type(const Json& v, std::string_view type) {
  if (type == "null") return v.is_null();
  if (type == "boolean") return v.as_bool() != nullptr;
  if (type == "string") return v.as_string() != nullptr;
  if (type == "array") return v.as_array() != nullptr;
  if (type == "object") return v.as_object() != nullptr;
  if (type == "number") return v.is_number();
  if (type == "integer") return v.is_number() && Decimal::of(v).is_whole();
  return std::nullopt;
}

Result<bool> Validator::holds(const Json& value, const Key& key) {
  for (const Signed s : key) {
    QR_TRY(const bool ok, valid(value, c_.schema(s), 0));
    if (ok == SchemaContext::negated(s)) return false;
  }
  return true;
}

Result<bool> Validator::valid(const Json& value, const Json* schema, int depth) {
  QR_TRY_VOID(c_.check_schema(schema));
  QR_TRY_VOID(c_.spend(1));
  if (depth > kMaxDepth)
    return c_.document.error(Code::unsupported, schema, "", "schemas refer to each other without end");
  if (const bool* all = schema->as_bool()) return *all;
  const bool only_ref = c_.document.draft() == Draft::draft7 && schema->find("$ref") != nullptr;
  for (const Json::Member& member : *schema->as_object()) {
    if (only_ref && member.first != "$ref") continue;
    QR_TRY(const bool ok, keyword(value, schema, member, depth + 1));
    if (!ok) return false;
  }
  return true;
}

Result<bool> Validator::listed(const Json& value, const Json* schema, const Json& list) {
  QR_TRY(const Json::Array* all, c_.array_of(schema, "enum", list));
  const auto [it, fresh] = listed_.try_emplace(&list);
  if (fresh) {
    for (const Json& v : *all) it->second.insert(normal_text(v));
  }
  return it->second.contains(normal_text(value));
}

Result<bool> Validator::keyword(const Json& value, const Json* schema, const Json::Member& member, int depth) {
  const std::string_view key = member.first;
  if (key == "enum") return listed(value, schema, member.second);
  if (key == "const") return equal_json(value, member.second);
  if (key == "type") {
    const auto fits = [&](const Json& name) -> Result<bool> {
      QR_TRY(const std::string* type, c_.string_of(schema, "type", name));
      const std::optional<bool> is = is_of_type(value, *type);
      if (!is) return c_.document.error(Code::invalid, schema, "type", "there is no type \"" + *type + "\"");
      return *is;
    };
    if (member.second.as_array() == nullptr) return fits(member.second);
    for (const Json& name : *member.second.as_array()) {
      QR_TRY(const bool is, fits(name));
      if (is) return true;
    }
    return false;
  }
  if (one_of(key, {"$ref", "allOf", "anyOf", "oneOf", "not", "if"})) return logic(value, schema, member, depth);
  if (one_of(key, {"$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"})) {
    return c_.document.error(Code::unsupported, schema, key, "not supported beside listed values");
  }
  if (value.is_number()) return number(value, schema, member);
  if (value.as_string() != nullptr) return text(value, schema, member);
  if (value.as_array() != nullptr) return array(value, schema, member, depth);
  if (value.as_object() != nullptr) return object(value, schema, member, depth);
  return true;
}

Result<bool> Validator::logic(const Json& value, const Json* schema, const Json::Member& member, int depth) {
  const std::string_view key = member.first;
  if (key == "$ref") {
    QR_TRY(const std::string* ref, c_.string_of(schema, key, member.second));
    QR_TRY(const Json* to, c_.document.resolve(schema, *ref));
    return valid(value, to, depth);
  }
  if (key == "not") {
    QR_TRY(const bool inner, valid(value, &member.second, depth));
    return !inner;
  }
  if (key == "if") {
    QR_TRY(const bool condition, valid(value, &member.second, depth));
    const Json* next = schema->find(condition ? "then" : "else");
    return next == nullptr ? Result<bool>(true) : valid(value, next, depth);
  }
  QR_TRY(const Json::Array* parts, c_.array_of(schema, key, member.second));
  size_t n = 0;
  for (const Json& part : *parts) {
    QR_TRY(const bool ok, valid(value, &part, depth));
    n += ok ? 1 : 0;
  }
  return key == "allOf" ? n == parts->size() : key == "anyOf" ? n > 0 : n == 1;
}

Result<bool> Validator::number(const Json& value, const Json* schema, const Json::Member& member) {
  const std::string_view key = member.first;
  if (!one_of(key, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) return true;
  if (member.second.as_bool() != nullptr) {  // draft 4: exclusiveMinimum is true beside minimum
    const Json* bound = schema->find(key == "exclusiveMinimum" ? "minimum" : "maximum");
    return !*member.second.as_bool() || bound == nullptr || !bound->is_number() ||
           compare(Decimal::of(value), Decimal::of(*bound)) != 0;
  }
  QR_TRY(const Decimal operand, c_.number_of(schema, key, member.second));
  const int order = compare(Decimal::of(value), operand);
  if (key == "minimum") return order >= 0;
  if (key == "maximum") return order <= 0;
  if (key == "exclusiveMinimum") return order > 0;
  if (key == "exclusiveMaximum") return order < 0;
  NumberRules rules;
  rules.multiples.push_back(operand);
  const std::optional<Rx> rx = number_rx(c_.rx, rules);
  if (!rx) return c_.document.error(Code::unsupported, schema, key, "too many digits to count with");
  return c_.rx.matches(*rx, Decimal::of(value).text());
}

Result<bool> Validator::text(const Json& value, const Json* schema, const Json::Member& member) {
  const std::string_view key = member.first;
  const std::string& s = *value.as_string();
  if (key == "minLength" || key == "maxLength") {
    QR_TRY(const uint64_t n, c_.count_of(schema, key, member.second));
    const size_t chars = to_code_points(s).size();
    return key == "minLength" ? chars >= n : chars <= n;
  }
  if (key == "pattern") {
    QR_TRY(const std::string* pattern, c_.string_of(schema, key, member.second));
    QR_TRY(const Rx rx, c_.pattern(schema, key, *pattern));
    return c_.spells(rx, s);
  }
  if (key == "format") {
    QR_TRY(const std::string* name, c_.string_of(schema, key, member.second));
    QR_TRY(const std::optional<Rx> rx, c_.format(schema, *name));
    return !rx || c_.spells(*rx, s);
  }
  return true;
}

Result<bool> Validator::array(const Json& value, const Json* schema, const Json::Member& member, int depth) {
  const std::string_view key = member.first;
  const Json::Array& items = *value.as_array();
  if (key == "minItems" || key == "maxItems") {
    QR_TRY(const uint64_t n, c_.count_of(schema, key, member.second));
    return key == "minItems" ? items.size() >= n : items.size() <= n;
  }
  if (key == "uniqueItems") {
    std::unordered_set<std::string> seen;
    for (const Json& item : items) seen.insert(normal_text(item));
    return member.second != Json(true) || seen.size() == items.size();
  }
  if (key == "contains") {
    uint64_t n = 0, min = 1, max = Shape::kUnbounded;
    for (const Json& item : items) {
      QR_TRY(const bool ok, valid(item, &member.second, depth));
      n += ok ? 1 : 0;
    }
    const bool counts = c_.document.draft() != Draft::draft7;
    if (const Json* m = schema->find("minContains"); m != nullptr && counts) {
      QR_TRY(min, c_.count_of(schema, "minContains", *m));
    }
    if (const Json* m = schema->find("maxContains"); m != nullptr && counts) {
      QR_TRY(max, c_.count_of(schema, "maxContains", *m));
    }
    return n >= min && n <= max;
  }
  const Json* list = schema->find("prefixItems");
  const Json* rest = schema->find("items");
  if (rest != nullptr && rest->as_array() != nullptr) list = rest, rest = schema->find("additionalItems");
  const size_t n_listed = list != nullptr && list->as_array() != nullptr ? list->as_array()->size() : 0;
  const bool is_list = &member.second == list, is_rest = &member.second == rest;
  for (size_t i = 0; i < items.size(); ++i) {
    const Json* part = i < n_listed ? (is_list ? &(*list->as_array())[i] : nullptr) : is_rest ? rest : nullptr;
    if (part == nullptr) continue;
    QR_TRY(const bool ok, valid(items[i], part, depth));
    if (!ok) return false;
  }
  return true;
}

Result<bool> Validator::additional(const Json& value, const Json* schema, const Json* rest, int depth) {
  const Json* known = schema->find("properties");
  const Json* patterns = schema->find("patternProperties");
  for (const auto& [name, v] : *value.as_object()) {
    if (known != nullptr && known->find(name) != nullptr) continue;
    bool matched = false;
    if (patterns != nullptr && patterns->as_object() != nullptr) {
      for (const auto& [pattern, unused] : *patterns->as_object()) {
        QR_TRY(const Rx rx, c_.pattern(schema, "patternProperties", pattern));
        matched = matched || c_.spells(rx, name);
      }
    }
    if (matched) continue;
    QR_TRY(const bool ok, valid(v, rest, depth));
    if (!ok) return false;
  }
  return true;
}

Result<bool> Validator::dependency(const Json& value, const Json* schema, const Json::Member& member, int depth) {
  QR_TRY(const Json::Object* all, c_.object_of(schema, member.first, member.second));
  for (const auto& [name, needs] : *all) {
    if (value.find(name) == nullptr) continue;
    if (const Json::Array* names = needs.as_array()) {
      for (const Json& n : *names) {
        QR_TRY(const std::string* text, c_.string_of(schema, member.first, n));
        if (value.find(*text) == nullptr) return false;
      }
    } else {
      QR_TRY(const bool ok, valid(value, &needs, depth));
      if (!ok) return false;
    }
  }
  return true;
}

Result<bool> Validator::object(const Json& value, const Json* schema, const Json::Member& member, int depth) {
  const std::string_view key = member.first;
  const Json::Object& members = *value.as_object();
  if (key == "minProperties" || key == "maxProperties") {
    QR_TRY(const uint64_t n, c_.count_of(schema, key, member.second));
    return key == "minProperties" ? members.size() >= n : members.size() <= n;
  }
  if (key == "required") {
    if (member.second.as_bool() != nullptr) return true;  // draft 3 said it in the property
    QR_TRY(const Json::Array* names, c_.array_of(schema, key, member.second));
    for (const Json& n : *names) {
      QR_TRY(const std::string* name, c_.string_of(schema, key, n));
      if (value.find(*name) == nullptr) return false;
    }
    return true;
  }
  if (key == "additionalProperties") return additional(value, schema, &member.second, depth);
  if (one_of(key, {"dependencies", "dependentRequired", "dependentSchemas"})) {
    return dependency(value, schema, member, depth);
  }
  const bool names = key == "propertyNames", known = key == "properties", patterns = key == "patternProperties";
  if (!names && !known && !patterns) return true;
  for (const auto& [name, v] : members) {
    if (names) {
      QR_TRY(const bool ok, valid(Json(name), &member.second, depth));
      if (!ok) return false;
    } else if (known) {
      const Json* part = member.second.find(name);
      if (part == nullptr) continue;
      QR_TRY(const bool ok, valid(v, part, depth));
      if (!ok) return false;
    } else {
      QR_TRY(const Json::Object* all, c_.object_of(schema, key, member.second));
      for (const auto& [pattern, part] : *all) {
        QR_TRY(const Rx rx, c_.pattern(schema, key, pattern));
        if (!c_.spells(rx, name)) continue;
        QR_TRY(const bool ok, valid(v, &part, depth));
        if (!ok) return false;
      }
    }
  }
  return true;
}

}  // namespace quire::grammar
