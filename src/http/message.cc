// Pure functions on text; every loop is linear in its input.
#include "http/message.h"

#include <algorithm>
#include <array>

#include "base/json.h"

namespace quire {
namespace {

constexpr size_t kShownBytes = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

struct Phrase {
  int status;
  std::string_view text;
};
constexpr std::array kPhrases = {
    Phrase{100, "Continue"},
    Phrase{200, "OK"},
    Phrase{201, "Created"},
    Phrase{202, "Accepted"},
    Phrase{204, "No Content"},
    Phrase{206, "Partial Content"},
    Phrase{301, "Moved Permanently"},
    Phrase{302, "Found"},
    Phrase{303, "See Other"},
    Phrase{304, "Not Modified"},
    Phrase{307, "Temporary Redirect"},
    Phrase{308, "Permanent Redirect"},
    Phrase{400, "Bad Request"},
    Phrase{401, "Unauthorized"},
    Phrase{403, "Forbidden"},
    Phrase{404, "Not Found"},
    Phrase{405, "Method Not Allowed"},
    Phrase{406, "Not Acceptable"},
    Phrase{408, "Request Timeout"},
    Phrase{409, "Conflict"},
    Phrase{410, "Gone"},
    Phrase{411, "Length Required"},
    Phrase{413, "Content Too Large"},
    Phrase{414, "URI Too Long"},
    Phrase{415, "Unsupported Media Type"},
    Phrase{417, "Expectation Failed"},
    Phrase{422, "Unprocessable Content"},
    Phrase{429, "Too Many Requests"},
    Phrase{431, "Request Header Fields Too Large"},
    Phrase{499, "Client Closed Request"},
    Phrase{500, "Internal Server Error"},
    Phrase{501, "Not Implemented"},
    Phrase{502, "Bad Gateway"},
    Phrase{503, "Service Unavailable"},
    Phrase{504, "Gateway Timeout"},
    Phrase{505, "HTTP Version Not Supported"},
};

bool has_control(std::string_view s) {
  return std::any_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool has_dot_segment(std::string_view path) {
  while (!path.empty()) {
    const std::string_view segment = path.substr(0, path.find('/'));
    if (segment == "." || segment == "..") return true;
    if (segment.size() == path.size()) return false;
    path.remove_prefix(segment.size() + 1);
  }
  return false;
}

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  for (const HttpHeader& h : headers)
    if (h.name == name) return &h.value;
  return nullptr;
}

std::optional<std::string> HttpRequest::query_param(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t eq = std::min(pair.find('='), pair.size());
    if (percent_decode(pair.substr(0, eq), true) != name) continue;
    return percent_decode(pair.substr(std::min(pair.size(), eq + 1)), true);
  }
  return std::nullopt;
}

std::string error_body(const HttpError& e) {
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, e.message);
  out += ",\"type\":";
  append_json_string(out, e.type);
  for (const auto& [name, value] : {std::pair{",\"param\":", &e.param}, std::pair{",\"code\":", &e.code}}) {
    out += name;
    if (value->empty())
      out += "null";
    else
      append_json_string(out, *value);
  }
  for (const auto& [name, value] : e.numbers) {
    out += ',';
    append_json_string(out, name);
    out += ':' + std::to_string(value);
  }
  return out + "}}";
}

std::string_view status_phrase(int status) {
  for (const Phrase& p : kPhrases)
    if (p.status == status) return p.text;
  return "Unknown";
}

std::string shown(std::string_view text) {
  std::string out(text.substr(0, kShownBytes));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  if (text.size() > kShownBytes) out += "…";
  return out;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += plus && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool equal_no_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

bool has_list_token(std::string_view value, std::string_view token) {
  while (true) {
    const std::string_view item = value.substr(0, value.find(','));
    if (equal_no_case(trim(item), token)) return true;
    if (item.size() == value.size()) return false;
    value.remove_prefix(item.size() + 1);
  }
}

std::string origin_form(std::string_view target) {
  if (target.starts_with('/')) return std::string(target);
  for (const std::string_view scheme : {std::string_view("http://"), std::string_view("https://")}) {
    if (!equal_no_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    if (end == 0) return {};
    const std::string_view rest = target.substr(end);
    return rest.starts_with('/') ? std::string(rest) : "/" + std::string(rest);
  }
  return {};
}

Result<TargetParts> split_target(std::string_view target, bool asterisk) {
  if (target == "*" && asterisk) return TargetParts{"*", ""};
  if (target.find('#') != std::string_view::npos) return fail(Code::invalid, "the URL holds a fragment");
  const std::string origin = origin_form(target);
  target = origin;
  if (target.empty()) return fail(Code::invalid, "the URL must begin with '/' or with http://host");
  const size_t mark = std::min(target.find('?'), target.size());
  auto path = percent_decode(target.substr(0, mark), false);
  if (!path) return fail(Code::invalid, "the URL's path holds a '%' without two hexadecimal digits");
  if (has_control(*path)) return fail(Code::invalid, "the URL's path holds a control character");
  if (has_dot_segment(*path)) return fail(Code::invalid, "the URL's path holds a '.' or '..' segment");
  return TargetParts{std::move(*path), std::string(target.substr(std::min(target.size(), mark + 1)))};
}

}  // namespace quire
