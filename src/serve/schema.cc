#include "serve/schema.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace quire {
namespace {

constexpr double kTwo63 = 9223372036854775808.0;

uint8_t kind_of(const Json& v) {
  if (v.as_bool() != nullptr) return kBool;
  if (v.is_number()) {
    int64_t i = 0;
    return read_integer(v, i) ? kInteger | kNumber : kNumber;
  }
  if (v.as_string() != nullptr) return kString;
  return v.as_array() != nullptr ? kArray : kObject;
}

std::string kind_names(uint8_t kinds) {
  static constexpr std::pair<uint8_t, std::string_view> kNames[] = {{kBool, "a boolean"},  {kInteger, "an integer"},
                                                                    {kNumber, "a number"}, {kString, "a string"},
                                                                    {kArray, "an array"},  {kObject, "an object"}};
  std::string out;
  for (const auto& [kind, name] : kNames) {
    if ((kinds & kind) == 0) continue;
    if (!out.empty()) out += " or ";
    out += name;
  }
  return out;
}

std::string number_text(double v) {
  std::string out;
  append_json_number(out, v);
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out;
}

// A number as the client sent it, up to the notation.
std::string value_text(const Json& v) {
  return v.as_int() != nullptr ? std::to_string(*v.as_int()) : number_text(v.number());
}

struct Size {
  int64_t n;
  std::string_view what;
};
Size size_of(const Json& v) {
  if (v.as_string() != nullptr) return {static_cast<int64_t>(v.as_string()->size()), "bytes"};
  if (v.as_array() != nullptr) return {static_cast<int64_t>(v.as_array()->size()), "entries"};
  return {v.as_object() != nullptr ? static_cast<int64_t>(v.as_object()->size()) : 0, "entries"};
}

ApiResult<void> check_range(const Field& f, const Json& v, const ServeLimits& limits, const std::string& path) {
  const double max = f.limit != nullptr ? static_cast<double>(limits.*f.limit) : f.max;
  if (v.as_bool() != nullptr) return {};
  if (!v.is_number()) {
    const Size size = size_of(v);
    if (static_cast<double>(size.n) > max)
      return refuse(over_limit(path, size.what, size.n, static_cast<int64_t>(max), limit_note(f.limit)));
    return {};
  }
  const double got = v.number();
  if (got >= f.min && got <= max) return {};
  const bool low = !(got >= f.min);
  return refuse(bad_field(path, "is " + value_text(v) + ": the " + (low ? "minimum is " : "maximum is ") +
                                    number_text(low ? f.min : max) + (low ? "" : limit_note(f.limit))));
}

bool is_neutral(const Field& f, const Json& v) {
  for (const std::string_view text : f.neutral) {
    if (text.empty()) continue;
    const auto neutral = Json::parse(text);
    QR_CHECK(neutral.has_value(), "neutral value of " + std::string(f.name));
    if (*neutral == v || (neutral->is_number() && v.is_number() && neutral->number() == v.number())) return true;
  }
  return false;
}

ApiResult<void> check_value(const Field& f, const Json& v, const ServeLimits& limits, const std::string& path) {
  if (f.use == Field::Use::ignored) return {};
  if (f.use == Field::Use::foreign) {
    if (is_neutral(f, v)) return {};
    return refuse(bad_field(path,
                            "is another server's: what is in it, such as temperature, stands in the body itself here",
                            "unsupported_parameter"));
  }
  if (f.use == Field::Use::unsupported) {
    if (is_neutral(f, v)) return {};
    return refuse(unsupported_field(path, f.neutral[0].empty() ? "" : "only " + std::string(f.neutral[0]) + " is"));
  }
  if ((kind_of(v) & f.kinds) == 0) return refuse(bad_field(path, "must be " + kind_names(f.kinds), "invalid_type"));
  return check_range(f, v, limits, path);
}

}  // namespace

bool read_integer(const Json& value, int64_t& out) {
  if (value.as_int() != nullptr) {
    out = *value.as_int();
    return true;
  }
  const double* d = value.as_double();
  if (d == nullptr || !std::isfinite(*d) || std::trunc(*d) != *d) return false;
  if (*d >= kTwo63)
    out = std::numeric_limits<int64_t>::max();
  else if (*d < -kTwo63)
    out = std::numeric_limits<int64_t>::min();
  else
    out = static_cast<int64_t>(*d);
  return true;
}

const Json* Args::find(std::string_view name) const {
  for (const Entry& e : entries_)
    if (e.name == name) return e.value;
  return nullptr;
}

std::string_view Args::sent_as(std::string_view name) const {
  for (const Entry& e : entries_)
    if (e.name == name) return e.sent_as;
  return name;
}

bool Args::flag(std::string_view name, bool otherwise) const {
  const Json* v = find(name);
  return v != nullptr && v->as_bool() != nullptr ? *v->as_bool() : otherwise;
}

int64_t Args::integer(std::string_view name, int64_t otherwise) const {
  const Json* v = find(name);
  if (v != nullptr) read_integer(*v, otherwise);
  return otherwise;
}

double Args::number(std::string_view name, double otherwise) const {
  const Json* v = find(name);
  return v != nullptr && v->is_number() ? v->number() : otherwise;
}

std::string_view Args::text(std::string_view name) const {
  const Json* v = find(name);
  return v != nullptr && v->as_string() != nullptr ? std::string_view(*v->as_string()) : std::string_view();
}

Schema::Schema(std::initializer_list<std::span<const Field>> tables) {
  for (const auto& table : tables) {
    for (const Field& f : table) {
      QR_CHECK(by_name_.emplace(f.name, &f).second, "field declared twice: " + std::string(f.name));
      fields_.push_back(&f);
    }
  }
  for (const Field* f : fields_)
    QR_CHECK(f->same_as.empty() || by_name_.contains(f->same_as), "no such field: " + std::string(f->same_as));
}

std::string Warnings::text() const {
  std::string out;
  for (const std::string& path : unknown_) {
    out += out.empty() ? "unknown fields were ignored: " : " ";
    append_header_text(out, path);
  }
  for (const std::string& other : others_) {
    if (!out.empty()) out += "; ";
    out += other;
  }
  return out;
}

ApiResult<Args> Schema::check(const Json& object, const Reading& reading, std::string_view path) const {
  const Json::Object* members = object.as_object();
  if (members == nullptr) {
    if (!path.empty()) return refuse(bad_field(path, "must be an object", "invalid_type"));
    return refuse(HttpError{400, "the body must be a JSON object", "invalid_request_error", "", "invalid_type"});
  }
  Args args;
  for (const auto& [name, value] : *members) {
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) {
      if (reading.warnings.n_unknown() < reading.limits.n_warned) reading.warnings.unknown_field(at_key(path, name));
      continue;
    }
    if (value.is_null()) continue;
    const Field& f = it->second->same_as.empty() ? *it->second : *by_name_.at(it->second->same_as);
    QR_TRY_VOID(check_value(f, value, reading.limits, at_key(path, name)));
    if (f.use != Field::Use::used) continue;
    const auto same = std::find_if(args.entries_.begin(), args.entries_.end(),
                                   [&](const Args::Entry& e) { return e.name == f.name; });
    if (same == args.entries_.end())
      args.entries_.push_back({f.name, it->second->name, &value});
    else if (!(*same->value == value))
      return refuse(bad_field(at_key(path, name), "differs from '" + std::string(same->sent_as) + "', its other name"));
  }
  return args;
}

}  // namespace quire
