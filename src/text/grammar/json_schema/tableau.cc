// See tableau.h: how branches are worked off. What each keyword means is in keywords_*.cc.
#include "text/grammar/json_schema/tableau.h"

#include <algorithm>

#include "text/grammar/json_schema/shape_rx.h"

namespace quire::grammar {

namespace {

constexpr int kMaxNested = 6;  // expansions within expansions (propertyNames in propertyNames)

// What is looked at last, because it splits.
bool splits(std::string_view keyword) {
  for (const std::string_view k : {"anyOf", "oneOf", "if", "dependencies", "dependentSchemas", "dependentRequired"}) {
    if (k == keyword) return true;
  }
  return false;
}

}  // namespace

Tableau::Handler Tableau::handler_of(std::string_view keyword) {
  static const std::map<std::string_view, Handler> kHandlers = {
      {"type", &Tableau::type},
      {"enum", &Tableau::listed},
      {"const", &Tableau::listed},
      {"minimum", &Tableau::bound},
      {"maximum", &Tableau::bound},
      {"exclusiveMinimum", &Tableau::bound},
      {"exclusiveMaximum", &Tableau::bound},
      {"multipleOf", &Tableau::multiple_of},
      {"minLength", &Tableau::length},
      {"maxLength", &Tableau::length},
      {"pattern", &Tableau::pattern},
      {"format", &Tableau::pattern},
      {"$ref", &Tableau::reference},
      {"allOf", &Tableau::all_of},
      {"anyOf", &Tableau::any_of},
      {"oneOf", &Tableau::one_of},
      {"not", &Tableau::negation},
      {"if", &Tableau::condition},
      {"$dynamicRef", &Tableau::refuse},
      {"$recursiveRef", &Tableau::refuse},
      {"extends", &Tableau::refuse},
      {"disallow", &Tableau::refuse},
      {"divisibleBy", &Tableau::refuse},
      {"minProperties", &Tableau::object_count},
      {"maxProperties", &Tableau::object_count},
      {"required", &Tableau::required},
      {"properties", &Tableau::properties},
      {"patternProperties", &Tableau::pattern_properties},
      {"additionalProperties", &Tableau::additional_properties},
      {"propertyNames", &Tableau::property_names},
      {"dependencies", &Tableau::dependencies},
      {"dependentRequired", &Tableau::dependencies},
      {"dependentSchemas", &Tableau::dependencies},
      {"unevaluatedProperties", &Tableau::unevaluated_properties},
      {"unevaluatedItems", &Tableau::unevaluated_properties},
      {"minItems", &Tableau::array_count},
      {"maxItems", &Tableau::array_count},
      {"items", &Tableau::items},
      {"prefixItems", &Tableau::items},
      {"additionalItems", &Tableau::items},
      {"contains", &Tableau::contains},
      {"uniqueItems", &Tableau::unique_items},
  };
  const auto it = kHandlers.find(keyword);
  return it == kHandlers.end() ? nullptr : it->second;
}

// Keywords that the schema's draft does not know say nothing.
bool Tableau::has_effect(const Json* schema, std::string_view keyword) const {
  if (handler_of(keyword) == nullptr) return false;
  const bool old = c_.document.draft() == Draft::draft7;
  if (old && schema->find("$ref") != nullptr) return keyword == "$ref";
  if (old) {
    return keyword != "prefixItems" && keyword != "dependentRequired" && keyword != "dependentSchemas" &&
           !keyword.starts_with("unevaluated") && keyword != "$dynamicRef" && keyword != "$recursiveRef";
  }
  return keyword != "extends" && keyword != "disallow" && keyword != "divisibleBy";
}

void Tableau::break_schema(const Json* schema, Branch& branch, Ways& ways) {
  for (const Json::Member& member : *schema->as_object()) {
    if (has_effect(schema, member.first)) ways.push_back({{schema, true, member.first}});
  }
  if (ways.empty()) return branch.die();
  if (ways.size() > 1) {
    // Where the type alone is wrong already, nothing else needs to be.
    if (const Json* types = schema->find("type"); types != nullptr && has_effect(schema, "type")) {
      Branch trial;
      trial.shape.types = branch.shape.types;
      Ways none;
      if (type({schema, false, "type"}, *types, trial, none) && trial.shape.types == 0) ways.clear();
    }
    return;
  }
  branch.todo.push_back(ways[0][0]);
  ways.clear();
}

Status Tableau::look_at_schema(const Todo& todo, Branch& branch, Ways& ways) {
  const Json* schema = todo.schema;
  QR_TRY_VOID(c_.check_schema(schema));
  if (const bool* all = schema->as_bool()) {
    if (*all == todo.broken) branch.die();
    return {};
  }
  const Signed own = c_.sign(schema, todo.broken);
  QR_TRY_VOID(c_.spend(branch.done.size() / kLookedAtAStep));
  if (std::find(branch.done.begin(), branch.done.end(), own) != branch.done.end()) return {};
  if (std::find(branch.done.begin(), branch.done.end(), own ^ 1u) != branch.done.end()) {
    branch.die();
    return {};
  }
  branch.done.push_back(own);
  if (todo.broken) {
    break_schema(schema, branch, ways);
    return {};
  }
  std::vector<Todo> first, last;
  for (const Json::Member& member : *schema->as_object()) {
    if (!has_effect(schema, member.first)) continue;
    (splits(member.first) ? last : first).push_back({schema, false, member.first});
  }
  const auto add = [&](std::vector<Todo>& list) {
    for (size_t i = list.size(); i-- > 0;) branch.todo.push_back(list[i]);
  };
  // Splitting keywords wait below everything else that is still to do.
  std::reverse(last.begin(), last.end());
  branch.todo.insert(branch.todo.begin(), last.begin(), last.end());
  add(first);
  return {};
}

Status Tableau::look_at(const Todo& todo, Branch& branch, Ways& ways) {
  QR_TRY_VOID(c_.spend(1));
  if (todo.keyword.empty()) return look_at_schema(todo, branch, ways);
  const Json* value = todo.schema->find(todo.keyword);
  return (this->*handler_of(todo.keyword))(todo, *value, branch, ways);
}

Result<std::vector<Shape>> Tableau::expand(const Key& key) {
  if (depth_ >= kMaxNested) return fail(Code::unsupported, "json_schema: #: propertyNames nested too deep");
  const Key* outer = key_;
  key_ = &key;
  ++depth_;
  std::vector<Shape> out;
  const Status done = [&]() -> Status {
    std::vector<Branch> open(1);
    for (size_t i = key.size(); i-- > 0;) {
      open[0].todo.push_back({c_.schema(key[i]), SchemaContext::negated(key[i])});
    }
    while (!open.empty()) {
      Branch branch = std::move(open.back());
      open.pop_back();
      Ways ways;
      while (!branch.todo.empty() && branch.shape.types != 0 && ways.empty()) {
        const Todo todo = branch.todo.back();
        branch.todo.pop_back();
        QR_TRY_VOID(look_at(todo, branch, ways));
      }
      if (branch.shape.types == 0) continue;
      if (ways.empty()) {
        QR_TRY_VOID(finish(branch, out));
        continue;
      }
      QR_TRY_VOID(c_.spend(8 * ways.size()));
      for (size_t i = ways.size(); i-- > 0;) {
        open.push_back(branch);
        for (size_t k = ways[i].size(); k-- > 0;) open.back().todo.push_back(ways[i][k]);
      }
      if (open.size() + out.size() > kMaxShapes) {
        const Json* at = key.empty() ? &c_.document.root() : c_.schema(key[0]);
        return c_.document.error(Code::unsupported, at, "",
                                 "its logic comes to more than " + std::to_string(kMaxShapes) + " alternatives");
      }
    }
    return {};
  }();
  --depth_;
  key_ = outer;
  if (!done) return tl::make_unexpected(done.error());
  return out;
}

Status Tableau::settle_not_values(Branch& branch) {
  Shape& s = branch.shape;
  for (const Json* v : s.not_values) {
    const bool is_array = v->as_array() != nullptr;
    if ((s.types & (is_array ? kArray : kObject)) == 0) continue;
    if (is_array && v->as_array()->empty()) {
      s.min_items = std::max<uint64_t>(s.min_items, 1);
    } else if (!is_array && v->as_object()->empty()) {
      s.min_properties = std::max<uint64_t>(s.min_properties, 1);
    } else {
      return c_.document.error(Code::unsupported, v, "", "an array or object that must not come cannot be kept out");
    }
  }
  return {};
}

Status Tableau::finish(Branch& branch, std::vector<Shape>& out) {
  Shape& s = branch.shape;
  if (!s.values) {
    QR_TRY_VOID(settle_not_values(branch));
    if ((s.types & kNumber) != 0 && !countable(s.number)) {
      return c_.document.error(
          Code::unsupported, s.multiple_at, "multipleOf",
          "all such numbers together have more than " + std::to_string(kMaxRests) + " rests to count");
    }
    if (s.min_chars > s.max_chars) s.types &= static_cast<Types>(~kString);
    if (s.min_items > s.max_items) s.types &= static_cast<Types>(~kArray);
    if (s.min_properties > s.max_properties) s.types &= static_cast<Types>(~kObject);
  } else if (s.values->empty()) {
    return {};
  }
  // Properties come in the order in which the document has them, whatever order the keywords were looked at.
  const auto earlier = [&](const Json* a, const Json* b) { return c_.document.order(a) < c_.document.order(b); };
  std::sort(s.object_groups.begin(), s.object_groups.end(), earlier);
  if (s.types != 0) out.push_back(std::move(s));
  return {};
}

Result<Rx> Tableau::strings_of(const Key& key) {
  QR_TRY(const std::vector<Shape> shapes, expand(key));
  std::vector<Rx> parts;
  for (const Shape& s : shapes) {
    if (!s.values) {
      if ((s.types & kString) != 0) parts.push_back(string_rx(c_, s));
      continue;
    }
    for (const Json* v : *s.values) {
      if (v->as_string() != nullptr) parts.push_back(c_.chars.text(*v->as_string()));
    }
  }
  return c_.rx.alt(std::move(parts));
}

}  // namespace quire::grammar
