#include "text/chat_messages.h"

#include <optional>
#include <string>
#include <unordered_map>

namespace quire {
namespace {

const std::string* text_at(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr ? value->as_string() : nullptr;
}

// Nothing where a part is no text.
std::optional<std::string> joined(const Json::Array& parts) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string* type = text_at(parts[i], "type");
    const std::string* text = text_at(parts[i], "text");
    if (type == nullptr || *type != "text" || text == nullptr) return std::nullopt;
    if (i > 0) out += '\n';
    out += *text;
  }
  return out;
}

void note_calls(const Json& message, std::unordered_map<std::string, std::string>& names) {
  const Json* calls = message.find("tool_calls");
  if (calls == nullptr || calls->as_array() == nullptr) return;
  for (const Json& call : *calls->as_array()) {
    const std::string* id = text_at(call, "id");
    const Json* function = call.find("function");
    const std::string* name = function != nullptr ? text_at(*function, "name") : nullptr;
    if (id != nullptr && name != nullptr) names[*id] = *name;
  }
}

void unify_message(Json& message) {
  if (message.as_object() == nullptr) return;
  if (const std::string* role = text_at(message, "role"); role != nullptr && *role == "developer") {
    message.set("role", "system");
  }
  const Json* content = message.find("content");
  if (content == nullptr || content->is_null()) {
    message.set("content", "");
  } else if (const Json::Array* parts = content->as_array()) {
    if (std::optional<std::string> text = joined(*parts)) message.set("content", std::move(*text));
  }
}

}  // namespace

void name_results(Json::Array& messages) {
  std::unordered_map<std::string, std::string> names;
  for (Json& message : messages) {
    note_calls(message, names);
    const std::string* id = text_at(message, "tool_call_id");
    if (id == nullptr || message.find("name") != nullptr) continue;
    if (const auto found = names.find(*id); found != names.end()) message.set("name", found->second);
  }
}

void unify_messages(Json::Array& messages) {
  for (Json& message : messages) unify_message(message);
  name_results(messages);
}

}  // namespace quire
