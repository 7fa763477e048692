#include "io/hf_config.h"

#include <algorithm>
#include <optional>

namespace quire {
namespace {

std::optional<MetaValue> array_value(const Json::Array& items) {
  const auto all = [&items](auto is) { return std::all_of(items.begin(), items.end(), is); };
  if (all([](const Json& v) { return v.as_int() != nullptr; })) {
    std::vector<int64_t> out;
    for (const Json& item : items) out.push_back(*item.as_int());
    return out;
  }
  if (all([](const Json& v) { return v.is_number(); })) {
    std::vector<double> out;
    for (const Json& item : items) out.push_back(item.number());
    return out;
  }
  if (all([](const Json& v) { return v.as_string() != nullptr; })) {
    std::vector<std::string> out;
    for (const Json& item : items) out.push_back(*item.as_string());
    return out;
  }
  return std::nullopt;
}

std::optional<MetaValue> plain_value(const Json& json) {
  if (const bool* v = json.as_bool()) return *v;
  if (const int64_t* v = json.as_int()) return *v;
  if (const double* v = json.as_double()) return *v;
  if (const std::string* v = json.as_string()) return *v;
  if (const Json::Array* v = json.as_array()) return array_value(*v);
  return std::nullopt;
}

struct Todo {
  std::string prefix;
  const Json* json;
};

// Later objects do not replace what earlier ones said.
void flatten(std::string prefix, const Json& root, Metadata& out) {
  std::vector<Todo> todo = {{std::move(prefix), &root}};
  while (!todo.empty()) {
    const Todo next = std::move(todo.back());
    todo.pop_back();
    for (const auto& [key, value] : *next.json->as_object()) {
      if (value.as_object() != nullptr) {
        todo.push_back({next.prefix + key + ".", &value});
      } else if (auto plain = plain_value(value)) {
        out.values.emplace(next.prefix + key, std::move(*plain));
      }
    }
  }
}

}  // namespace

Result<Metadata> read_hf_config(const Json& config) {
  if (config.as_object() == nullptr) return fail(Code::corrupt, "must be a JSON object");
  Metadata out;
  const Json* text = config.find("text_config");
  if (text != nullptr && text->as_object() != nullptr) flatten(std::string(kHfPrefix), *text, out);
  flatten(std::string(kHfPrefix), config, out);
  return out;
}

Status add_hf_generation_config(const Json& config, Metadata& meta) {
  if (config.as_object() == nullptr) return fail(Code::corrupt, "must be a JSON object");
  flatten(std::string(kHfGenerationPrefix), config, meta);
  return {};
}

}  // namespace quire
