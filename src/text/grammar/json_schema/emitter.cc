// See emitter.h. Rules that others need are put on a list, so nothing recurses however schemas refer to each other.
#include "text/grammar/json_schema/emitter.h"

#include <algorithm>

#include "text/grammar/json_schema/shape_rx.h"

namespace quire::grammar {

Rule Emitter::rule_of(Key key) {
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  std::erase_if(key, [&](Signed s) {  // what always holds
    const bool* all = c_.schema(s)->as_bool();
    return all != nullptr && *all != SchemaContext::negated(s);
  });
  const auto it = rules_.find(key);
  if (it != rules_.end()) return it->second;
  const Rule rule = net_.rule();
  rules_.emplace(key, rule);
  todo_.emplace_back(std::move(key), rule);
  return rule;
}

bool Emitter::is_never(Key key) const {
  std::sort(key.begin(), key.end());  // a schema and its negation are neighbours then
  const auto opposite = [](Signed a, Signed b) { return (a ^ b) == 1u; };
  if (std::adjacent_find(key.begin(), key.end(), opposite) != key.end()) return true;
  return std::any_of(key.begin(), key.end(), [&](Signed s) {
    const bool* all = c_.schema(s)->as_bool();
    return all != nullptr && *all == SchemaContext::negated(s);
  });
}

// A member of the group's `properties`. Large objects are asked for each of their names.
const Json* Emitter::property(const Json* group, std::string_view name) {
  const Json* own = group->find("properties");
  if (own == nullptr || own->as_object() == nullptr) return nullptr;
  if (own->as_object()->size() < kLookedAtAStep) return own->find(name);
  auto& members = members_[own];
  if (members.empty())
    for (const auto& [key, part] : *own->as_object()) members.emplace(key, &part);
  const auto found = members.find(name);
  return found != members.end() ? found->second : nullptr;
}

Result<Rule> Emitter::emit(const Key& key) {
  space_ = c_.syntax.space;
  comma_ = around_rx(c_, ',');
  colon_ = around_rx(c_, ':');
  const Rule root = rule_of(key);
  while (!todo_.empty()) {
    const auto [next, rule] = std::move(todo_.back());
    todo_.pop_back();
    QR_TRY_VOID(fill(next, rule));
    if (net_.full())
      return fail(Code::exhausted, "json_schema: #: it takes more states or memory to compile than allowed");
  }
  return root;
}

Status Emitter::fill(const Key& key, Rule rule) {
  QR_TRY(const std::vector<Shape> shapes, tableau_.expand(key));
  const State end = net_.state(rule);
  net_.final(end);
  std::vector<Rx> scalars;
  for (const Shape& shape : shapes) {
    QR_TRY_VOID(c_.spend(4));
    QR_TRY(const Rx scalar, scalar_rx(c_, shape));
    scalars.push_back(scalar);
    if (shape.values) continue;
    if ((shape.types & kArray) != 0) QR_TRY_VOID(array(shape, rule, end));
    if ((shape.types & kObject) != 0) QR_TRY_VOID(object(shape, rule, end));
  }
  net_.edge_rx(net_.start(rule), c_.rx.alt(std::move(scalars)), end);
  return {};
}

}  // namespace quire::grammar
