// Keywords about arrays; see tableau.h.
#include <algorithm>

#include "text/grammar/json_schema/tableau.h"

namespace quire::grammar {

Status Tableau::array_count(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  QR_TRY(const uint64_t n, c_.count_of(todo.schema, todo.keyword, value));
  Shape& s = branch.shape;
  const bool least = todo.keyword == "minItems";
  if (!todo.broken) {
    if (least) s.min_items = std::max(s.min_items, n);
    if (!least) s.max_items = std::min(s.max_items, n);
    return {};
  }
  branch.only(kArray);
  if (least && n == 0) branch.die();
  if (least && n > 0) s.max_items = std::min(s.max_items, n - 1);
  if (!least) s.min_items = std::max(s.min_items, n + 1);
  return {};
}

Status Tableau::items(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  Shape& s = branch.shape;
  const Json::Array* list = value.as_array();
  if (todo.keyword == "prefixItems" && list == nullptr) {
    return c_.document.error(Code::invalid, todo.schema, todo.keyword, "must be an array");
  }
  if (list == nullptr) QR_TRY_VOID(c_.check_schema(&value));
  if (!todo.broken) {
    if (std::find(s.array_groups.begin(), s.array_groups.end(), todo.schema) == s.array_groups.end()) {
      s.array_groups.push_back(todo.schema);
    }
    return {};
  }
  branch.only(kArray);
  if (list != nullptr && todo.index == Todo::kAll) {
    for (size_t i = 0; i < list->size(); ++i) ways.push_back({{todo.schema, true, todo.keyword, nullptr, i}});
    if (ways.empty()) branch.die();
    return {};
  }
  if (list != nullptr) {
    s.min_items = std::max<uint64_t>(s.min_items, todo.index + 1);
    s.indexed.push_back({todo.index, c_.sign(&(*list)[todo.index], true)});
    return {};
  }
  const Json* listed = todo.schema->find(todo.keyword == "additionalItems" ? "items" : "prefixItems");
  const bool has_list = listed != nullptr && listed->as_array() != nullptr && !listed->as_array()->empty();
  if (todo.keyword == "additionalItems" && (listed == nullptr || listed->as_array() == nullptr)) {
    branch.die();  // it says nothing then
    return {};
  }
  if (has_list) {
    return c_.document.error(Code::unsupported, todo.schema, todo.keyword,
                             "behind listed items, not supported in a negation");
  }
  s.contains.push_back({c_.sign(&value, true), 1, Shape::kUnbounded, todo.schema});
  return {};
}

Status Tableau::contains(const Todo& todo, const Json& value, Branch& branch, Ways& ways) {
  QR_TRY_VOID(c_.check_schema(&value));
  uint64_t min = 1, max = Shape::kUnbounded;
  if (c_.document.draft() != Draft::draft7) {
    if (const Json* m = todo.schema->find("minContains")) {
      QR_TRY(min, c_.count_of(todo.schema, "minContains", *m));
    }
    if (const Json* m = todo.schema->find("maxContains")) {
      QR_TRY(max, c_.count_of(todo.schema, "maxContains", *m));
    }
  }
  const Signed schema = c_.sign(&value, false);
  Shape& s = branch.shape;
  if (!todo.broken) {
    if (min > max) branch.only(static_cast<Types>(kAllTypes & ~kArray));
    if (min > 0 || max != Shape::kUnbounded) s.contains.push_back({schema, min, max, todo.schema});
    return {};
  }
  branch.only(kArray);
  if (todo.index == Todo::kAll) {
    if (min > 0) ways.push_back({{todo.schema, true, todo.keyword, nullptr, 0}});
    if (max != Shape::kUnbounded) ways.push_back({{todo.schema, true, todo.keyword, nullptr, 1}});
    if (ways.empty()) branch.die();
  } else if (todo.index == 0) {
    s.contains.push_back({schema, 0, min - 1, todo.schema});
  } else {
    s.contains.push_back({schema, max + 1, Shape::kUnbounded, todo.schema});
  }
  return {};
}

Status Tableau::unique_items(const Todo& todo, const Json& value, Branch& branch, Ways&) {
  const bool* on = value.as_bool();
  if (on == nullptr) return c_.document.error(Code::invalid, todo.schema, todo.keyword, "must be true or false");
  if (!todo.broken) {
    if (*on) branch.shape.unique = todo.schema;
    return {};
  }
  if (!*on) branch.die();
  branch.only(kArray);
  if (branch.shape.types == 0) return {};
  return c_.document.error(Code::unsupported, todo.schema, todo.keyword, "not supported in a negation");
}

}  // namespace quire::grammar
