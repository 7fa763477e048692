// What a template computes with: Python's values as plain data in an arena. Strings remember which of their bytes came
// from the user; that memory survives slicing, joining and replacing, and is coarse (the whole string) elsewhere.
// Nothing here has attributes of its host language, so there is nothing for a template to climb up to.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/byte_range.h"
#include "text/jinja/arena.h"

namespace quire::jinja {

struct Dict;
struct Bound;
struct Builtin;
struct Loop;
struct Macro;
struct Seq;
struct Str;

enum class Kind : uint8_t {
  absent,  // no value at all: a variable never set, an argument not given; templates never hold it
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  seq,  // list, tuple and the other sequences of SeqKind
  dict,
  space,  // namespace(): a dict whose entries are attributes
  macro,
  builtin,
  bound,  // a method taken from its value
  loop
};

enum class SeqKind : uint8_t { list, tuple, range, keys, values, items, generator, group };

// Why a value is undefined, for the message of whoever uses it.
enum class Lack : uint8_t { name, attribute, element, parameter, unsafe, branch };

struct Value {
  Kind kind = Kind::absent;
  Lack lack = Lack::name;     // of an undefined
  Kind owner = Kind::absent;  // of an undefined attribute
  union {
    int64_t i = 0;
    bool b;
    double d;
    const Str* s;  // of a string; the name of an undefined, may be null
    Seq* seq;
    Dict* dict;  // of a dict and a space
    Loop* loop;
    const Macro* macro;
    const Builtin* builtin;
    const Bound* bound;
  };

  bool is(Kind k) const { return kind == k; }
  bool is_text() const { return kind == Kind::string; }
  // Python counts True and False as the integers 1 and 0.
  bool is_whole() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const { return is_whole() || kind == Kind::real; }
  int64_t whole() const { return kind == Kind::boolean ? int64_t{b} : i; }
  double number() const { return kind == Kind::real ? d : static_cast<double>(whole()); }
};

struct Str {
  std::string_view text;              // valid UTF-8
  std::span<const ByteRange> user{};  // sorted, disjoint, not touching: the bytes that came from the user
  bool markup = false;                // went through `safe` or `escape`: adding to it escapes the other side
};

struct Seq {
  SeqKind kind = SeqKind::list;
  Value* items = nullptr;
  size_t size = 0;
  size_t capacity = 0;
};

struct Entry {
  Value key;
  Value value;
};

// In order of insertion. Looked up by scanning: message and schema objects are small; Context charges the large ones.
struct Dict {
  Entry* entries = nullptr;
  size_t size = 0;
  size_t capacity = 0;
  const Str* source = nullptr;  // the JSON text that it was read from, where it is to be written so again
};

struct Bound {
  const Builtin* method;
  Value self;
};

inline Value make_none() {
  Value v;
  v.kind = Kind::none;
  return v;
}
inline Value make_bool(bool b) {
  Value v;
  v.kind = Kind::boolean;
  v.b = b;
  return v;
}
inline Value make_int(int64_t i) {
  Value v;
  v.kind = Kind::integer;
  v.i = i;
  return v;
}
inline Value make_int(size_t n) { return make_int(static_cast<int64_t>(n)); }
inline Value make_real(double d) {
  Value v;
  v.kind = Kind::real;
  v.d = d;
  return v;
}
inline Value make_string(const Str* s) {
  Value v;
  v.kind = Kind::string;
  v.s = s;
  return v;
}
inline Value make_seq(Seq* seq) {
  Value v;
  v.kind = Kind::seq;
  v.seq = seq;
  return v;
}
inline Value make_dict(Dict* dict, Kind kind = Kind::dict) {
  Value v;
  v.kind = kind;
  v.dict = dict;
  return v;
}
inline Value make_undefined(Lack lack, const Str* name, Kind owner = Kind::absent) {
  Value v;
  v.kind = Kind::undefined;
  v.lack = lack;
  v.owner = owner;
  v.s = name;
  return v;
}

// Strings. `text` is not copied where a view is taken: it must live as long as the arena.
const Str* view_str(Arena& arena, std::string_view text, bool user);
const Str* copy_str(Arena& arena, std::string_view text, bool user);
const Str* slice_str(Arena& arena, const Str& s, size_t begin, size_t end);  // bytes; keeps provenance and markup
inline bool has_user(const Str& s) { return !s.user.empty(); }

Seq* new_seq(Arena& arena, SeqKind kind, size_t capacity);
void push(Arena& arena, Seq& seq, Value v);
Dict* new_dict(Arena& arena, size_t capacity);
void append_entry(Arena& arena, Dict& dict, Value key, Value value);  // REQUIRES key not there yet
// A string key; nullptr when absent. Adds to n_bytes what it was compared with, beyond the lengths.
Value* find_key(const Dict& dict, std::string_view key, size_t& n_bytes);

// Builds a string out of pieces with and without provenance.
class TextBuilder {
 public:
  void add(std::string_view text) { text_ += text; }
  void add(const Str& s);
  void add_user(std::string_view text);
  void mark_all_user();
  size_t size() const { return text_.size(); }
  const Str* finish(Arena& arena) const;  // copies
  std::string&& take_text() { return std::move(text_); }
  std::vector<ByteRange>&& take_user() { return std::move(user_); }

 private:
  void mark(size_t begin, size_t end);

  std::string text_;
  std::vector<ByteRange> user_;
};

// Whether strings inside a Json count as the user's. The well-known values of "role" never do, because templates build
// special tokens around them ('<|' + role + '|>').
enum class Trust : uint8_t { trusted, user };

// Where the strings of a Json go: viewed, they must outlive the arena's use.
enum class Strings : uint8_t { view, copy };
struct JsonImport {
  Trust trust = Trust::user;
  Strings strings = Strings::view;
  size_t limit = 0;               // of the arena's bytes
  bool parses_arguments = false;  // members "arguments" that hold a JSON object's text become that object, with source
};
bool import_json(Arena& arena, const Json& json, const JsonImport& how, Value& out);  // false: past the limit

std::string_view kind_name(const Value& v);  // "str", "list", "NoneType" …, as template authors know them

}  // namespace quire::jinja
