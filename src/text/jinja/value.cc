#include "text/jinja/value.h"

#include <algorithm>
#include <array>

namespace quire::jinja {
namespace {

std::span<const ByteRange> one_range(Arena& arena, size_t size) {
  if (size == 0) return {};
  return {arena.make<ByteRange>(size_t{0}, size), 1};
}

bool is_known_role(std::string_view role) {
  constexpr std::array<std::string_view, 10> kRoles{"system", "user",     "assistant", "tool",        "developer",
                                                    "model",  "function", "ipython",   "observation", "human"};
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

// The value of a "role" member, which templates put inside special tokens.
bool is_role(const Json::Member& member) {
  const std::string* text = member.second.as_string();
  return member.first == "role" && text && is_known_role(*text);
}

}  // namespace

const Str* view_str(Arena& arena, std::string_view text, bool user) {
  Str* s = arena.make<Str>();
  s->text = text;
  if (user) s->user = one_range(arena, text.size());
  return s;
}

const Str* copy_str(Arena& arena, std::string_view text, bool user) { return view_str(arena, arena.copy(text), user); }

const Str* slice_str(Arena& arena, const Str& s, size_t begin, size_t end) {
  if (begin == 0 && end == s.text.size()) return &s;
  Str* out = arena.make<Str>();
  out->text = s.text.substr(begin, end - begin);
  out->markup = s.markup;
  // Ranges are sorted, so the ones that touch [begin, end) are neighbours.
  const auto first =
      std::partition_point(s.user.begin(), s.user.end(), [&](const ByteRange& r) { return r.end <= begin; });
  const auto last = std::partition_point(first, s.user.end(), [&](const ByteRange& r) { return r.begin < end; });
  if (first == last || begin == end) return out;
  const auto n = static_cast<size_t>(last - first);
  ByteRange* ranges = arena.make_array<ByteRange>(n);
  for (size_t i = 0; i < n; ++i) {
    const ByteRange& r = first[static_cast<std::ptrdiff_t>(i)];
    ranges[i] = {std::max(r.begin, begin) - begin, std::min(r.end, end) - begin};
  }
  out->user = {ranges, n};
  return out;
}

Seq* new_seq(Arena& arena, SeqKind kind, size_t capacity) {
  Seq* seq = arena.make<Seq>();
  seq->kind = kind;
  seq->capacity = capacity;
  if (capacity > 0) seq->items = arena.make_array<Value>(capacity);
  return seq;
}

void push(Arena& arena, Seq& seq, Value v) {
  if (seq.size == seq.capacity) {
    seq.capacity = std::max<size_t>(4, seq.capacity * 2);
    Value* items = arena.make_array<Value>(seq.capacity);
    std::copy_n(seq.items, seq.size, items);
    seq.items = items;
  }
  seq.items[seq.size++] = v;
}

Dict* new_dict(Arena& arena, size_t capacity) {
  Dict* dict = arena.make<Dict>();
  dict->capacity = capacity;
  if (capacity > 0) dict->entries = arena.make_array<Entry>(capacity);
  return dict;
}

void append_entry(Arena& arena, Dict& dict, Value key, Value value) {
  if (dict.size == dict.capacity) {
    dict.capacity = std::max<size_t>(4, dict.capacity * 2);
    Entry* entries = arena.make_array<Entry>(dict.capacity);
    std::copy_n(dict.entries, dict.size, entries);
    dict.entries = entries;
  }
  dict.entries[dict.size++] = {key, value};
}

Value* find_key(const Dict& dict, std::string_view key, size_t& n_bytes) {
  for (size_t i = 0; i < dict.size; ++i) {
    Entry& e = dict.entries[i];
    if (!e.key.is_text() || e.key.s->text.size() != key.size()) continue;
    n_bytes += key.size();
    if (e.key.s->text == key) return &e.value;
  }
  return nullptr;
}

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!user_.empty() && user_.back().end == begin) {
    user_.back().end = end;
  } else {
    user_.push_back({begin, end});
  }
}

void TextBuilder::add(const Str& s) {
  const size_t base = text_.size();
  text_ += s.text;
  for (const ByteRange& r : s.user) mark(base + r.begin, base + r.end);
}

void TextBuilder::add_user(std::string_view text) {
  const size_t base = text_.size();
  text_ += text;
  mark(base, text_.size());
}

void TextBuilder::mark_all_user() {
  user_.clear();
  mark(0, text_.size());
}

const Str* TextBuilder::finish(Arena& arena) const {
  Str* s = arena.make<Str>();
  s->text = arena.copy(text_);
  if (!user_.empty()) {
    ByteRange* ranges = arena.make_array<ByteRange>(user_.size());
    std::copy(user_.begin(), user_.end(), ranges);
    s->user = {ranges, user_.size()};
  }
  return s;
}

namespace {

const Str* import_string(Arena& arena, const std::string& text, const JsonImport& how) {
  const bool user = how.trust == Trust::user;
  return how.strings == Strings::view ? view_str(arena, text, user) : copy_str(arena, text, user);
}

Value import_scalar(Arena& arena, const Json& json, const JsonImport& how) {
  if (const bool* b = json.as_bool()) return make_bool(*b);
  if (const int64_t* i = json.as_int()) return make_int(*i);
  if (const double* d = json.as_double()) return make_real(*d);
  if (const std::string* s = json.as_string()) return make_string(import_string(arena, *s, how));
  return make_none();
}

struct ImportJob {
  const Json* json;
  Value* to;
};

// Scalars at once, containers later: depth costs no stack.
void import_start(Arena& arena, const Json& from, const JsonImport& how, Value* to, std::vector<ImportJob>& jobs) {
  if (from.as_array() || from.as_object()) {
    jobs.push_back({&from, to});
  } else {
    *to = import_scalar(arena, from, how);
  }
}

// False where the text is no object, or past the limit.
bool import_arguments(Arena& arena, const std::string& text, const JsonImport& how, Value& out) {
  const auto parsed = Json::parse(text);
  if (!parsed || parsed->as_object() == nullptr) return false;
  const JsonImport inner{.trust = how.trust, .strings = Strings::copy, .limit = how.limit};
  if (!import_json(arena, *parsed, inner, out)) return false;
  out.dict->source = import_string(arena, text, how);
  return true;
}

void import_object(Arena& arena, const ImportJob& job, const JsonImport& how, std::vector<ImportJob>& jobs) {
  const Json::Object& members = *job.json->as_object();
  Dict* dict = new_dict(arena, members.size());
  *job.to = make_dict(dict);
  for (const Json::Member& m : members) {
    append_entry(arena, *dict, make_string(import_string(arena, m.first, how)), Value{});
    Value* to = &dict->entries[dict->size - 1].value;
    const bool arguments = how.parses_arguments && m.first == "arguments" && m.second.as_string() != nullptr;
    if (arguments && import_arguments(arena, *m.second.as_string(), how, *to)) continue;
    if (is_role(m)) {
      *to = make_string(copy_str(arena, *m.second.as_string(), false));
    } else {
      import_start(arena, m.second, how, to, jobs);
    }
  }
}

}  // namespace

bool import_json(Arena& arena, const Json& json, const JsonImport& how, Value& out) {
  std::vector<ImportJob> jobs;
  import_start(arena, json, how, &out, jobs);
  while (!jobs.empty()) {
    const ImportJob job = jobs.back();
    jobs.pop_back();
    if (arena.used() > how.limit) return false;
    const Json::Array* items = job.json->as_array();
    if (!items) {
      import_object(arena, job, how, jobs);
      continue;
    }
    Seq* seq = new_seq(arena, SeqKind::list, items->size());
    seq->size = items->size();
    *job.to = make_seq(seq);
    for (size_t i = 0; i < items->size(); ++i) import_start(arena, (*items)[i], how, &seq->items[i], jobs);
  }
  return true;
}

std::string_view kind_name(const Value& v) {
  constexpr std::array<std::string_view, 8> kSeqNames{"list",        "tuple",      "range",     "dict_keys",
                                                      "dict_values", "dict_items", "generator", "tuple"};
  switch (v.kind) {
    case Kind::absent:
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer: return "int";
    case Kind::real: return "float";
    case Kind::string: return "str";
    case Kind::seq: return kSeqNames[static_cast<size_t>(v.seq->kind)];
    case Kind::dict: return "dict";
    case Kind::space: return "Namespace";
    case Kind::macro: return "macro";
    case Kind::builtin:
    case Kind::bound: return "function";
    case Kind::loop: return "LoopContext";
  }
  return "value";
}

}  // namespace quire::jinja
