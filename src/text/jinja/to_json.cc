// json.dumps as the `tojson` filter of chat templates calls it.
#include <algorithm>
#include <cmath>

#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Context& in, const JsonStyle& style) : in_(in), style_(style) {}

  bool write(const Value& v) {
    if (!in_.step() || !in_.fits(out_.size())) return false;
    switch (v.kind) {
      case Kind::none:
      case Kind::boolean:
      case Kind::integer:
      case Kind::real: write_scalar(v); return true;
      case Kind::string: return write_string(*v.s);
      case Kind::seq:
        if (is_array(*v.seq)) return nested() && write_array(*v.seq) && leave();
        break;
      case Kind::dict:
        if (v.dict->source != nullptr && is_plain(style_)) return write_source(*v.dict->source);
        return nested() && write_object(*v.dict) && leave();
      default: break;
    }
    return in_.fail("tojson: a value of type " + std::string(kind_name(v)) + " is not JSON serializable");
  }

  const Str* finish() { return copy_str(in_.arena(), out_, user_); }

 private:
  static bool is_array(const Seq& seq) {
    return seq.kind == SeqKind::list || seq.kind == SeqKind::tuple || seq.kind == SeqKind::group;
  }

  static bool is_plain(const JsonStyle& style) {
    const JsonStyle plain;
    return !style.ensure_ascii && !style.sort_keys && !style.has_indent &&
           style.item_separator == plain.item_separator && style.key_separator == plain.key_separator;
  }
  bool write_source(const Str& text) {
    if (!in_.room(text.text.size())) return false;
    user_ = user_ || has_user(text);
    out_ += text.text;
    return true;
  }

  bool nested() { return ++depth_ <= kMaxValueDepth || in_.fail("tojson: the value is nested too deeply"); }
  bool leave() {
    --depth_;
    return true;
  }

  void write_scalar(const Value& v) {
    if (v.is(Kind::none)) {
      out_ += "null";
    } else if (v.is(Kind::boolean)) {
      out_ += v.b ? "true" : "false";
    } else if (v.is(Kind::integer)) {
      out_ += std::to_string(v.i);
    } else if (std::isfinite(v.d)) {
      append_float(out_, v.d);
    } else {
      out_ += std::isnan(v.d) ? "NaN" : v.d < 0 ? "-Infinity" : "Infinity";
    }
  }

  void write_unit(unsigned unit) {
    constexpr char kHex[] = "0123456789abcdef";
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += kHex[(unit >> shift) & 15];
  }

  bool is_escaped(char32_t cp) const {
    return cp < 0x20 || cp == '"' || cp == '\\' || (cp >= 0x7f && style_.ensure_ascii);
  }

  void write_escape(char32_t cp) {
    switch (cp) {
      case '"': out_ += "\\\""; return;
      case '\\': out_ += "\\\\"; return;
      case '\n': out_ += "\\n"; return;
      case '\r': out_ += "\\r"; return;
      case '\t': out_ += "\\t"; return;
      case '\f': out_ += "\\f"; return;
      case '\b': out_ += "\\b"; return;
      default: break;
    }
    if (cp >= 0x10000) {
      write_unit(0xd800 + ((cp - 0x10000) >> 10));
      write_unit(0xdc00 + ((cp - 0x10000) & 0x3ff));
    } else {
      write_unit(cp);
    }
  }

  bool write_string(const Str& s) {
    if (!in_.room(s.text.size())) return false;
    user_ = user_ || has_user(s);
    out_ += '"';
    size_t run = 0;  // the text before it is written
    for (size_t at = 0; at < s.text.size();) {
      const size_t start = at;
      const char32_t cp = next_code_point(s.text, at);
      if (!is_escaped(cp)) continue;
      out_ += s.text.substr(run, start - run);
      write_escape(cp);
      run = at;
    }
    out_ += s.text.substr(run);
    out_ += '"';
    return true;
  }

  bool new_line(int depth) {
    if (!style_.has_indent) return true;
    if (!in_.room(style_.indent.size() * static_cast<size_t>(depth))) return false;
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += style_.indent;
    return true;
  }

  bool write_array(const Seq& seq) {
    out_ += '[';
    for (size_t i = 0; i < seq.size; ++i) {
      if (i > 0) out_ += style_.item_separator;
      if (!new_line(depth_) || !write(seq.items[i])) return false;
    }
    if (seq.size > 0 && !new_line(depth_ - 1)) return false;
    out_ += ']';
    return true;
  }

  bool write_key(const Value& key) {
    if (key.is_text()) return write_string(*key.s);
    if (!key.is_number() && !key.is(Kind::none)) return in_.fail("tojson: keys must be strings, numbers or None");
    out_ += '"';
    write_scalar(key);
    out_ += '"';
    return true;
  }

  bool write_object(const Dict& dict) {
    std::vector<Entry> entries(dict.entries, dict.entries + dict.size);
    if (style_.sort_keys && !sort(entries)) return false;
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      if (!new_line(depth_) || !write_key(entries[i].key)) return false;
      out_ += style_.key_separator;
      if (!write(entries[i].value)) return false;
    }
    if (!entries.empty() && !new_line(depth_ - 1)) return false;
    out_ += '}';
    return true;
  }

  bool sort(std::vector<Entry>& entries) {
    const auto is_text = [](const Entry& e) { return e.key.is_text(); };
    if (!std::all_of(entries.begin(), entries.end(), is_text)) return in_.fail("tojson: sort_keys needs string keys");
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.key.s->text < b.key.s->text; });
    return true;
  }

  Context& in_;
  const JsonStyle& style_;
  std::string out_;
  bool user_ = false;
  int depth_ = 0;
};

}  // namespace

bool to_json(Context& in, const Value& v, const JsonStyle& style, const Str*& out) {
  JsonWriter writer(in, style);
  if (!writer.write(v)) return false;
  out = writer.finish();
  return true;
}

}  // namespace quire::jinja
