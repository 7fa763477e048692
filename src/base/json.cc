// Parsing: simdjson's DOM checks the text and builds its tape, then one loop with an explicit stack turns the tape into
// Json values. What simdjson 3.0 lets pass and we refuse (halves of surrogate pairs, duplicate keys) is checked here;
// integers beyond 64 bits, which it refuses and we take, are rewritten as floats and parsed once more.
// Writing: one loop with an explicit stack. Error texts are ours: a fixed sentence per kind, and where (json_fault.h).
#include "base/json.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/json_fault.h"

namespace quire {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kKeptParserBytes =
    64 << 10;                          // larger texts get a parser of their own, so that idle threads stay small
constexpr size_t kShownKeyBytes = 64;  // of a duplicate key in an error
constexpr size_t kTapeDepth = kMaxJsonDepth + 1;  // simdjson counts [] and {} as no level; convert() counts exactly
constexpr size_t kMinBigDigits = 19;              // fewer digits always fit int64

// What is wrong.
Error refusal(simdjson::error_code code) {
  switch (code) {
    case simdjson::MEMALLOC: return {Code::exhausted, "JSON: out of memory"};
    case simdjson::CAPACITY: return {Code::invalid, "JSON: the text is larger than 4 GiB"};
    case simdjson::DEPTH_ERROR:
      return {Code::invalid, "JSON: nested deeper than the limit of " + std::to_string(kMaxJsonDepth)};
    case simdjson::UTF8_ERROR: return {Code::invalid, "JSON: the text is not valid UTF-8"};
    case simdjson::EMPTY: return {Code::invalid, "JSON: the text is empty"};
    case simdjson::STRING_ERROR: return {Code::invalid, "JSON: a string has an invalid escape"};
    case simdjson::UNESCAPED_CHARS: return {Code::invalid, "JSON: a string has an unescaped control character"};
    case simdjson::UNCLOSED_STRING: return {Code::invalid, "JSON: a string is not closed"};
    case simdjson::NUMBER_ERROR: return {Code::invalid, "JSON: a number is malformed or out of range"};
    default: return {Code::invalid, "JSON: the text is malformed"};
  }
}

// What is wrong, and where.
Error syntax_error(simdjson::error_code code, std::string_view text) {
  Error error = refusal(code);
  const bool has_place = code != simdjson::MEMALLOC && code != simdjson::CAPACITY && code != simdjson::DEPTH_ERROR;
  const std::optional<size_t> at = has_place ? json_fault(text) : std::nullopt;
  if (at) error.message += *at < text.size() ? " at byte " + std::to_string(*at) : ": it ends too early";
  return error;
}

bool is_hex4(std::string_view s) {
  return s.size() >= 4 && std::all_of(s.begin(), s.begin() + 4, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

// The \uXXXX unit whose backslash is at `at`, or -1.
int escaped_unit(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u' || !is_hex4(text.substr(at + 2))) return -1;
  int unit = 0;
  std::from_chars(text.data() + at + 2, text.data() + at + 6, unit, 16);
  return unit;
}

// REQUIRES text already accepted by simdjson but for its string escapes, so every backslash starts one.
Status check_surrogates(std::string_view text) {
  size_t at = text.find('\\');
  while (at != std::string_view::npos) {
    const int unit = escaped_unit(text, at);
    size_t length = 2;
    if (unit >= 0xd800 && unit <= 0xdfff) {
      const int low = unit < 0xdc00 ? escaped_unit(text, at + 6) : -1;
      if (low < 0xdc00 || low > 0xdfff) {
        return fail(Code::invalid, "JSON: half of a surrogate pair at byte " + std::to_string(at));
      }
      length = 12;
    }
    at = text.find('\\', at + length);
  }
  return {};
}

// Where the string that opens at `at` ends (one past its closing quote).
size_t skip_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// The text with ".0" after each integer that may exceed 64 bits, which makes it a float to simdjson.
std::string big_integers_as_floats(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 64);
  size_t at = 0;
  while (at < text.size()) {
    const size_t start = at;
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      at = std::min(text.find_first_not_of("0123456789+-.eE", at), text.size());
    } else {
      ++at;
    }
    const std::string_view token = text.substr(start, at - start);
    out += token;
    const std::string_view digits = token.substr(c == '-' ? 1 : 0);
    if (digits.size() >= kMinBigDigits && digits.find_first_not_of("0123456789") == std::string_view::npos) out += ".0";
  }
  return out;
}

std::string shown_key(std::string_view key) {
  std::string_view head = key.substr(0, kShownKeyBytes);
  while (head.size() < key.size() && !head.empty() && (key[head.size()] & 0xc0) == 0x80) head.remove_suffix(1);
  std::string out;
  append_json_string(out, head);
  return head.size() < key.size() ? out + "…" : out;
}

// Compares all pairs of a small object, sorts a large one: O(bytes · log keys) whatever the keys are.
Status check_unique_keys(const Json::Object& members) {
  constexpr size_t kSmall = 16;
  std::vector<std::string_view> keys;
  if (members.size() > kSmall) {
    keys.reserve(members.size());
    for (const auto& member : members) keys.emplace_back(member.first);
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin != keys.end()) return fail(Code::invalid, "JSON: duplicate key " + shown_key(*twin));
    return {};
  }
  for (size_t i = 1; i < members.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (members[i].first == members[j].first) {
        return fail(Code::invalid, "JSON: duplicate key " + shown_key(members[i].first));
      }
    }
  }
  return {};
}

Json scalar(const dom::element& e) {
  switch (e.type()) {
    case dom::element_type::INT64: return Json(e.get_int64().value_unsafe());
    case dom::element_type::UINT64: return Json(static_cast<double>(e.get_uint64().value_unsafe()));
    case dom::element_type::DOUBLE: return Json(e.get_double().value_unsafe());
    case dom::element_type::STRING: return Json(std::string(e.get_string().value_unsafe()));
    case dom::element_type::BOOL: return Json(e.get_bool().value_unsafe());
    default: return Json();
  }
}

// One open array or object of the tape and the Json that it becomes. `out` stays put while this frame is open: its
// parent's vector grows only after the frame is popped.
struct Frame {
  Json* out = nullptr;
  bool is_object = false;
  dom::array::iterator item{}, items_end{};
  dom::object::iterator member{}, members_end{};

  bool done() const { return is_object ? !(member != members_end) : !(item != items_end); }
};

Frame open_frame(const dom::element& e, Json* out) {
  Frame frame;
  frame.out = out;
  frame.is_object = e.is_object();
  if (frame.is_object) {
    const dom::object object = e.get_object().value_unsafe();
    frame.member = object.begin();
    frame.members_end = object.end();
    Json::Object members;
    members.reserve(object.size());
    *out = Json(std::move(members));
  } else {
    const dom::array array = e.get_array().value_unsafe();
    frame.item = array.begin();
    frame.items_end = array.end();
    Json::Array items;
    items.reserve(array.size());
    *out = Json(std::move(items));
  }
  return frame;
}

// Appends the frame's next child as null and says where it is and what it is to become.
Json* next_child(Frame& frame, dom::element& e) {
  if (frame.is_object) {
    e = frame.member.value();
    Json::Object& members = *frame.out->as_object();
    members.emplace_back(std::string(frame.member.key()), Json());
    ++frame.member;
    return &members.back().second;
  }
  e = *frame.item;
  ++frame.item;
  return &frame.out->as_array()->emplace_back();
}

Result<Json> convert(const dom::element& root) {
  Json result;
  if (!root.is_object() && !root.is_array()) return scalar(root);
  std::vector<Frame> stack;
  stack.reserve(kMaxJsonDepth);
  stack.push_back(open_frame(root, &result));
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.done()) {
      if (frame.is_object) QR_TRY_VOID(check_unique_keys(*frame.out->as_object()));
      stack.pop_back();
      continue;
    }
    dom::element e;
    Json* child = next_child(frame, e);
    if (e.is_object() || e.is_array()) {
      if (stack.size() == size_t{kMaxJsonDepth}) return tl::make_unexpected(refusal(simdjson::DEPTH_ERROR));
      stack.push_back(open_frame(e, child));
    } else {
      *child = scalar(e);
    }
  }
  return result;
}

Result<Json> parse_with(dom::parser& parser, std::string_view text) {
  const size_t capacity = std::max<size_t>(text.size(), 1);
  if (parser.capacity() < capacity || parser.max_depth() != kTapeDepth) {
    const auto error = parser.allocate(capacity, kTapeDepth);
    if (error) return tl::make_unexpected(refusal(error));
  }
  dom::element root;
  auto error = parser.parse(text.data(), text.size(), true).get(root);
  if (error == simdjson::NUMBER_ERROR) {
    const std::string rewritten = big_integers_as_floats(text);
    if (rewritten.size() != text.size()) error = parser.parse(rewritten.data(), rewritten.size(), true).get(root);
  }
  if (!error || error == simdjson::STRING_ERROR) QR_TRY_VOID(check_surrogates(text));
  if (error) return tl::make_unexpected(syntax_error(error, text));
  return convert(root);
}

// Length of the well-formed UTF-8 sequence at the front of `s` (Unicode table 3-7), 0 when there is none.
size_t utf8_length(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return s.empty() ? 0 : 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool legal = !(lead == 0xe0 && byte(1) < 0xa0) && !(lead == 0xed && byte(1) > 0x9f);
    return legal && tail(1) && tail(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool legal = !(lead == 0xf0 && byte(1) < 0x90) && !(lead == 0xf4 && byte(1) > 0x8f);
    return legal && tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

void append_escape(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default:
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
}

void append_scalar(std::string& out, const Json& value) {
  if (const bool* b = value.as_bool()) {
    out += *b ? "true" : "false";
  } else if (const int64_t* i = value.as_int()) {
    out += std::to_string(*i);
  } else if (const double* d = value.as_double()) {
    append_json_number(out, *d);
  } else if (const std::string* s = value.as_string()) {
    append_json_string(out, *s);
  } else {
    out += "null";
  }
}

struct DumpFrame {
  const Json* value;
  size_t next = 0;
};

// Writes what comes before the frame's next child and returns the child, or closes the frame and returns nullptr.
const Json* dump_step(std::string& out, DumpFrame& frame) {
  const Json::Object* members = frame.value->as_object();
  const Json::Array* items = frame.value->as_array();
  const size_t count = members ? members->size() : items->size();
  if (frame.next == count) {
    out += members ? '}' : ']';
    return nullptr;
  }
  const size_t i = frame.next++;
  if (i > 0) out += ',';
  if (!members) return &(*items)[i];
  append_json_string(out, (*members)[i].first);
  out += ':';
  return &(*members)[i].second;
}

}  // namespace

// What is copied first cannot fail any more when it is moved into its place.
Json::Json(const Json& other) {
  if (const std::string* text = other.as_string()) {
    value_ = std::string(*text);
  } else if (const Array* items = other.as_array()) {
    value_ = Array(*items);
  } else if (const Object* members = other.as_object()) {
    value_ = Object(*members);
  } else {
    value_ = other.value_;
  }
}

Json& Json::operator=(const Json& other) {
  Json copy(other);
  return *this = std::move(copy);
}

Result<Json> Json::parse(std::string_view text) {
  if (text.empty()) return tl::make_unexpected(refusal(simdjson::EMPTY));  // may have no address at all
  if (text.starts_with("\xEF\xBB\xBF")) return fail(Code::invalid, "JSON: the text starts with a byte order mark");
  if (text.size() <= kKeptParserBytes) {
    static thread_local dom::parser kept;
    return parse_with(kept, text);
  }
  dom::parser parser;
  return parse_with(parser, text);
}

const Json* Json::find(std::string_view key) const {
  const Object* members = as_object();
  if (!members) return nullptr;
  const auto it = std::find_if(members->begin(), members->end(), [&](const Member& m) { return m.first == key; });
  return it == members->end() ? nullptr : &it->second;
}

void Json::set(std::string key, Json value) {
  if (is_null()) value_ = Object{};
  Object* members = as_object();
  QR_CHECK(members != nullptr, "Json::set on a value that is no object, key " + key);
  const auto it = std::find_if(members->begin(), members->end(), [&](const Member& m) { return m.first == key; });
  if (it == members->end()) {
    members->emplace_back(std::move(key), std::move(value));
  } else {
    it->second = std::move(value);
  }
}

std::string Json::dump() const {
  std::string out;
  std::vector<DumpFrame> stack;
  const Json* value = this;
  while (true) {
    if (value && (value->as_object() || value->as_array())) {
      out += value->as_object() ? '{' : '[';
      stack.push_back({value});
    } else if (value) {
      append_scalar(out, *value);
    } else {
      stack.pop_back();
    }
    if (stack.empty()) return out;
    value = dump_step(out, stack.back());
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t run = 0;  // bytes of text before `run` are written
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    const size_t length = c < 0x80 ? 1 : utf8_length(text.substr(at));
    if (length > 0 && c >= 0x20 && c != '"' && c != '\\') {
      at += length;
      continue;
    }
    out += text.substr(run, at - run);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      append_escape(out, c);
    }
    run = ++at;
  }
  out += text.substr(run);
  out += '"';
}

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  const std::string_view digits(buffer.data(), static_cast<size_t>(end - buffer.data()));
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";  // else it would read back as an integer
}

}  // namespace quire
