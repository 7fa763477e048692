// Learned prefixes as requests name them: "base:NAME" for a model, or the field "prefix".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct ServedPrefix {
  std::string name;      // not empty, without ':'
  uint64_t content = 0;  // Request::prefix
  int n_tokens = 0;      // virtual ones, of the context
};

// The one that a model's name ends in behind one of `models` and ':', null where it does not.
inline const ServedPrefix* prefix_of_model(std::string_view name,
                                           const std::vector<std::string>& models,
                                           const std::vector<ServedPrefix>& prefixes) {
  const size_t at = name.rfind(':');
  if (at == std::string_view::npos) return nullptr;
  bool known = false;
  for (const std::string& model : models) known |= model == name.substr(0, at);
  for (const ServedPrefix& prefix : prefixes) {
    if (known && prefix.name == name.substr(at + 1)) return &prefix;
  }
  return nullptr;
}

// Every model's name, then each with every prefix.
inline std::vector<std::string> served_names(const std::vector<std::string>& models,
                                             const std::vector<ServedPrefix>& prefixes) {
  std::vector<std::string> out = models;
  for (const std::string& model : models) {
    for (const ServedPrefix& prefix : prefixes) out.push_back(model + ":" + prefix.name);
  }
  return out;
}

}  // namespace quire
