// Filters whose subject is a sequence or a mapping.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/print.h"
#include "text/jinja/select.h"
#include "text/jinja/text_ops.h"

namespace quire::jinja {
namespace {

bool self_items(const Call& call, Seq*& out) { return iterate(call.in, call.self, out); }

bool length_filter(const Call& call, Value& out) {
  size_t n = 0;
  if (!length(call.in, call.self, n)) return false;
  out = make_int(n);
  return true;
}

Value lacking(std::string_view) { return make_undefined(Lack::element, nullptr, Kind::seq); }

bool first_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  if (!self_items(call, items)) return false;
  out = items->size > 0 ? items->items[0] : lacking("first");
  return true;
}

bool last_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  const bool generator = call.self.is(Kind::seq) && call.self.seq->kind == SeqKind::generator;
  if (generator) return call.in.fail("last: the value cannot be read backwards");
  if (!self_items(call, items)) return false;
  out = items->size > 0 ? items->items[items->size - 1] : lacking("last");
  return true;
}

bool copy_items(Context& in, const Seq& items, SeqKind kind, Seq*& out) {
  if (!in.step(static_cast<int64_t>(items.size / 8)) || !in.fits(items.size * sizeof(Value))) return false;
  out = new_seq(in.arena(), kind, items.size);
  std::copy_n(items.items, items.size, out->items);
  out->size = items.size;
  return true;
}

bool list_filter(const Call& call, Value& out) {
  Seq *items = nullptr, *copy = nullptr;
  if (!self_items(call, items) || !copy_items(call.in, *items, SeqKind::list, copy)) return false;
  out = make_seq(copy);
  return true;
}

bool reverse_filter(const Call& call, Value& out) {
  Seq *items = nullptr, *copy = nullptr;
  if (!self_items(call, items) || !copy_items(call.in, *items, SeqKind::generator, copy)) return false;
  std::reverse(copy->items, copy->items + copy->size);
  out = make_seq(copy);
  if (!call.self.is_text()) return true;
  static constexpr Str kEmpty{};
  return join_values(call.in, *copy, kEmpty, out);
}

// join(d='', attribute=None)
bool join_filter(const Call& call, Value& out) {
  static constexpr Str kEmpty{};
  const Str* separator = &kEmpty;
  Seq* items = nullptr;
  if (call.given(0) && !to_str(call.in, call[0], separator)) return false;
  if (!self_items(call, items)) return false;
  if (call.given(1) && !call[1].is(Kind::none)) {
    const KeyOf key{.attribute = call[1]};
    Seq* picked = new_seq(call.in.arena(), SeqKind::list, items->size);
    for (size_t i = 0; i < items->size; ++i) {
      Value v;
      if (!call.in.step() || !key_of(call.in, key, items->items[i], v)) return false;
      push(call.in.arena(), *picked, v);
    }
    items = picked;
  }
  return join_values(call.in, *items, *separator, out);
}

KeyOf key_from(const Call& call, size_t case_sensitive, size_t attribute) {
  KeyOf key;
  key.ignore_case = !(call.given(case_sensitive) && is_true(call[case_sensitive]));
  if (call.given(attribute) && !call[attribute].is(Kind::none)) key.attribute = call[attribute];
  return key;
}

// sort(reverse=False, case_sensitive=False, attribute=None)
bool sort_filter(const Call& call, Value& out) {
  Seq *items = nullptr, *sorted = nullptr;
  KeyOf key = key_from(call, 1, 2);
  key.many = true;
  key.reverse = call.given(0) && is_true(call[0]);
  if (!self_items(call, items) || !sort_values(call.in, *items, key, sorted)) return false;
  out = make_seq(sorted);
  return true;
}

// dictsort(case_sensitive=False, by='key', reverse=False)
bool dictsort_filter(const Call& call, Value& out) {
  if (call.self.is(Kind::undefined)) return call.in.fail_undefined(call.self);
  if (!call.self.is(Kind::dict)) return call.in.fail("dictsort: the value must be a mapping");
  int64_t which = 0;
  if (call.given(1)) {
    const Str* by = nullptr;
    if (!want_text(call, call[1], "dictsort: by", by)) return false;
    if (by->text != "key" && by->text != "value") return call.in.fail("dictsort: by must be 'key' or 'value'");
    which = by->text == "value" ? 1 : 0;
  }
  KeyOf key = key_from(call, 0, 0);
  key.attribute = make_int(which);
  key.reverse = call.given(2) && is_true(call[2]);
  Seq *items = nullptr, *sorted = nullptr;
  if (!dict_items(call.in, *call.self.dict, SeqKind::list, items)) return false;
  if (!sort_values(call.in, *items, key, sorted)) return false;
  out = make_seq(sorted);
  return true;
}

bool items_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  if (call.self.is(Kind::undefined)) {
    items = new_seq(call.in.arena(), SeqKind::generator, 0);
  } else if (!call.self.is(Kind::dict)) {
    return call.in.fail("items: can only get the items of a mapping, not of '" + std::string(kind_name(call.self)) +
                        "'");
  } else if (!dict_items(call.in, *call.self.dict, SeqKind::generator, items)) {
    return false;
  }
  out = make_seq(items);
  return true;
}

// unique(case_sensitive=False, attribute=None)
bool unique_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  if (!self_items(call, items)) return false;
  const KeyOf key = key_from(call, 0, 1);
  Seq* seen = new_seq(call.in.arena(), SeqKind::list, 0);
  Seq* kept = new_seq(call.in.arena(), SeqKind::generator, 0);
  for (size_t i = 0; i < items->size; ++i) {
    Value k;
    bool known = false;
    if (!key_of(call.in, key, items->items[i], k) || !check_hashable(call.in, k)) return false;
    if (!contains(call.in, make_seq(seen), k, known)) return false;
    if (known) continue;
    push(call.in.arena(), *seen, k);
    push(call.in.arena(), *kept, items->items[i]);
  }
  out = make_seq(kept);
  return true;
}

// min and max: (case_sensitive=False, attribute=None)
template <bool wants_max>
bool extreme_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  if (!self_items(call, items)) return false;
  const KeyOf key = key_from(call, 0, 1);
  out = lacking("min");
  Value best;
  for (size_t i = 0; i < items->size; ++i) {
    Value k;
    bool better = i == 0;
    if (!key_of(call.in, key, items->items[i], k)) return false;
    if (i > 0 && !(wants_max ? less(call.in, best, k, better) : less(call.in, k, best, better))) return false;
    if (!better) continue;
    best = k;
    out = items->items[i];
  }
  return true;
}

// sum(attribute=None, start=0)
bool sum_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  if (!self_items(call, items)) return false;
  KeyOf key;
  if (call.given(0) && !call[0].is(Kind::none)) key.attribute = call[0];
  Value total = call.given(1) ? call[1] : make_int(int64_t{0});
  for (size_t i = 0; i < items->size; ++i) {
    Value v, next;
    if (!call.in.step() || !key_of(call.in, key, items->items[i], v)) return false;
    if (!binary(call.in, Operator::add, total, v, next)) return false;
    total = next;
  }
  out = total;
  return true;
}

// batch(linecount, fill_with=None): rows of so many elements.
bool batch_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  int64_t n = 0;
  if (!self_items(call, items) || !want_int(call, call[0], "batch: linecount", n)) return false;
  if (n < 1) return call.in.fail("batch: linecount must be at least 1");
  Arena& arena = call.in.arena();
  Seq* rows = new_seq(arena, SeqKind::generator, 0);
  const auto width = static_cast<size_t>(n);
  for (size_t i = 0; i < items->size; i += std::min(width, items->size - i)) {
    Seq* row = new_seq(arena, SeqKind::list, 0);
    for (size_t k = i; k < items->size && k - i < width; ++k) push(arena, *row, items->items[k]);
    const bool fills = call.given(1) && !call[1].is(Kind::none);
    while (fills && row->size < width) {
      if (!call.in.step()) return false;
      push(arena, *row, call[1]);
    }
    if (!call.in.step(static_cast<int64_t>(row->size))) return false;
    push(arena, *rows, make_seq(row));
  }
  out = make_seq(rows);
  return true;
}

// slice(slices, fill_with=None): so many columns, the first ones longer.
bool slice_filter(const Call& call, Value& out) {
  Seq* items = nullptr;
  int64_t n = 0;
  if (!self_items(call, items) || !want_int(call, call[0], "slice: slices", n)) return false;
  if (n < 1) return call.in.fail("slice: slices must be at least 1");
  Arena& arena = call.in.arena();
  Seq* columns = new_seq(arena, SeqKind::generator, 0);
  const auto count = static_cast<size_t>(n);
  const size_t base = items->size / count, longer = items->size % count;
  size_t at = 0;
  for (size_t c = 0; c < count; ++c) {
    Seq* column = new_seq(arena, SeqKind::list, 0);
    const size_t size = base + (c < longer ? 1 : 0);
    if (!call.in.step(static_cast<int64_t>(size + 1))) return false;
    for (size_t k = 0; k < size; ++k) push(arena, *column, items->items[at++]);
    const bool fills = call.given(1) && !call[1].is(Kind::none) && c >= longer;
    if (fills) push(arena, *column, call[1]);
    push(arena, *columns, make_seq(column));
  }
  out = make_seq(columns);
  return true;
}

// groupby(attribute, default=None, case_sensitive=False): sorted groups of (grouper, list).
bool groupby_filter(const Call& call, Value& out) {
  Seq *items = nullptr, *sorted = nullptr;
  KeyOf key{.attribute = call[0], .otherwise = call[1]};
  key.ignore_case = !(call.given(2) && is_true(call[2]));
  if (!self_items(call, items) || !sort_values(call.in, *items, key, sorted)) return false;
  Arena& arena = call.in.arena();
  Seq* groups = new_seq(arena, SeqKind::list, 0);
  Value last;
  KeyOf plain = key;
  plain.ignore_case = false;
  for (size_t i = 0; i < sorted->size; ++i) {
    Value k, shown;
    bool same = false;
    if (!key_of(call.in, key, sorted->items[i], k) || !key_of(call.in, plain, sorted->items[i], shown)) return false;
    if (i > 0 && !equal(call.in, last, k, same)) return false;
    if (!same) {
      Seq* group = new_seq(arena, SeqKind::group, 2);
      push(arena, *group, shown);
      push(arena, *group, make_seq(new_seq(arena, SeqKind::list, 0)));
      push(arena, *groups, make_seq(group));
    }
    last = k;
    push(arena, *groups->items[groups->size - 1].seq->items[1].seq, sorted->items[i]);
  }
  out = make_seq(groups);
  return true;
}

constexpr Builtin kFilters[] = {
    {"length", length_filter},
    {"count", length_filter},
    {"first", first_filter},
    {"last", last_filter},
    {"list", list_filter},
    {"reverse", reverse_filter},
    {"join", join_filter, 0, {"d", "attribute"}},
    {"sort", sort_filter, 0, {"reverse", "case_sensitive", "attribute"}},
    {"dictsort", dictsort_filter, 0, {"case_sensitive", "by", "reverse"}},
    {"items", items_filter},
    {"unique", unique_filter, 0, {"case_sensitive", "attribute"}},
    {"min", extreme_filter<false>, 0, {"case_sensitive", "attribute"}},
    {"max", extreme_filter<true>, 0, {"case_sensitive", "attribute"}},
    {"sum", sum_filter, 0, {"attribute", "start"}},
    {"batch", batch_filter, 1, {"linecount", "fill_with"}},
    {"slice", slice_filter, 1, {"slices", "fill_with"}},
    {"groupby", groupby_filter, 1, {"attribute", "default", "case_sensitive"}},
};

}  // namespace

std::span<const Builtin> list_filters() { return kFilters; }

}  // namespace quire::jinja
