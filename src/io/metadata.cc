// Metadata's typed look-ups: one place that says which value was wrong and what was wanted.
#include <cmath>

#include "io/hf_config.h"
#include "io/in_quotes.h"
#include "io/model_file.h"

namespace quire {
namespace {

std::string describe(const MetaValue& value) {
  if (const auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<int64_t>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<uint64_t>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<double>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<std::string>(&value)) return "the string " + in_quotes(*v);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value))
    return "an array of " + std::to_string(v->size()) + " integers";
  if (const auto* v = std::get_if<std::vector<double>>(&value))
    return "an array of " + std::to_string(v->size()) + " numbers";
  return "an array of " + std::to_string(std::get<std::vector<std::string>>(value).size()) + " strings";
}

tl::unexpected<Error> missing(const std::string& shown) {
  return fail(Code::not_found, "key " + shown + ": is missing");
}

tl::unexpected<Error> wrong(const std::string& shown, const std::string& wanted, const MetaValue& found) {
  return fail(Code::corrupt, "key " + shown + ": must be " + wanted + ", is " + describe(found));
}

template <class T>
std::string range(T lo, T hi) {
  return " in [" + std::to_string(lo) + ", " + std::to_string(hi) + "]";
}

}  // namespace

const MetaValue* Metadata::find(std::string_view key) const {
  const auto it = values.find(key);
  return it == values.end() ? nullptr : &it->second;
}

std::string Metadata::shown(std::string_view key) const {
  const auto it = spelled.find(key);
  if (it != spelled.end()) return in_quotes(it->second);
  return in_quotes(key.starts_with(kHfPrefix) ? key.substr(kHfPrefix.size()) : key);
}

Result<int64_t> Metadata::get_int(std::string_view key, int64_t lo, int64_t hi) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(shown(key));
  const auto* number = std::get_if<int64_t>(value);
  if (number == nullptr || *number < lo || *number > hi) return wrong(shown(key), "an integer" + range(lo, hi), *value);
  return *number;
}

Result<double> Metadata::get_double(std::string_view key, double lo, double hi) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(shown(key));
  double number = NAN;
  if (const auto* d = std::get_if<double>(value)) number = *d;
  if (const auto* i = std::get_if<int64_t>(value)) number = static_cast<double>(*i);
  if (!(number >= lo && number <= hi)) return wrong(shown(key), "a number" + range(lo, hi), *value);
  return number;
}

Result<std::string> Metadata::get_string(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(shown(key));
  const auto* text = std::get_if<std::string>(value);
  if (text == nullptr) return wrong(shown(key), "a string", *value);
  return *text;
}

Result<int64_t> Metadata::get_int_or(std::string_view key, int64_t lo, int64_t hi, int64_t fallback) const {
  if (find(key) == nullptr) return fallback;
  return get_int(key, lo, hi);
}

Result<double> Metadata::get_double_or(std::string_view key, double lo, double hi, double fallback) const {
  if (find(key) == nullptr) return fallback;
  return get_double(key, lo, hi);
}

Result<bool> Metadata::get_bool_or(std::string_view key, bool fallback) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return fallback;
  const auto* flag = std::get_if<bool>(value);
  if (flag == nullptr) return wrong(shown(key), "true or false", *value);
  return *flag;
}

Result<std::string> Metadata::get_string_or(std::string_view key, std::string fallback) const {
  if (find(key) == nullptr) return fallback;
  return get_string(key);
}

}  // namespace quire
