// Finding builtins, binding their arguments, and attributes of values.
#include "text/jinja/builtins.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "text/jinja/ops.h"

namespace quire::jinja {
namespace {

using Index = std::unordered_map<std::string_view, const Builtin*>;

Index make_index(std::initializer_list<std::span<const Builtin>> tables) {
  Index index;
  for (const auto& table : tables) {
    for (const Builtin& b : table) {
      const bool fresh = index.emplace(b.name, &b).second;
      QR_CHECK(fresh, "builtin named twice: " + std::string(b.name));
    }
  }
  return index;
}

constexpr size_t kMaxName = 64;  // of a builtin: longer ones are not even hashed

const Builtin* find_in(const Index& index, std::string_view name) {
  if (name.size() > kMaxName) return nullptr;
  const auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

using MethodIndex = std::unordered_map<std::string_view, MethodSet>;

MethodIndex make_method_index() {
  MethodIndex index;
  for (const Builtin& b : text_methods()) index[b.name].text = &b;
  for (const Builtin& b : text_query_methods()) index[b.name].text = &b;
  for (const Builtin& b : list_methods()) index[b.name].list = &b;
  for (const Builtin& b : tuple_methods()) index[b.name].tuple = &b;
  for (const Builtin& b : dict_methods()) index[b.name].dict = &b;
  return index;
}

bool argument_error(Context& in, const Builtin& fn, const std::string& what) {
  return in.fail(std::string(fn.name) + ": " + what);
}

bool bind(Context& in, const Builtin& fn, const Given& given, std::span<Value> out) {
  if (given.args.size() > out.size()) {
    return argument_error(in, fn,
                          "takes at most " + std::to_string(out.size()) + " arguments, " +
                              std::to_string(given.args.size()) + " were given");
  }
  std::copy(given.args.begin(), given.args.end(), out.begin());
  for (const Named& n : given.named) {
    const auto end = fn.params.begin() + static_cast<std::ptrdiff_t>(out.size());
    const auto i = static_cast<size_t>(std::find(fn.params.begin(), end, n.name->text) - fn.params.begin());
    const std::string name = "'" + excerpt(n.name->text, 100) + "'";
    if (i == out.size()) return argument_error(in, fn, "has no argument " + name);
    if (!out[i].is(Kind::absent)) return argument_error(in, fn, "argument " + name + " was given twice");
    out[i] = n.value;
  }
  for (size_t i = 0; i < static_cast<size_t>(fn.n_required); ++i) {
    if (out[i].is(Kind::absent)) {
      return argument_error(in, fn, "argument '" + std::string(fn.params[i]) + "' is missing");
    }
  }
  return true;
}

Value bound_method(Context& in, const Builtin& method, const Value& self) {
  Value v;
  v.kind = Kind::bound;
  v.bound = in.arena().make<Bound>(&method, self);
  return v;
}

}  // namespace

bool call_builtin(Context& in, const Builtin& fn, const Value& self, const Given& given, Value& out) {
  if (fn.params[0] == kAnyParams) return fn.fn({in, self, given.args, given.named}, out);
  std::array<Value, std::tuple_size_v<decltype(fn.params)>> bound;
  const auto n_params =
      static_cast<size_t>(std::find(fn.params.begin(), fn.params.end(), std::string_view()) - fn.params.begin());
  const std::span<Value> values(bound.data(), n_params);
  return bind(in, fn, given, values) && fn.fn({in, self, values, {}}, out);
}

const Builtin* find_filter(std::string_view name) {
  static const Index index = make_index({text_filters(), list_filters(), select_filters(), number_filters()});
  return find_in(index, name);
}

const Builtin* find_test(std::string_view name) {
  static const Index index = make_index({value_tests()});
  return find_in(index, name);
}

const Builtin* find_global(std::string_view name) {
  static const Index index = make_index({global_functions()});
  return find_in(index, name);
}

const MethodSet* find_methods(std::string_view name) {
  static const MethodIndex index = make_method_index();
  if (name.size() > kMaxName) return nullptr;  // a key of any length may be asked for
  const auto it = index.find(name);
  return it == index.end() ? nullptr : &it->second;
}

const Builtin* MethodSet::of(const Value& v) const {
  switch (v.kind) {
    case Kind::string: return text;
    case Kind::dict: return dict;
    case Kind::seq:
      if (v.seq->kind == SeqKind::list) return list;
      return v.seq->kind == SeqKind::tuple || v.seq->kind == SeqKind::group ? tuple : nullptr;
    default: return nullptr;
  }
}

bool get_attribute(Context& in, const Value& v, const Str& name, const MethodSet* methods, Value& out) {
  if (v.is(Kind::undefined)) return in.fail_undefined(v);
  if (name.text.starts_with("__")) {
    out = make_undefined(Lack::unsafe, &name, v.kind);
    return true;
  }
  if (const Builtin* method = methods ? methods->of(v) : nullptr) {
    out = bound_method(in, *method, v);
    return true;
  }
  out = make_undefined(Lack::attribute, &name, v.kind);
  if (v.is(Kind::dict) || v.is(Kind::space)) {
    Value* slot = nullptr;
    if (!lookup(in, *v.dict, make_string(&name), slot)) return false;
    if (slot) out = *slot;
  } else if (v.is(Kind::seq) && v.seq->kind == SeqKind::group) {
    if (name.text == "grouper") out = v.seq->items[0];
    if (name.text == "list") out = v.seq->items[1];
  }
  return true;
}

bool get_subscript(Context& in, const Value& v, const Value& key, Value& out) {
  if (!get_item(in, v, key, out)) return false;
  const bool found = !out.is(Kind::undefined) || out.lack != Lack::element;
  if (found || !key.is_text()) return true;
  if (v.is(Kind::dict)) {  // only methods are left to look for
    const MethodSet* methods = find_methods(key.s->text);
    if (methods && methods->dict) out = bound_method(in, *methods->dict, v);
    return true;
  }
  return get_attribute(in, v, *key.s, find_methods(key.s->text), out);
}

bool want_text(const Call& call, const Value& v, std::string_view what, const Str*& out) {
  if (v.is(Kind::undefined)) return call.in.fail_undefined(v);
  if (!v.is_text()) {
    return call.in.fail(std::string(what) + " must be a string, not '" + std::string(kind_name(v)) + "'");
  }
  out = v.s;
  return true;
}

bool want_int(const Call& call, const Value& v, std::string_view what, int64_t& out) {
  if (v.is(Kind::undefined)) return call.in.fail_undefined(v);
  if (!v.is_whole()) {
    return call.in.fail(std::string(what) + " must be an integer, not '" + std::string(kind_name(v)) + "'");
  }
  out = v.whole();
  return true;
}

bool int_or(const Call& call, size_t i, int64_t otherwise, int64_t& out) {
  out = otherwise;
  return !call.given(i) || want_int(call, call[i], "an argument", out);
}

}  // namespace quire::jinja
