// Methods of lists, tuples and dicts. The reference forbids the ones that change a list or dict; templates written for
// other engines use append, pop and update, so they work here: values live in the rendering's own memory only.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/select.h"

namespace quire::jinja {
namespace {

Seq& seq(const Call& call) { return *call.self.seq; }
Dict& dict(const Call& call) { return *call.self.dict; }

bool nothing(Value& out) {
  out = make_none();
  return true;
}

// Lists and tuples -------------------------------------------------------------------------------------------------

bool index_method(const Call& call, Value& out) {
  for (size_t i = 0; i < seq(call).size; ++i) {
    bool same = false;
    if (!equal(call.in, seq(call).items[i], call[0], same)) return false;
    if (!same) continue;
    out = make_int(i);
    return true;
  }
  return call.in.fail("index: the value is not in the list");
}

bool count_method(const Call& call, Value& out) {
  int64_t n = 0;
  for (size_t i = 0; i < seq(call).size; ++i) {
    bool same = false;
    if (!equal(call.in, seq(call).items[i], call[0], same)) return false;
    n += same;
  }
  out = make_int(n);
  return true;
}

bool append_method(const Call& call, Value& out) {
  push(call.in.arena(), seq(call), call[0]);
  return call.in.step() && nothing(out);
}

bool extend_method(const Call& call, Value& out) {
  Seq* more = nullptr;
  if (!iterate(call.in, call[0], more)) return false;
  const size_t n = more->size;  // the list may be extended by itself
  for (size_t i = 0; i < n; ++i) {
    if (!call.in.step()) return false;
    push(call.in.arena(), seq(call), more->items[i]);
  }
  return nothing(out);
}

bool insert_method(const Call& call, Value& out) {
  int64_t at = 0;
  if (!want_int(call, call[0], "insert: the index", at)) return false;
  Seq& list = seq(call);
  const auto size = static_cast<int64_t>(list.size);
  if (!call.in.step(size / 32 + 1)) return false;
  at = std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  push(call.in.arena(), list, call[1]);
  std::rotate(list.items + at, list.items + size, list.items + size + 1);
  return nothing(out);
}

bool pop_method(const Call& call, Value& out) {
  Seq& list = seq(call);
  const auto size = static_cast<int64_t>(list.size);
  int64_t at = -1;
  if (!int_or(call, 0, -1, at)) return false;
  if (at < 0) at += size;
  if (at < 0 || at >= size) return call.in.fail("pop: the index is out of range");
  if (!call.in.step((size - at) / 32)) return false;
  out = list.items[at];
  std::copy(list.items + at + 1, list.items + size, list.items + at);
  --list.size;
  return true;
}

bool reverse_method(const Call& call, Value& out) {
  std::reverse(seq(call).items, seq(call).items + seq(call).size);
  return call.in.step(static_cast<int64_t>(seq(call).size / 32)) && nothing(out);
}

bool clear_list_method(const Call& call, Value& out) {
  seq(call).size = 0;
  return nothing(out);
}

bool copy_list_method(const Call& call, Value& out) {
  Seq* copy = new_seq(call.in.arena(), SeqKind::list, 0);
  for (size_t i = 0; i < seq(call).size; ++i) {
    if (!call.in.step()) return false;
    push(call.in.arena(), *copy, seq(call).items[i]);
  }
  out = make_seq(copy);
  return true;
}

// Dicts -----------------------------------------------------------------------------------------------------------

bool get_method(const Call& call, Value& out) {
  Value* slot = nullptr;
  if (!lookup(call.in, dict(call), call[0], slot)) return false;
  out = slot ? *slot : call.given(1) ? call[1] : make_none();
  return true;
}

bool items_method(const Call& call, Value& out) {
  Seq* items = nullptr;
  if (!dict_items(call.in, dict(call), SeqKind::items, items)) return false;
  out = make_seq(items);
  return true;
}

template <bool keys>
bool view_method(const Call& call, Value& out) {
  const Dict& d = dict(call);
  if (!call.in.step(static_cast<int64_t>(d.size / 32))) return false;
  Seq* view = new_seq(call.in.arena(), keys ? SeqKind::keys : SeqKind::values, d.size);
  for (size_t i = 0; i < d.size; ++i) push(call.in.arena(), *view, keys ? d.entries[i].key : d.entries[i].value);
  out = make_seq(view);
  return true;
}

bool pop_key_method(const Call& call, Value& out) {
  Dict& d = dict(call);
  Value* slot = nullptr;
  if (!lookup(call.in, d, call[0], slot)) return false;
  if (!slot && !call.given(1)) return call.in.fail("pop: there is no such key");
  out = slot ? *slot : call[1];
  if (!slot) return true;
  Entry* entry = std::find_if(d.entries, d.entries + d.size, [&](const Entry& e) { return &e.value == slot; });
  std::copy(entry + 1, d.entries + d.size, entry);
  --d.size;
  return true;
}

bool setdefault_method(const Call& call, Value& out) {
  Value* slot = nullptr;
  if (!lookup(call.in, dict(call), call[0], slot)) return false;
  out = slot ? *slot : call.given(1) ? call[1] : make_none();
  return slot || store(call.in, dict(call), call[0], out);
}

bool update_method(const Call& call, Value& out) {
  for (const Value& v : call.args) {
    if (!v.is(Kind::dict)) return call.in.fail("update: the argument must be a dict");
    const size_t n = v.dict->size;
    for (size_t i = 0; i < n; ++i) {
      if (!store(call.in, dict(call), v.dict->entries[i].key, v.dict->entries[i].value)) return false;
    }
  }
  for (const Named& n : call.named) {
    if (!store(call.in, dict(call), make_string(n.name), n.value)) return false;
  }
  return nothing(out);
}

bool clear_dict_method(const Call& call, Value& out) {
  dict(call).size = 0;
  return nothing(out);
}

bool copy_dict_method(const Call& call, Value& out) {
  const Dict& d = dict(call);
  Dict* copy = new_dict(call.in.arena(), d.size);
  for (size_t i = 0; i < d.size; ++i) {
    if (!call.in.step()) return false;
    append_entry(call.in.arena(), *copy, d.entries[i].key, d.entries[i].value);
  }
  out = make_dict(copy);
  return true;
}

constexpr Builtin kListMethods[] = {
    {"index", index_method, 1, {"value"}},
    {"count", count_method, 1, {"value"}},
    {"append", append_method, 1, {"object"}},
    {"extend", extend_method, 1, {"iterable"}},
    {"insert", insert_method, 2, {"index", "object"}},
    {"pop", pop_method, 0, {"index"}},
    {"reverse", reverse_method},
    {"clear", clear_list_method},
    {"copy", copy_list_method},
};

constexpr Builtin kTupleMethods[] = {
    {"index", index_method, 1, {"value"}},
    {"count", count_method, 1, {"value"}},
};

constexpr Builtin kDictMethods[] = {
    {"get", get_method, 1, {"key", "default"}},
    {"items", items_method},
    {"keys", view_method<true>},
    {"values", view_method<false>},
    {"pop", pop_key_method, 1, {"key", "default"}},
    {"setdefault", setdefault_method, 1, {"key", "default"}},
    {"update", update_method, 0, {kAnyParams}},
    {"clear", clear_dict_method},
    {"copy", copy_dict_method},
};

}  // namespace

std::span<const Builtin> list_methods() { return kListMethods; }
std::span<const Builtin> tuple_methods() { return kTupleMethods; }
std::span<const Builtin> dict_methods() { return kDictMethods; }

}  // namespace quire::jinja
