// Tests: what stands behind `is`.
#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

using Predicate = bool (*)(const Value&);

template <Predicate predicate>
bool kind_test(const Call& call, Value& out) {
  out = make_bool(predicate(call.self));
  return true;
}

bool is_defined(const Value& v) { return !v.is(Kind::undefined); }
bool is_undefined(const Value& v) { return v.is(Kind::undefined); }
bool is_none(const Value& v) { return v.is(Kind::none); }
bool is_boolean(const Value& v) { return v.is(Kind::boolean); }
bool is_exactly_true(const Value& v) { return v.is(Kind::boolean) && v.b; }
bool is_exactly_false(const Value& v) { return v.is(Kind::boolean) && !v.b; }
bool is_integer(const Value& v) { return v.is(Kind::integer); }
bool is_float(const Value& v) { return v.is(Kind::real); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.is(Kind::dict); }
bool is_escaped(const Value& v) { return v.is_text() && v.s->markup; }

bool is_callable(const Value& v) {
  return v.is(Kind::macro) || v.is(Kind::builtin) || v.is(Kind::bound) || v.is(Kind::undefined);
}

bool is_iterable(const Value& v) {
  return v.is_text() || v.is(Kind::seq) || v.is(Kind::dict) || v.is(Kind::undefined) || v.is(Kind::loop);
}

// What has a length and elements by index; undefined counts, as it does in Jinja.
bool is_sequence(const Value& v) {
  if (!v.is(Kind::seq)) return v.is_text() || v.is(Kind::dict) || v.is(Kind::undefined);
  const SeqKind k = v.seq->kind;
  return k == SeqKind::list || k == SeqKind::tuple || k == SeqKind::range || k == SeqKind::group;
}

template <Operator op>
bool compare_test(const Call& call, Value& out) {
  bool result = false;
  if (!compare(call.in, op, call.self, call[0], result)) return false;
  out = make_bool(result);
  return true;
}

// self % divisor == wanted
bool leaves(const Call& call, int64_t divisor, int64_t wanted, Value& out) {
  Value rest;
  bool same = false;
  if (call.self.is_text()) return call.in.fail("the test needs a number");
  if (!binary(call.in, Operator::mod, call.self, make_int(divisor), rest)) return false;
  if (!equal(call.in, rest, make_int(wanted), same)) return false;
  out = make_bool(same);
  return true;
}

template <int64_t wanted>
bool parity_test(const Call& call, Value& out) {
  return leaves(call, 2, wanted, out);
}

bool divisible_test(const Call& call, Value& out) {
  int64_t divisor = 0;
  return want_int(call, call[0], "divisibleby: the divisor", divisor) && leaves(call, divisor, 0, out);
}

// str.isupper and str.islower: some letter has the case and none the other.
template <bool upper>
bool case_test(const Call& call, Value& out) {
  const Str* s = nullptr;
  if (!to_str(call.in, call.self, s) || !call.in.scan(s->text.size())) return false;
  bool some = false, other = false;
  for (size_t at = 0; at < s->text.size();) {
    const char32_t cp = next_code_point(s->text, at);
    some = some || (upper ? is_upper(cp) : is_lower(cp));
    other = other || (upper ? is_lower(cp) : is_upper(cp));
  }
  out = make_bool(some && !other);
  return true;
}

// `is` of Python: the same object, or the same scalar.
bool sameas_test(const Call& call, Value& out) {
  const Value &a = call.self, &b = call[0];
  if (a.kind != b.kind) {
    out = make_bool(false);
    return true;
  }
  if (a.is(Kind::seq) || a.is(Kind::dict) || a.is(Kind::space)) {
    out = make_bool(a.seq == b.seq);
    return true;
  }
  bool same = false;
  if (!equal(call.in, a, b, same)) return false;
  out = make_bool(same);
  return true;
}

template <const Builtin* (*find)(std::string_view)>
bool exists_test(const Call& call, Value& out) {
  const Str* name = nullptr;
  if (!want_text(call, call.self, "the name", name)) return false;
  out = make_bool(find(name->text) != nullptr);
  return true;
}

constexpr Builtin kTests[] = {
    {"defined", kind_test<is_defined>},
    {"undefined", kind_test<is_undefined>},
    {"none", kind_test<is_none>},
    {"boolean", kind_test<is_boolean>},
    {"true", kind_test<is_exactly_true>},
    {"false", kind_test<is_exactly_false>},
    {"integer", kind_test<is_integer>},
    {"float", kind_test<is_float>},
    {"number", kind_test<is_number>},
    {"string", kind_test<is_string>},
    {"mapping", kind_test<is_mapping>},
    {"iterable", kind_test<is_iterable>},
    {"sequence", kind_test<is_sequence>},
    {"callable", kind_test<is_callable>},
    {"escaped", kind_test<is_escaped>},
    {"upper", case_test<true>},
    {"lower", case_test<false>},
    {"odd", parity_test<1>},
    {"even", parity_test<0>},
    {"divisibleby", divisible_test, 1, {"num"}},
    {"sameas", sameas_test, 1, {"other"}},
    {"in", compare_test<Operator::in>, 1, {"seq"}},
    {"==", compare_test<Operator::eq>, 1, {"b"}},
    {"eq", compare_test<Operator::eq>, 1, {"b"}},
    {"equalto", compare_test<Operator::eq>, 1, {"b"}},
    {"!=", compare_test<Operator::ne>, 1, {"b"}},
    {"ne", compare_test<Operator::ne>, 1, {"b"}},
    {">", compare_test<Operator::gt>, 1, {"b"}},
    {"gt", compare_test<Operator::gt>, 1, {"b"}},
    {"greaterthan", compare_test<Operator::gt>, 1, {"b"}},
    {">=", compare_test<Operator::ge>, 1, {"b"}},
    {"ge", compare_test<Operator::ge>, 1, {"b"}},
    {"<", compare_test<Operator::lt>, 1, {"b"}},
    {"lt", compare_test<Operator::lt>, 1, {"b"}},
    {"lessthan", compare_test<Operator::lt>, 1, {"b"}},
    {"<=", compare_test<Operator::le>, 1, {"b"}},
    {"le", compare_test<Operator::le>, 1, {"b"}},
    {"filter", exists_test<find_filter>},
    {"test", exists_test<find_test>},
};

}  // namespace

std::span<const Builtin> value_tests() { return kTests; }

}  // namespace quire::jinja
