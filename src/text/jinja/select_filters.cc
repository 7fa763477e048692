// Filters that choose or map elements by attribute, filter or test, and those that choose a value.
#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/select.h"

namespace quire::jinja {
namespace {

bool default_filter(const Call& call, Value& out) {
  static constexpr Str kEmpty{};
  const bool falsy = call.given(1) && is_true(call[1]);
  out = call.self;
  if (!call.self.is(Kind::undefined) && !(falsy && !is_true(call.self))) return true;
  out = call.given(0) ? call[0] : make_string(&kEmpty);
  return true;
}

// x | attr("name"): an attribute, never an item.
bool attr_filter(const Call& call, Value& out) {
  const Str* name = nullptr;
  if (!want_text(call, call[0], "attr: the name", name)) return false;
  if (call.self.is(Kind::dict)) {
    const MethodSet* methods = find_methods(name->text);
    out = make_undefined(Lack::attribute, name, Kind::dict);
    return !(methods && methods->dict) || get_attribute(call.in, call.self, *name, methods, out);
  }
  return get_attribute(call.in, call.self, *name, find_methods(name->text), out);
}

const Value* named_argument(const Call& call, std::string_view name) {
  for (const Named& n : call.named) {
    if (n.name->text == name) return &n.value;
  }
  return nullptr;
}

// The filter or test that args[i] names; the rest of args are its arguments.
bool named_builtin(const Call& call, size_t i, const Builtin* (*find)(std::string_view), const Builtin*& out) {
  const Str* name = nullptr;
  if (i >= call.args.size()) return call.in.fail("a filter's or test's name is missing");
  if (!want_text(call, call.args[i], "the name of a filter or test", name)) return false;
  out = find(name->text);
  return out || call.in.fail("there is no filter or test '" + excerpt(name->text, 100) + "'");
}

// What falsy values give, None too: Jinja does not even look at the arguments.
bool nothing(const Call& call, Value& out) {
  out = make_seq(new_seq(call.in.arena(), SeqKind::generator, 0));
  return true;
}

// map('filter', …) and map(attribute='path', default=…)
bool map_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  const Builtin* filter = nullptr;
  const Value* attribute = named_argument(call, "attribute");
  const Value* otherwise = named_argument(call, "default");
  const bool by_attribute = call.args.empty() && attribute;
  if (!is_true(call.self)) return nothing(call, out);
  if (!by_attribute && !named_builtin(call, 0, find_filter, filter)) return false;
  if (!iterate(call.in, call.self, items)) return false;
  KeyOf key;
  if (by_attribute) key.attribute = *attribute;
  if (by_attribute && otherwise) key.otherwise = *otherwise;
  Seq* mapped = new_seq(call.in.arena(), SeqKind::generator, items->size);
  for (size_t i = 0; i < items->size; ++i) {
    Value v;
    if (!call.in.step()) return false;
    const bool ok = by_attribute
                        ? key_of(call.in, key, items->items[i], v)
                        : call_builtin(call.in, *filter, items->items[i], {call.args.subspan(1), call.named}, v);
    if (!ok) return false;
    push(call.in.arena(), *mapped, v);
  }
  out = make_seq(mapped);
  return true;
}

struct Choice {
  bool wanted;        // keep what the test says yes to
  bool by_attribute;  // the first argument is an attribute
};

bool choose(const Call& call, Choice choice, Value& out) {
  if (!is_true(call.self)) return nothing(call, out);
  Seq* items = nullptr;
  KeyOf key;
  const size_t first = choice.by_attribute ? 1 : 0;
  if (choice.by_attribute && call.args.empty()) return call.in.fail("an attribute's name is missing");
  if (choice.by_attribute) key.attribute = call.args[0];
  const Builtin* test = nullptr;
  if (call.args.size() > first && !named_builtin(call, first, find_test, test)) return false;
  if (!iterate(call.in, call.self, items)) return false;
  Seq* chosen = new_seq(call.in.arena(), SeqKind::generator, 0);
  for (size_t i = 0; i < items->size; ++i) {
    Value v, verdict;
    if (!call.in.step() || !key_of(call.in, key, items->items[i], v)) return false;
    verdict = v;
    if (test && !call_builtin(call.in, *test, v, {call.args.subspan(first + 1), call.named}, verdict)) return false;
    if (is_true(verdict) == choice.wanted) push(call.in.arena(), *chosen, items->items[i]);
  }
  out = make_seq(chosen);
  return true;
}

bool select_filter(const Call& call, Value& out) { return choose(call, {.wanted = true, .by_attribute = false}, out); }
bool reject_filter(const Call& call, Value& out) { return choose(call, {.wanted = false, .by_attribute = false}, out); }
bool selectattr_filter(const Call& call, Value& out) {
  return choose(call, {.wanted = true, .by_attribute = true}, out);
}
bool rejectattr_filter(const Call& call, Value& out) {
  return choose(call, {.wanted = false, .by_attribute = true}, out);
}

constexpr Builtin kFilters[] = {
    {"default", default_filter, 0, {"default_value", "boolean"}},
    {"d", default_filter, 0, {"default_value", "boolean"}},
    {"attr", attr_filter, 1, {"name"}},
    {"map", map_filter, 0, {kAnyParams}},
    {"select", select_filter, 0, {kAnyParams}},
    {"reject", reject_filter, 0, {kAnyParams}},
    {"selectattr", selectattr_filter, 0, {kAnyParams}},
    {"rejectattr", rejectattr_filter, 0, {kAnyParams}},
};

}  // namespace

std::span<const Builtin> select_filters() { return kFilters; }

}  // namespace quire::jinja
