// Objects; see emitter.h. States stand behind the opening brace or a comma (a name comes) and behind a value.
#include <algorithm>
#include <bit>

#include "text/grammar/json_schema/emitter.h"

namespace quire::grammar {

const Json* Emitter::where(const Shape& shape) const {
  return shape.object_groups.empty() ? &c_.document.root() : shape.object_groups[0];
}

// All that the value of a listed name must obey.
Result<Key> Emitter::value_of(const Shape& shape, const std::string& name) {
  Key out;
  for (const Json* group : shape.object_groups) {
    bool known = false;
    if (const Json* part = property(group, name)) {
      out.push_back(c_.sign(part, false));
      known = true;
    }
    if (const Json* patterns = group->find("patternProperties")) {
      for (const auto& [text, part] : *patterns->as_object()) {
        QR_TRY(const Rx rx, c_.pattern(group, "patternProperties", text));
        if (!c_.spells(rx, name)) continue;
        out.push_back(c_.sign(&part, false));
        known = true;
      }
    }
    const Json* rest = group->find("additionalProperties");
    if (rest == nullptr && c_.document.draft() != Draft::draft7) rest = group->find("unevaluatedProperties");
    if (!known && rest != nullptr) out.push_back(c_.sign(rest, false));
  }
  for (const Shape::NamedSchema& n : shape.named) {
    if (n.name == name) out.push_back(n.schema);
  }
  return out;
}

Status Emitter::list_names(const Shape& shape, const Rx* allowed, ObjectPlan& plan) {
  std::set<std::string, std::less<>> seen;
  const std::set<std::string, std::less<>> required(shape.required.begin(), shape.required.end());
  const auto add = [&](const std::string& name, std::vector<Name>& to) -> Status {
    if (!seen.insert(name).second) return {};
    QR_TRY_VOID(c_.spend(1 + shape.object_groups.size()));
    QR_TRY(Key value, value_of(shape, name));
    const bool possible = !shape.forbidden.contains(name) && (allowed == nullptr || c_.spells(*allowed, name));
    const bool needed = required.contains(name);
    if (!possible) value = never();
    if (possible && !c_.spells(c_.syntax.listed_name, name))
      return c_.document.error(Code::unsupported, where(shape), "properties",
                               "\"" + name + "\" is no name that this model's calls can hold");
    if (needed || !is_never(value)) to.push_back({name, std::move(value), needed});
    return {};
  };
  for (const Json* group : shape.object_groups) {
    const Json* own = group->find("properties");
    if (own == nullptr) continue;
    for (const auto& [name, part] : *own->as_object()) {
      QR_TRY_VOID(c_.check_schema(&part));
      QR_TRY_VOID(add(name, plan.names));
    }
  }
  for (const std::string& name : shape.required) {
    QR_TRY_VOID(add(name, plan.loose.size() < kMaxLoose ? plan.loose : plan.names));
  }
  for (const std::string& name : shape.forbidden) seen.insert(name);
  plan_seen_.assign(seen.begin(), seen.end());
  return {};
}

// Names that are not listed, told apart by which patterns they match.
Status Emitter::list_others(const Shape& shape, const Rx* allowed, ObjectPlan& plan) {
  RxStore& rx = c_.rx;
  struct Pattern {
    Rx rx;
    const Json* group;
    Signed value;
  };
  std::vector<Pattern> patterns;
  for (const Json* group : shape.object_groups) {
    const Json* own = group->find("patternProperties");
    if (own == nullptr) continue;
    for (const auto& [text, part] : *own->as_object()) {
      QR_TRY_VOID(c_.check_schema(&part));
      QR_TRY(const Rx p, c_.pattern(group, "patternProperties", text));
      patterns.push_back({p, group, c_.sign(&part, false)});
    }
  }
  if (patterns.size() > kMaxPatterns) {
    return c_.document.error(Code::unsupported, patterns.back().group, "patternProperties",
                             "more than " + std::to_string(kMaxPatterns) + " patterns at once");
  }
  std::vector<Rx> listed;
  for (const std::string& name : plan_seen_) listed.push_back(c_.chars.text(name));
  const Rx unlisted = rx.negate(rx.alt(std::move(listed)));
  for (uint32_t chosen = 0; chosen < 1u << patterns.size(); ++chosen) {
    QR_TRY_VOID(c_.spend(4));
    std::vector<Rx> name{c_.any_string(), unlisted};
    if (c_.syntax.bare) name.push_back(c_.syntax.other_name);
    if (allowed != nullptr) name.push_back(*allowed);
    Key value;
    for (size_t i = 0; i < patterns.size(); ++i) {
      const bool in = (chosen >> i & 1) != 0;
      name.push_back(in ? patterns[i].rx : rx.negate(patterns[i].rx));
      if (in) value.push_back(patterns[i].value);
    }
    for (const Json* group : shape.object_groups) {
      bool known = false;
      for (size_t i = 0; i < patterns.size(); ++i) known |= (chosen >> i & 1) != 0 && patterns[i].group == group;
      const Json* rest = group->find("additionalProperties");
      if (rest == nullptr && c_.document.draft() != Draft::draft7) rest = group->find("unevaluatedProperties");
      if (!known && rest != nullptr) value.push_back(c_.sign(rest, false));
    }
    if (is_never(value)) continue;
    const Rx names = rx.both(std::move(name));
    bool unknown = false;
    if (!rx.alive(names, RxStore::kAliveFuel, unknown)) continue;
    if (unknown)
      return c_.document.error(Code::unsupported, where(shape), "patternProperties", "too many names to tell apart");
    plan.others.push_back({names, std::move(value)});
  }
  return {};
}

Result<Emitter::ObjectPlan> Emitter::plan_object(const Shape& shape) {
  ObjectPlan plan;
  plan.at = where(shape);
  plan.min = shape.min_properties;
  plan.max = shape.max_properties;
  const Rx allowed = shape.names.empty() ? RxStore::kAny : c_.rx.both(shape.names);
  const Rx* only = shape.names.empty() ? nullptr : &allowed;
  QR_TRY_VOID(list_names(shape, only, plan));
  QR_TRY_VOID(list_others(shape, only, plan));
  return plan;
}

Status Emitter::object(const Shape& shape, Rule rule, State end) {
  if (shape.some.size() > kMaxContains) {
    return c_.document.error(Code::unsupported, shape.some.back().at, "",
                             "more than " + std::to_string(kMaxContains) + " properties that must break something");
  }
  QR_TRY(ObjectPlan plan, plan_object(shape));
  if (shape.some.empty()) return object_automaton(std::move(plan), rule, end);
  return with_some(shape, plan, rule, end);
}

// Properties that break a schema: each is a listed one that can, or one of the others breaks all that are left; that
// one comes last, because a name that came twice could make good again.
Status Emitter::with_some(const Shape& shape, const ObjectPlan& plan, Rule rule, State end) {
  const size_t n_names = plan.names.size() + plan.loose.size();
  const auto name_at = [&](ObjectPlan& p, size_t i) -> Name& {
    return i < p.names.size() ? p.names[i] : p.loose[i - p.names.size()];
  };
  size_t n_ways = 1;
  for (size_t k = 0; k < shape.some.size(); ++k) n_ways *= n_names + 1;
  QR_TRY_VOID(c_.spend(n_ways));
  for (size_t way = 0; way < n_ways; ++way) {
    ObjectPlan own = plan;
    std::vector<const Shape::SomeProperty*> left;
    bool fits = true;
    size_t digits = way;
    for (const Shape::SomeProperty& some : shape.some) {
      const size_t i = digits % (n_names + 1);
      digits /= n_names + 1;
      if (i == n_names) {
        left.push_back(&some);
        continue;
      }
      Name& name = name_at(own, i);
      fits = fits && c_.spells(some.name, name.text);
      name.required = true;
      name.value.insert(name.value.end(), some.value.begin(), some.value.end());
    }
    if (!fits) continue;
    QR_TRY_VOID(c_.spend(n_names));
    if (left.empty()) {
      QR_TRY_VOID(object_automaton(std::move(own), rule, end));
      continue;
    }
    for (const Other& other : plan.others) {
      Other last = other;
      for (const Shape::SomeProperty* some : left) {
        last.name = c_.rx.both({last.name, some->name});
        last.value.insert(last.value.end(), some->value.begin(), some->value.end());
      }
      if (!c_.rx.alive(last.name)) continue;
      own.some = std::move(last);
      QR_TRY_VOID(object_automaton(own, rule, end));
    }
  }
  return {};
}

// Where in an object the automaton stands: first by the next listed name; behind the last of those by the loose names
// that came, twice, for whether one of the others came. Times the properties counted so far.
struct Emitter::ObjectStates {
  size_t n_listed = 0, n_loose = 0;
  bool limited = false;  // there is a greatest number
  uint64_t min = 0, max = Shape::kUnbounded, counted = 0;
  std::vector<State> before, after;  // behind "{" or ",", and behind a value

  size_t n_places() const { return n_listed + (size_t{2} << n_loose); }
  size_t width() const { return static_cast<size_t>(counted) + 1; }
  size_t at(size_t place, uint64_t count) const { return place * width() + static_cast<size_t>(count); }
  size_t behind(size_t loose_set, bool other) const { return n_listed + loose_set * 2 + (other ? 1 : 0); }
  uint64_t up(uint64_t count) const { return limited ? count + 1 : std::min(count + 1, counted); }
};

Status Emitter::check_counts(const ObjectPlan& plan, ObjectStates& s) const {
  const auto refuse = [&](std::string_view keyword, std::string_view what) {
    return c_.document.error(Code::unsupported, plan.at, keyword, what);
  };
  const uint64_t n = plan.names.size() + plan.loose.size();
  const auto sure = plan.loose.size() + static_cast<uint64_t>(std::count_if(plan.names.begin(), plan.names.end(),
                                                                            [](const Name& x) { return x.required; }));
  const bool others = !plan.others.empty() || plan.some.has_value();
  s.n_listed = plan.names.size();
  s.n_loose = plan.loose.size();
  s.min = plan.min <= sure ? 0 : plan.min;
  s.max = !others && plan.max >= n ? Shape::kUnbounded : plan.max;
  s.limited = s.max != Shape::kUnbounded;
  if (s.min > 1 && others && s.limited)
    return refuse("minProperties", "not supported beside maxProperties where names are free");
  if (s.min > n + 1 && others) return refuse("minProperties", "above 1 where names are free: they could be the same");
  s.counted = s.limited ? s.max : std::min(s.min, n + 1);
  if (s.counted == 0 && s.n_places() > kMaxUnrolled * 8)
    return refuse("properties", "has more than " + std::to_string(kMaxUnrolled * 8) + " names");
  if (s.counted > kMaxUnrolled || s.width() * s.n_places() > kMaxUnrolled * 8) {
    return refuse(s.limited ? "maxProperties" : "minProperties", "is more than can be counted");
  }
  return {};
}

Status Emitter::object_automaton(ObjectPlan plan, Rule rule, State end) {
  ObjectStates s;
  QR_TRY_VOID(check_counts(plan, s));
  if (s.min > plan.names.size() + plan.loose.size() && plan.others.empty() && !plan.some) return {};
  QR_TRY_VOID(c_.spend(s.width() * (s.n_places() + plan.others.size())));
  s.before.resize(s.n_places() * s.width());
  s.after.resize(s.before.size());
  for (State& state : s.before) state = net_.state(rule);
  for (State& state : s.after) state = net_.state(rule);
  join_states(plan, s, rule, end);
  net_.edge_rx(net_.start(rule), opening('{'), s.before[s.at(0, 0)]);
  const bool may_be_empty =
      s.min == 0 && plan.loose.empty() && !plan.some &&
      std::none_of(plan.names.begin(), plan.names.end(), [](const Name& x) { return x.required; });
  if (may_be_empty) net_.edge_rx(net_.start(rule), empty("{}"), end);
  return {};
}

void Emitter::join_states(const ObjectPlan& plan, const ObjectStates& s, Rule rule, State end) {
  const auto property = [&](State from, Rx name, const Key& value, State to) {
    const State middle = net_.state(rule);
    const Rx quote = c_.syntax.bare ? RxStore::kEmpty : c_.syntax.quote;
    net_.edge_rx(from, c_.rx.cat({quote, name, quote, colon_}), middle);
    net_.edge_rule(middle, rule_of(value), to);
  };
  const size_t n = s.n_listed, all_loose = (size_t{1} << s.n_loose) - 1;
  size_t last_required = 0;  // behind this place no listed name is required
  for (size_t i = 0; i < n; ++i) {
    if (plan.names[i].required) last_required = i + 1;
  }
  for (uint64_t c = 0; c < s.width(); ++c) {
    const bool room = !s.limited || c < s.max;
    for (size_t i = 0; i < n; ++i) {
      const Name& name = plan.names[i];
      const State from = s.before[s.at(i, c)];
      if (room) property(from, c_.chars.text(name.text), name.value, s.after[s.at(i + 1, s.up(c))]);
      if (!name.required) net_.edge(from, s.before[s.at(i + 1, c)]);
    }
    for (size_t place = n; place < s.n_places(); ++place) {
      const size_t came = (place - n) / 2;
      const bool other_came = (place - n) % 2 != 0;
      const State from = s.before[s.at(place, c)];
      for (size_t k = 0; k < s.n_loose && room; ++k) {
        if ((came >> k & 1) != 0) continue;
        const size_t to = s.behind(came | size_t{1} << k, other_came);
        property(from, c_.chars.text(plan.loose[k].text), plan.loose[k].value, s.after[s.at(to, s.up(c))]);
      }
      // Another of the others counts where there is a limit; towards a least number it may be the same again.
      const uint64_t count = s.limited || !other_came ? s.up(c) : c;
      for (const Other& o : plan.others) {
        if (room) property(from, o.name, o.value, s.after[s.at(s.behind(came, true), count)]);
      }
      if (plan.some && room && came == all_loose && count >= s.min) {
        const State last = net_.state(rule);
        property(from, plan.some->name, plan.some->value, last);
        net_.edge_rx(last, closing('}'), end);
      }
    }
    for (size_t place = 0; place < s.n_places(); ++place) {
      const State from = s.after[s.at(place, c)];
      if (room) net_.edge_rx(from, comma_, s.before[s.at(place, c)]);
      const bool whole = place < n ? place >= last_required && s.n_loose == 0 : (place - n) / 2 == all_loose;
      if (whole && c >= s.min && !plan.some) net_.edge_rx(from, closing('}'), end);
    }
  }
}

}  // namespace quire::grammar
