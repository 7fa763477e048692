// Filters, tests, methods and global functions: plain functions in tables, one table per file. They see a Context and
// values, never the interpreter or the program. To add one, add its line to the table of its file.
#pragma once
#include <array>
#include <span>
#include <string_view>

#include "text/jinja/context.h"
#include "text/jinja/value.h"

namespace quire::jinja {

struct Named {
  const Str* name;
  Value value;
};

// One call. With declared parameters, args has one value for each, absent where the caller gave none.
struct Call {
  Context& in;
  const Value& self;  // the filtered or tested value, or the method's object; absent for global functions
  std::span<const Value> args;
  std::span<const Named> named;

  const Value& operator[](size_t i) const { return args[i]; }
  bool given(size_t i) const { return args[i].kind != Kind::absent; }
};

using BuiltinFn = bool (*)(const Call&, Value& out);

inline constexpr std::string_view kAnyParams = "*";  // as the first parameter: the function reads args and named itself

struct Builtin {
  std::string_view name;
  BuiltinFn fn;
  int n_required = 0;
  std::array<std::string_view, 5> params{};
};

// What a caller gave.
struct Given {
  std::span<const Value> args;
  std::span<const Named> named;
};
bool call_builtin(Context& in, const Builtin& fn, const Value& self, const Given& given, Value& out);

// nullptr when there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);

// The methods of one name on each type that has one.
struct MethodSet {
  const Builtin* text = nullptr;
  const Builtin* list = nullptr;
  const Builtin* tuple = nullptr;
  const Builtin* dict = nullptr;
  const Builtin* of(const Value& v) const;
};
const MethodSet* find_methods(std::string_view name);

// v.name: methods first, then items, as Jinja does. `methods` is find_methods(name). Loops are not handled here.
bool get_attribute(Context& in, const Value& v, const Str& name, const MethodSet* methods, Value& out);
// v[key]: items first, then methods.
bool get_subscript(Context& in, const Value& v, const Value& key, Value& out);

// The tables, one of each file.
std::span<const Builtin> text_filters();
std::span<const Builtin> list_filters();
std::span<const Builtin> select_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> value_tests();
std::span<const Builtin> global_functions();
std::span<const Builtin> text_methods();
std::span<const Builtin> text_query_methods();
std::span<const Builtin> list_methods();
std::span<const Builtin> tuple_methods();
std::span<const Builtin> dict_methods();

// Arguments -------------------------------------------------------------------------------------------------------
bool want_text(const Call& call, const Value& v, std::string_view what, const Str*& out);
bool want_int(const Call& call, const Value& v, std::string_view what, int64_t& out);
// The value of an optional integer argument.
bool int_or(const Call& call, size_t i, int64_t otherwise, int64_t& out);

}  // namespace quire::jinja
