#include "text/told_tools.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "text/parse/call_grammar.h"

namespace quire {
namespace {

std::string text_at(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  return found != nullptr && found->as_string() != nullptr ? *found->as_string() : std::string();
}

bool has_role(const Json& message, std::string_view role) { return text_at(message, "role") == role; }

// Without the marks around all calls. `arguments` is JSON.
std::string one_call(const CallForm& form, std::string_view name, const std::string& arguments) {
  const CallText around = call_text(form);
  return around.before + name_text(form, name) + around.between + arguments + around.after;
}

std::string marked(const CallForm& form, const std::string& calls) {
  return std::string(form.lead) + calls + std::string(form.tail);
}

Json without_calls(const Json& message, const CallForm& form) {
  std::string calls;
  for (const Json& call : *message.find("tool_calls")->as_array()) {
    const Json* function = call.find("function");
    if (function == nullptr) continue;
    const std::string arguments = text_at(*function, "arguments");
    if (!calls.empty()) calls += form.between;
    calls += one_call(form, text_at(*function, "name"), arguments.empty() ? "{}" : arguments);
  }
  std::string content = text_at(message, "content");
  if (!calls.empty()) content += (content.empty() ? "" : "\n") + marked(form, calls);
  Json out(Json::Object{});
  for (const auto& [key, value] : *message.as_object())
    if (key != "tool_calls") out.set(key, value);
  out.set("content", std::move(content));
  return out;
}

std::string tools_text(const Json& tools, const CallForm& form) {
  std::string out = "You can call functions. Each line describes one:\n";
  for (const Json& tool : *tools.as_array()) {
    const Json* function = tool.find("function");
    out += (function != nullptr ? *function : tool).dump() + '\n';
  }
  return out + "\nTo call a function, answer with its name and its arguments in this form, and with nothing else:\n" +
         marked(form, one_call(form, "NAME", R"({"KEY": "VALUE"})")) +
         "\n\nWhere no function is needed, answer in plain text.";
}

void tell(Json::Array& messages, const std::string& text) {
  const auto at = std::ranges::find_if(messages, [](const Json& message) { return has_role(message, "user"); });
  if (at == messages.end())
    messages.insert(messages.begin(), Json::Object{{"role", "user"}, {"content", text}});
  else
    at->set("content", text + "\n\n" + text_at(*at, "content"));
}

}  // namespace

void tell_tools(Json::Array& messages, const Json& tools, const CallForm& form) {
  Json::Array out;
  std::string results;  // of the user's turn that is being put together
  const auto end_results = [&] {
    if (!results.empty()) out.push_back(Json::Object{{"role", "user"}, {"content", std::exchange(results, "")}});
  };
  for (Json& message : messages) {
    const Json* calls = message.find("tool_calls");
    if (has_role(message, "tool")) {
      results +=
          (results.empty() ? "" : "\n") + ("<tool_response>\n" + text_at(message, "content")) + "\n</tool_response>";
      continue;
    }
    if (!results.empty() && has_role(message, "user")) {
      results += '\n' + text_at(message, "content");
      end_results();
      continue;
    }
    end_results();
    out.push_back(calls != nullptr && calls->as_array() != nullptr ? without_calls(message, form) : std::move(message));
  }
  end_results();
  messages = std::move(out);
  if (tools.as_array() != nullptr && !tools.as_array()->empty()) tell(messages, tools_text(tools, form));
}

}  // namespace quire
