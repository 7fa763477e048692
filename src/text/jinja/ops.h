// Python's operators on values. Functions that return bool and take a Context fail with a message in it.
#pragma once
#include <span>

#include "text/jinja/context.h"
#include "text/jinja/value.h"

namespace quire::jinja {

enum class Operator : uint8_t { add, sub, mul, div, floor_div, mod, pow, eq, ne, lt, le, gt, ge, in, not_in };

bool is_true(const Value& v);

bool binary(Context& in, Operator op, const Value& a, const Value& b, Value& out);
bool negate(Context& in, const Value& v, Value& out);

bool equal(Context& in, const Value& a, const Value& b, bool& out);
bool less(Context& in, const Value& a, const Value& b, bool& out);  // also sort's order
bool compare(Context& in, Operator op, const Value& a, const Value& b, bool& out);
bool contains(Context& in, const Value& container, const Value& item, bool& out);

// Fails for lists and dicts, and for tuples that hold one: they cannot be keys.
bool check_hashable(Context& in, const Value& v);
// dict[key]: nullptr in `out` when the key is absent.
bool lookup(Context& in, const Dict& dict, const Value& key, Value*& out);
bool store(Context& in, Dict& dict, const Value& key, const Value& value);

bool length(Context& in, const Value& v, size_t& out);
// The elements of anything that a for loop accepts. A generator is emptied; a list is returned itself, not a copy.
bool iterate(Context& in, const Value& v, Seq*& out);

// v[key] without attributes: undefined when there is no such element, or v has none.
bool get_item(Context& in, const Value& v, const Value& key, Value& out);
struct SliceBounds {
  Value start, stop, step;  // absent or None: not given
};
bool get_slice(Context& in, const Value& v, const SliceBounds& bounds, Value& out);

// Pieces one after the other, each with its provenance.
bool concat(Context& in, std::span<const Str* const> pieces, const Str*& out);
bool escape_html(Context& in, const Str& s, const Str*& out);  // marked as markup

}  // namespace quire::jinja
