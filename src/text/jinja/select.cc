#include "text/jinja/select.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace quire::jinja {
namespace {

// element.a.0.b, each part found as element[part] is.
bool follow_path(Context& in, std::string_view path, const Value& element, Value& out) {
  out = element;
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index =
        !part.empty() && part[0] != '-' && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    const Value key = is_index ? make_int(index) : make_string(view_str(in.arena(), part, false));
    Value next;
    if (!in.step() || !get_subscript(in, out, key, next)) return false;
    out = next;
    if (dot == std::string_view::npos) return true;
    path.remove_prefix(dot + 1);
  }
}

bool one_key(Context& in, const KeyOf& key, std::string_view path, const Value& element, Value& out) {
  if (key.attribute.is(Kind::absent)) {
    out = element;
  } else if (key.attribute.is_text()) {
    if (!follow_path(in, path, element, out)) return false;
  } else if (!get_subscript(in, element, key.attribute, out)) {
    return false;
  }
  if (out.is(Kind::undefined) && !key.otherwise.is(Kind::absent) && !key.otherwise.is(Kind::none)) out = key.otherwise;
  if (!key.ignore_case || !out.is_text()) return true;
  const Str* lower = nullptr;
  if (!change_case(in, *out.s, Casing::lower, lower)) return false;
  out = make_string(lower);
  return true;
}

struct Keyed {
  Value key;
  Value value;
};

// Bottom-up merge sort: stable, and safe with comparisons that fail half-way.
bool merge_sort(Context& in, std::vector<Keyed>& items, bool reverse) {
  std::vector<Keyed> other(items.size());
  for (size_t width = 1; width < items.size(); width *= 2) {
    for (size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, items.size()), end = std::min(begin + 2 * width, items.size());
      size_t a = begin, b = middle;
      for (size_t to = begin; to < end; ++to) {
        bool takes_b = a == middle;
        if (a < middle && b < end) {
          const bool ok =
              reverse ? less(in, items[a].key, items[b].key, takes_b) : less(in, items[b].key, items[a].key, takes_b);
          if (!ok) return false;
        }
        other[to] = takes_b ? items[b++] : items[a++];
      }
    }
    items.swap(other);
  }
  return true;
}

}  // namespace

bool key_of(Context& in, const KeyOf& key, const Value& element, Value& out) {
  const std::string_view path = key.attribute.is_text() ? key.attribute.s->text : std::string_view();
  if (!key.many) return one_key(in, key, path, element, out);
  Seq* parts = new_seq(in.arena(), SeqKind::tuple, 0);
  for (size_t at = 0; at <= path.size();) {
    const size_t comma = std::min(path.find(',', at), path.size());
    Value part;
    if (!one_key(in, key, path.substr(at, comma - at), element, part)) return false;
    push(in.arena(), *parts, part);
    at = comma + 1;
  }
  out = make_seq(parts);
  return true;
}

bool sort_values(Context& in, const Seq& items, const KeyOf& key, Seq*& out) {
  if (!in.step(static_cast<int64_t>(items.size)) || !in.fits(items.size * 3 * sizeof(Keyed))) return false;
  std::vector<Keyed> keyed(items.size);
  for (size_t i = 0; i < items.size; ++i) {
    keyed[i].value = items.items[i];
    if (!key_of(in, key, items.items[i], keyed[i].key)) return false;
  }
  if (!merge_sort(in, keyed, key.reverse)) return false;
  out = new_seq(in.arena(), SeqKind::list, items.size);
  for (const Keyed& k : keyed) push(in.arena(), *out, k.value);
  return true;
}

bool dict_items(Context& in, const Dict& dict, SeqKind kind, Seq*& out) {
  if (!in.step(static_cast<int64_t>(dict.size))) return false;
  out = new_seq(in.arena(), kind, dict.size);
  for (size_t i = 0; i < dict.size; ++i) {
    Seq* pair = new_seq(in.arena(), SeqKind::tuple, 2);
    push(in.arena(), *pair, dict.entries[i].key);
    push(in.arena(), *pair, dict.entries[i].value);
    push(in.arena(), *out, make_seq(pair));
  }
  return true;
}

bool join_values(Context& in, const Seq& items, const Str& separator, Value& out) {
  std::vector<const Str*> pieces;
  pieces.reserve(items.size * 2);
  for (size_t i = 0; i < items.size; ++i) {
    if (!in.step()) return false;
    if (i > 0) pieces.push_back(&separator);
    if (!to_str(in, items.items[i], pieces.emplace_back())) return false;
  }
  const Str* joined = nullptr;
  if (!concat(in, pieces, joined)) return false;
  out = make_string(joined);
  return true;
}

}  // namespace quire::jinja
