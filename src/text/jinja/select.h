// Keys of elements (attribute paths, case) and what is done by key: sorting, selecting. Shared by list filters.
#pragma once
#include "text/jinja/context.h"
#include "text/jinja/value.h"

namespace quire::jinja {

struct KeyOf {
  Value attribute{};         // absent: the element itself; a name, a dotted path, or an index
  Value otherwise{};         // absent: undefined where the attribute is missing
  bool ignore_case = false;  // strings compare as lower case
  bool many = false;         // `attribute` may be several paths with commas between: the key is a tuple, of one too
  bool reverse = false;
};
bool key_of(Context& in, const KeyOf& key, const Value& element, Value& out);

// A new list in stable order of the keys.
bool sort_values(Context& in, const Seq& items, const KeyOf& key, Seq*& out);

bool dict_items(Context& in, const Dict& dict, SeqKind kind, Seq*& out);  // (key, value) tuples
bool join_values(Context& in, const Seq& items, const Str& separator, Value& out);

}  // namespace quire::jinja
