// The members of a configuration that says how a folder is quantised. Errors name file, key, value found and values
// supported. A view; any thread.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "io/in_quotes.h"

namespace quire {

// For errors: a string in quotes, or what else it is, cut to what a line has room for.
std::string value_text(const Json& value);

// The members of the configuration, each under the names that writers have given it.
class ConfigKeys {
 public:
  using Names = std::initializer_list<std::string_view>;

  // `where`: file, and the keys around these, up to the quote in front of a key.
  ConfigKeys(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  // Null where none is there. `shown`: the name that is, or the first.
  const Json* find(Names names, std::string_view& shown) const;
  Result<int64_t> integer(Names names) const;
  Result<bool> boolean(std::string_view name, bool fallback) const;
  // Lower case; one of those that are supported, or `fallback` where none is there.
  Result<std::string> text(Names names, std::string_view fallback, Names supported) const;
  // Of an object among the members.
  ConfigKeys inside(const Json& json, const std::string& name) const { return {json, where_ + name + "."}; }
  std::string label(std::string_view key) const { return where_ + std::string(key) + "\""; }
  tl::unexpected<Error> unsupported(std::string_view key, const std::string& found, std::string_view supported) const;

 private:
  const Json& json_;
  std::string where_;
};

}  // namespace quire
