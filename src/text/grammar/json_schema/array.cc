// Arrays; see emitter.h. States stand behind the opening bracket or a comma (an item comes) and behind an item.
#include <algorithm>

#include "text/grammar/json_schema/emitter.h"
#include "text/grammar/json_schema/shape_rx.h"

namespace quire::grammar {

namespace {

// The items that a schema lists one by one, and the schema of those behind them.
struct Items {
  const Json::Array* listed = nullptr;
  const Json* rest = nullptr;
};

Items items_of(const Json* group, Draft draft) {
  Items out;
  const Json* items = group->find("items");
  if (items != nullptr && items->as_array() != nullptr) {
    out.listed = items->as_array();
    out.rest = group->find("additionalItems");
  } else {
    const Json* listed = draft == Draft::draft7 ? nullptr : group->find("prefixItems");
    out.listed = listed == nullptr ? nullptr : listed->as_array();
    out.rest = items;
  }
  if (out.rest == nullptr && draft != Draft::draft7) out.rest = group->find("unevaluatedItems");
  return out;
}

// Items beyond this count as no limit: no answer has as many.
constexpr uint64_t kMostItems = 2'000'000'000;
uint32_t clipped(uint64_t n) { return n > kMostItems ? kNoLimit : static_cast<uint32_t>(n); }
constexpr uint64_t kInline = 16;  // counts up to here are written out, larger ones are counted loops

}  // namespace

Emitter::ArrayPlan Emitter::plan_array(const Shape& shape) {
  ArrayPlan plan;
  plan.min = std::min(shape.min_items, kMostItems);
  plan.max = shape.max_items;
  plan.at = shape.array_groups.empty() ? &c_.document.root() : shape.array_groups[0];
  size_t n = 0;
  for (const Json* group : shape.array_groups) {
    const Items items = items_of(group, c_.document.draft());
    if (items.listed != nullptr) n = std::max(n, items.listed->size());
  }
  for (const auto& i : shape.indexed) n = std::max(n, i.index + 1);
  plan.listed.resize(n);
  for (const Json* group : shape.array_groups) {
    const Items items = items_of(group, c_.document.draft());
    const size_t n_own = items.listed == nullptr ? 0 : items.listed->size();
    for (size_t i = 0; i < n; ++i) {
      const Json* part = i < n_own ? &(*items.listed)[i] : items.rest;
      if (part != nullptr) plan.listed[i].push_back(c_.sign(part, false));
    }
    if (items.rest != nullptr) plan.rest.push_back(c_.sign(items.rest, false));
  }
  for (const auto& i : shape.indexed) plan.listed[i.index].push_back(i.schema);
  // What cannot be there ends the array before it.
  for (size_t i = 0; i < n; ++i) {
    if (is_never(plan.listed[i])) plan.max = std::min<uint64_t>(plan.max, i);
  }
  if (is_never(plan.rest)) plan.max = std::min<uint64_t>(plan.max, n);
  return plan;
}

Status Emitter::array(const Shape& shape, Rule rule, State end) {
  const ArrayPlan plan = plan_array(shape);
  if (plan.min > plan.max) return {};
  if (shape.contains.size() > kMaxContains) {
    return c_.document.error(Code::unsupported, shape.contains.back().at, "contains",
                             "more than " + std::to_string(kMaxContains) + " such conditions at once");
  }
  if (shape.unique != nullptr && plan.max > 1) {
    if (!shape.contains.empty())
      return c_.document.error(Code::unsupported, shape.unique, "uniqueItems", "not supported beside contains");
    ArrayPlan own = plan;
    own.at = shape.unique;
    return distinct_array(own, rule, end);
  }
  if (shape.contains.empty()) return plain_array(plan, rule, end);
  return counting_array(plan, shape.contains, rule, end);
}

Status Emitter::plain_array(const ArrayPlan& plan, Rule rule, State end) {
  if (plan.min == 0) net_.edge_rx(net_.start(rule), empty("[]"), end);
  if (plan.max == 0) return {};
  const size_t n = plan.listed.size();
  // Items written out: the listed ones, and short counts.
  uint64_t n_out = std::max<uint64_t>(n, std::max<uint64_t>(1, plan.min <= n + kInline ? plan.min : 0));
  if (plan.max != Shape::kUnbounded && plan.max <= n + kInline) n_out = plan.max;
  n_out = std::min(n_out, plan.max);
  QR_TRY_VOID(c_.spend(n_out));
  State item = net_.state(rule);
  net_.edge_rx(net_.start(rule), opening('['), item);
  for (uint64_t i = 0;; ++i) {
    const State behind = net_.state(rule);
    net_.edge_rule(item, rule_of(i < n ? plan.listed[i] : plan.rest), behind);
    if (i + 1 >= plan.min) net_.edge_rx(behind, closing(']'), end);
    if (i + 1 == plan.max) return {};
    if (i + 1 < n_out) {
      item = net_.state(rule);
      net_.edge_rx(behind, comma_, item);
      continue;
    }
    const uint64_t min = plan.min > n_out ? plan.min - n_out : 0;
    const uint64_t max = plan.max == Shape::kUnbounded ? plan.max : plan.max - n_out;
    if (min == 0 && max == Shape::kUnbounded) {
      item = net_.state(rule);
      net_.edge_rx(behind, comma_, item);
      const State again = net_.state(rule);
      net_.edge_rule(item, rule_of(plan.rest), again);
      net_.edge_rx(again, comma_, item);
      net_.edge_rx(again, closing(']'), end);
      return {};
    }
    const Rule more = net_.rule();
    const State middle = net_.state(more), done = net_.state(more);
    net_.edge_rx(net_.start(more), comma_, middle);
    net_.edge_rule(middle, rule_of(plan.rest), done);
    net_.final(done);
    const State last = net_.state(rule);
    net_.edge_rule(behind, net_.loop(more, std::max<uint32_t>(clipped(min), 1), clipped(max)), last);
    net_.edge_rx(last, closing(']'), end);
    return {};
  }
}

// Counts the items that obey further schemas, one counter each. Where a counter has a greatest number, items that do
// not count must break its schema.
Status Emitter::counting_array(const ArrayPlan& plan,
                               const std::vector<Shape::Contains>& contains,
                               Rule rule,
                               State end) {
  std::vector<uint64_t> most;  // as far as each counter goes
  uint64_t n_counts = 1;
  for (const Shape::Contains& k : contains) {
    if (k.min > k.max || (plan.max != Shape::kUnbounded && k.min > plan.max)) return {};
    most.push_back(k.max != Shape::kUnbounded ? k.max : k.min);
    n_counts *= std::min<uint64_t>(most.back(), kMaxUnrolled) + 1;
  }
  const uint64_t n_items =
      std::max<uint64_t>({1, plan.listed.size(), plan.max == Shape::kUnbounded ? plan.min : plan.max});
  if (n_items >= kMaxUnrolled || n_counts > kMaxUnrolled || n_counts * (n_items + 1) > kMaxUnrolled * 4) {
    return c_.document.error(Code::unsupported, contains[0].at, "contains", "counts that large are not supported");
  }
  QR_TRY_VOID(c_.spend((n_items + 1) * n_counts << contains.size()));
  std::vector<State> before((n_items + 1) * n_counts), after((n_items + 1) * n_counts);
  for (State& s : before) s = net_.state(rule);
  for (State& s : after) s = net_.state(rule);
  const auto at = [&](uint64_t item, uint64_t counts) {
    return static_cast<size_t>(std::min(item, n_items) * n_counts + counts);
  };
  // The counters are the digits of one number. Counts up those in `which`; nothing where one would pass its limit.
  const auto counted = [&](uint64_t counts, size_t which, bool& enough) -> std::optional<uint64_t> {
    uint64_t unit = 1, out = counts;
    enough = true;
    for (size_t k = 0; k < contains.size(); unit *= most[k] + 1, ++k) {
      const uint64_t own = counts / unit % (most[k] + 1);
      enough &= own >= contains[k].min;
      if ((which >> k & 1) == 0) continue;
      if (own < most[k]) {
        out += unit;
      } else if (contains[k].max != Shape::kUnbounded) {
        return std::nullopt;
      }
    }
    return out;
  };
  for (uint64_t i = 0; i <= n_items; ++i) {
    const Key& own = i < plan.listed.size() ? plan.listed[i] : plan.rest;
    for (uint64_t c = 0; c < n_counts; ++c) {
      bool enough = false;
      for (size_t which = 0; which < size_t{1} << contains.size() && i < plan.max; ++which) {
        const std::optional<uint64_t> to = counted(c, which, enough);
        if (!to) continue;
        Key key = own;
        for (size_t k = 0; k < contains.size(); ++k) {
          if ((which >> k & 1) != 0)
            key.push_back(contains[k].schema);
          else if (contains[k].max != Shape::kUnbounded)
            key.push_back(contains[k].schema ^ 1u);
        }
        net_.edge_rule(before[at(i, c)], rule_of(std::move(key)), after[at(i + 1, *to)]);
      }
      if (i == 0) continue;
      counted(c, 0, enough);
      if (i < plan.max) net_.edge_rx(after[at(i, c)], comma_, before[at(i, c)]);
      if (enough && i >= plan.min) net_.edge_rx(after[at(i, c)], closing(']'), end);
    }
  }
  bool enough = false;
  counted(0, 0, enough);
  net_.edge_rx(net_.start(rule), opening('['), before[0]);
  if (plan.min == 0 && enough) net_.edge_rx(net_.start(rule), empty("[]"), end);
  return {};
}

// Items that must differ: where they come from a short list, states are the subsets that came already.
Status Emitter::distinct_array(const ArrayPlan& plan, Rule rule, State end) {
  const auto refuse = [&] {
    return c_.document.error(
        Code::unsupported, plan.at, "uniqueItems",
        "is kept only where items come from a list of at most " + std::to_string(kMaxDistinct) + " values");
  };
  if (!plan.listed.empty()) return refuse();
  Key key = plan.rest;
  std::sort(key.begin(), key.end());
  QR_TRY(const std::vector<Shape> shapes, tableau_.expand(key));
  std::map<std::string, Rx> values;
  const auto add = [&](const Json& v) { values.emplace(normal_text(v), value_text_rx(c_, v)); };
  for (const Shape& s : shapes) {
    if (s.values) {
      for (const Json* v : *s.values) add(*v);
      continue;
    }
    if ((s.types & ~(kNull | kTrue | kFalse)) != 0) return refuse();
    if ((s.types & kNull) != 0) add(Json());
    if ((s.types & kTrue) != 0) add(Json(true));
    if ((s.types & kFalse) != 0) add(Json(false));
  }
  if (values.size() > kMaxDistinct) return refuse();
  const size_t n_sets = size_t{1} << values.size();
  QR_TRY_VOID(c_.spend(n_sets * values.size()));
  std::vector<State> before(n_sets), after(n_sets);
  for (State& s : before) s = net_.state(rule);
  for (State& s : after) s = net_.state(rule);
  for (size_t set = 0; set < n_sets; ++set) {
    const auto count = static_cast<uint64_t>(std::popcount(set));
    size_t bit = 1;
    for (const auto& [unused, rx] : values) {
      if ((set & bit) == 0 && count < plan.max) net_.edge_rx(before[set], rx, after[set | bit]);
      bit <<= 1;
    }
    if (set == 0) continue;
    net_.edge_rx(after[set], comma_, before[set]);
    if (count >= plan.min) net_.edge_rx(after[set], closing(']'), end);
  }
  net_.edge_rx(net_.start(rule), opening('['), before[0]);
  if (plan.min == 0) net_.edge_rx(net_.start(rule), empty("[]"), end);
  return {};
}

}  // namespace quire::grammar
