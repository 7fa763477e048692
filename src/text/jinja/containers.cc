// Elements of values: lookup, slices, membership, iteration, joining.
#include <algorithm>
#include <limits>

#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

constexpr size_t kScanPerStep = 32;  // dict entries or list items passed for one step of fuel

bool type_error(Context& in, const Value& v, std::string_view what) {
  return in.fail("a value of type '" + std::string(kind_name(v)) + "' " + std::string(what));
}

Seq* characters(Context& in, const Str& s) {
  Arena& arena = in.arena();
  Seq* seq = new_seq(arena, SeqKind::list, 0);
  Str plain = s;  // the characters of markup are no markup
  plain.markup = false;
  for (size_t at = 0; at < s.text.size();) {
    const size_t start = at;
    next_code_point(s.text, at);
    if (!in.step()) return nullptr;
    const bool whole = start == 0 && at == s.text.size();
    push(arena, *seq, make_string(whole ? arena.make<Str>(plain) : slice_str(arena, plain, start, at)));
  }
  return seq;
}

// Python's index into something of n elements; false when outside.
bool resolve_index(int64_t index, size_t n, size_t& out) {
  const auto size = static_cast<int64_t>(n);
  if (index < 0) index += size;
  out = static_cast<size_t>(index);
  return index >= 0 && index < size;
}

struct Walk {
  int64_t start = 0, step = 1;
  size_t count = 0;
};

bool bound_value(Context& in, const Value& v, bool& given, int64_t& out) {
  given = !v.is(Kind::absent) && !v.is(Kind::none);
  if (!given) return true;
  if (v.is(Kind::undefined)) return in.fail_undefined(v);
  if (!v.is_whole()) return type_error(in, v, "cannot be a slice bound");
  out = v.whole();
  return true;
}

// PySlice_AdjustIndices: which elements of n a slice takes.
bool resolve_slice(Context& in, const SliceBounds& bounds, size_t n, Walk& walk) {
  const auto size = static_cast<int64_t>(n);
  bool has_start = false, has_stop = false, has_step = false;
  int64_t start = 0, stop = 0;
  if (!bound_value(in, bounds.step, has_step, walk.step) || !bound_value(in, bounds.start, has_start, start) ||
      !bound_value(in, bounds.stop, has_stop, stop)) {
    return false;
  }
  if (has_step && walk.step == 0) return in.fail("slice step cannot be zero");
  const bool back = walk.step < 0;
  walk.step = std::clamp<int64_t>(walk.step, -size - 1, size + 1);
  const int64_t lowest = back ? -1 : 0, highest = back ? size - 1 : size;
  const auto place = [&](int64_t index) { return std::clamp(index < 0 ? index + size : index, lowest, highest); };
  walk.start = has_start ? place(start) : back ? highest : lowest;
  const int64_t end = has_stop ? place(stop) : back ? lowest : highest;
  const int64_t span = back ? walk.start - end : end - walk.start;
  const int64_t stride = back ? -walk.step : walk.step;
  walk.count = span > 0 ? static_cast<size_t>((span + stride - 1) / stride) : 0;
  return true;
}

bool slice_string(Context& in, const Str& s, const SliceBounds& bounds, Value& out) {
  if (!in.scan(s.text.size())) return false;
  const size_t n = count_code_points(s.text);
  Walk walk;
  if (!resolve_slice(in, bounds, n, walk)) return false;
  const auto byte_at = [&](int64_t i) {
    return n == s.text.size() ? static_cast<size_t>(i) : byte_of_code_point(s.text, static_cast<size_t>(i));
  };
  if (walk.count == 0 || walk.step == 1) {
    const size_t begin = walk.count == 0 ? 0 : byte_at(walk.start);
    const size_t end = walk.count == 0 ? 0 : byte_at(walk.start + static_cast<int64_t>(walk.count));
    out = make_string(slice_str(in.arena(), s, begin, end));
    return true;
  }
  // Other steps are rare: provenance becomes coarse.
  if (!in.room(s.text.size() * 5)) return false;
  std::u32string points = to_code_points(s.text);
  std::string text;
  int64_t at = walk.start;
  for (size_t i = 0; i < walk.count; ++i, at += walk.step) append_utf8(text, points[static_cast<size_t>(at)]);
  Str* sliced = in.arena().make<Str>(*copy_str(in.arena(), text, has_user(s)));
  sliced->markup = s.markup;
  out = make_string(sliced);
  return true;
}

bool contains_in_seq(Context& in, const Seq& seq, const Value& item, bool& out) {
  out = false;
  for (size_t i = 0; !out && i < seq.size; ++i) {
    if (!equal(in, seq.items[i], item, out)) return false;
  }
  return true;
}

// Pays for every element: tuples may share their parts, so their tree can be much larger than their memory.
bool is_hashable(Context& in, const Value& v, int depth, bool& out) {
  const bool is_seq = v.is(Kind::seq);
  const bool changeable = v.is(Kind::dict) || v.is(Kind::space) || (is_seq && v.seq->kind == SeqKind::list);
  out = !changeable && depth <= kMaxValueDepth;
  for (size_t i = 0; out && is_seq && i < v.seq->size; ++i) {
    if (!in.step() || !is_hashable(in, v.seq->items[i], depth + 1, out)) return false;
  }
  return true;
}

bool has_elements(const Value& v) {
  return v.is(Kind::seq) && v.seq->kind != SeqKind::keys && v.seq->kind != SeqKind::values &&
         v.seq->kind != SeqKind::items && v.seq->kind != SeqKind::generator;
}

}  // namespace

bool check_hashable(Context& in, const Value& v) {
  bool hashable = false;
  if (!is_hashable(in, v, 0, hashable)) return false;
  return hashable || type_error(in, v, "cannot be a dict key");
}

bool lookup(Context& in, const Dict& dict, const Value& key, Value*& out) {
  out = nullptr;
  if (!in.step(static_cast<int64_t>(dict.size / kScanPerStep))) return false;
  if (key.is_text()) {
    size_t n_bytes = 0;
    out = find_key(dict, key.s->text, n_bytes);
    return in.scan(n_bytes);
  }
  if (!check_hashable(in, key)) return false;
  for (size_t i = 0; i < dict.size; ++i) {
    bool same = false;
    if (dict.entries[i].key.is_text()) continue;
    if (!equal(in, dict.entries[i].key, key, same)) return false;
    if (same) {
      out = &dict.entries[i].value;
      return true;
    }
  }
  return true;
}

bool store(Context& in, Dict& dict, const Value& key, const Value& value) {
  Value* slot = nullptr;
  if (!lookup(in, dict, key, slot) || !in.step()) return false;
  if (slot) {
    *slot = value;
  } else {
    append_entry(in.arena(), dict, key, value);
  }
  return true;
}

bool contains(Context& in, const Value& container, const Value& item, bool& out) {
  out = false;
  switch (container.kind) {
    case Kind::undefined: return true;
    case Kind::string:
      if (item.is(Kind::undefined)) return in.fail_undefined(item);
      if (!item.is_text()) return type_error(in, item, "cannot be searched for in a string");
      out = find_bytes(container.s->text, item.s->text, 0) != std::string_view::npos;
      return in.scan(container.s->text.size());
    case Kind::seq: return contains_in_seq(in, *container.seq, item, out);
    case Kind::dict: {
      Value* slot = nullptr;
      if (!lookup(in, *container.dict, item, slot)) return false;
      out = slot != nullptr;
      return true;
    }
    default: return type_error(in, container, "cannot be searched with 'in'");
  }
}

bool length(Context& in, const Value& v, size_t& out) {
  out = 0;
  switch (v.kind) {
    case Kind::undefined: return true;
    case Kind::string: out = count_code_points(v.s->text); return in.scan(v.s->text.size());
    case Kind::dict: out = v.dict->size; return true;
    case Kind::seq:
      out = v.seq->size;
      if (v.seq->kind != SeqKind::generator) return true;
      [[fallthrough]];
    default: return type_error(in, v, "has no length");
  }
}

bool iterate(Context& in, const Value& v, Seq*& out) {
  Arena& arena = in.arena();
  switch (v.kind) {
    case Kind::undefined: out = new_seq(arena, SeqKind::list, 0); return true;
    case Kind::string: out = characters(in, *v.s); return out != nullptr;
    case Kind::seq:
      out = v.seq;
      if (v.seq->kind == SeqKind::generator) {
        out = arena.make<Seq>(*v.seq);
        v.seq->size = 0;
      }
      return true;
    case Kind::dict:
      if (!in.step(static_cast<int64_t>(v.dict->size / kScanPerStep))) return false;
      out = new_seq(arena, SeqKind::list, v.dict->size);
      for (size_t i = 0; i < v.dict->size; ++i) push(arena, *out, v.dict->entries[i].key);
      return true;
    default: return type_error(in, v, "is not iterable");
  }
}

bool get_item(Context& in, const Value& v, const Value& key, Value& out) {
  if (v.is(Kind::undefined)) return in.fail_undefined(v);
  const Str* name = key.is_text() ? key.s : nullptr;
  out = make_undefined(Lack::element, name, v.kind);
  if (v.is(Kind::dict)) {
    Value* slot = nullptr;
    bool hashable = false;
    if (!is_hashable(in, key, 0, hashable) || (hashable && !lookup(in, *v.dict, key, slot))) return false;
    if (slot) out = *slot;
    return true;
  }
  size_t i = 0;
  if (!key.is_whole()) return true;
  if (has_elements(v)) {
    if (resolve_index(key.whole(), v.seq->size, i)) out = v.seq->items[i];
    return true;
  }
  if (v.is_text()) {
    const Str& s = *v.s;
    if (!in.scan(s.text.size())) return false;
    if (!resolve_index(key.whole(), count_code_points(s.text), i)) return true;
    const size_t begin = byte_of_code_point(s.text, i);
    size_t end = begin;
    next_code_point(s.text, end);
    out = make_string(slice_str(in.arena(), s, begin, end));
  }
  return true;
}

bool get_slice(Context& in, const Value& v, const SliceBounds& bounds, Value& out) {
  if (v.is(Kind::undefined)) return in.fail_undefined(v);
  if (v.is_text()) return slice_string(in, *v.s, bounds, out);
  if (!has_elements(v)) return type_error(in, v, "cannot be sliced");
  Walk walk;
  if (!resolve_slice(in, bounds, v.seq->size, walk)) return false;
  if (!in.room(walk.count * sizeof(Value)) || !in.step(static_cast<int64_t>(walk.count / 8))) return false;
  Seq* seq = new_seq(in.arena(), v.seq->kind == SeqKind::group ? SeqKind::tuple : v.seq->kind, walk.count);
  int64_t at = walk.start;
  for (size_t i = 0; i < walk.count; ++i, at += walk.step) seq->items[i] = v.seq->items[at];
  seq->size = walk.count;
  out = make_seq(seq);
  return true;
}

bool concat(Context& in, std::span<const Str* const> pieces, const Str*& out) {
  size_t size = 0, n_ranges = 0;
  for (const Str* s : pieces) {
    size += s->text.size();
    n_ranges += s->user.size();
  }
  if (!in.room(size + n_ranges * sizeof(ByteRange))) return false;
  Arena& arena = in.arena();
  char* text = static_cast<char*>(arena.alloc(size));
  ByteRange* ranges = n_ranges > 0 ? arena.make_array<ByteRange>(n_ranges) : nullptr;
  size_t at = 0, n = 0;
  for (const Str* s : pieces) {
    std::copy(s->text.begin(), s->text.end(), text + at);
    for (const ByteRange& r : s->user) {
      if (n > 0 && ranges[n - 1].end == at + r.begin) {
        ranges[n - 1].end = at + r.end;
      } else {
        ranges[n++] = {at + r.begin, at + r.end};
      }
    }
    at += s->text.size();
  }
  Str* joined = arena.make<Str>();
  joined->text = {text, size};
  joined->user = {ranges, n};
  out = joined;
  return true;
}

bool escape_html(Context& in, const Str& s, const Str*& out) {
  if (!in.room(s.text.size() * 6)) return false;
  TextBuilder text;
  size_t run = 0;
  for (size_t at = 0; at < s.text.size(); ++at) {
    const size_t which = std::string_view("&<>'\"").find(s.text[at]);
    if (which == std::string_view::npos) continue;
    if (!in.step()) return false;  // the pieces take memory too
    constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    text.add(*slice_str(in.arena(), s, run, at));
    const bool user = has_user(*slice_str(in.arena(), s, at, at + 1));
    user ? text.add_user(kNames[which]) : text.add(kNames[which]);
    run = at + 1;
  }
  text.add(*slice_str(in.arena(), s, run, s.text.size()));
  Str* marked = in.arena().make<Str>(*text.finish(in.arena()));
  marked->markup = true;
  out = marked;
  return true;
}

}  // namespace quire::jinja
