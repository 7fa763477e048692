#include "io/config_keys.h"

namespace quire {

std::string value_text(const Json& value) {
  return value.as_string() != nullptr ? in_quotes(*value.as_string()) : value.dump().substr(0, 80);
}

const Json* ConfigKeys::find(Names names, std::string_view& shown) const {
  shown = *names.begin();
  for (const std::string_view name : names) {
    const Json* value = json_.find(name);
    if (value == nullptr || value->is_null()) continue;
    shown = name;
    return value;
  }
  return nullptr;
}

Result<int64_t> ConfigKeys::integer(Names names) const {
  std::string_view shown;
  const Json* value = find(names, shown);
  if (value == nullptr) return fail(Code::not_found, label(shown) + ": is missing");
  if (value->as_int() != nullptr) return *value->as_int();
  return fail(Code::corrupt, label(shown) + ": must be an integer, is " + value_text(*value));
}

Result<bool> ConfigKeys::boolean(std::string_view name, bool fallback) const {
  std::string_view shown;
  const Json* value = find({name}, shown);
  if (value == nullptr) return fallback;
  if (value->as_bool() != nullptr) return *value->as_bool();
  return fail(Code::corrupt, label(name) + ": must be a bool, is " + value_text(*value));
}

Result<std::string> ConfigKeys::text(Names names, std::string_view fallback, Names supported) const {
  std::string_view shown;
  const Json* value = find(names, shown);
  if (value == nullptr) return std::string(fallback);
  std::string known, found = value->as_string() != nullptr ? *value->as_string() : std::string();
  for (char& c : found) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  for (const std::string_view one : supported) {
    if (found == one) return found;
    known += (known.empty() ? "" : ", ") + std::string(one);
  }
  return unsupported(shown, value_text(*value), known);
}

tl::unexpected<Error> ConfigKeys::unsupported(std::string_view key,
                                              const std::string& found,
                                              std::string_view supported) const {
  return fail(Code::unsupported,
              label(key) + ": " + found + " is not supported (supported: " + std::string(supported) + ")");
}

}  // namespace quire
