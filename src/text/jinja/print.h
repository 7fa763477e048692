// Values as text: str(), repr() and json.dumps() as Python writes them.
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/context.h"
#include "text/jinja/value.h"

namespace quire::jinja {

// str(v): strings are themselves with their provenance, undefined is empty; lists and dicts are written as repr does,
// and count as the user's as a whole if any string in them does.
bool to_str(Context& in, const Value& v, const Str*& out);
bool to_repr(Context& in, const Value& v, const Str*& out);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string_view indent;  // of one level
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};
bool to_json(Context& in, const Value& v, const JsonStyle& style, const Str*& out);

void append_repr(std::string& out, std::string_view text);
void append_float(std::string& out, double v);  // repr(float)

}  // namespace quire::jinja
