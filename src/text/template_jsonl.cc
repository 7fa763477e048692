#include "text/template_jsonl.h"

#include "text/chat_messages.h"

namespace quire {
namespace {

Status wrong_type(const std::string& name, std::string_view wanted) {
  return fail(Code::invalid, "'" + name + "' must be " + std::string(wanted));
}

bool is_variable(std::string_view name) {
  const bool field = name == "messages" || name == "tools" || name == "add_generation_prompt" || name == "now";
  return !field && !name.ends_with("_token");
}

Status set_field(const Json::Member& member, TemplateInput& out) {
  const auto& [name, value] = member;
  if (name == "messages") {
    if (!value.as_array()) return wrong_type(name, "an array");
    out.messages = value;
    unify_messages(*out.messages.as_array());
  } else if (name == "tools") {
    if (!value.as_array() && !value.is_null()) return wrong_type(name, "an array or null");
    out.tools = value;
  } else if (name == "add_generation_prompt") {
    if (!value.as_bool()) return wrong_type(name, "a boolean");
    out.add_generation_prompt = *value.as_bool();
  } else if (name == "now") {
    if (!value.as_string()) return wrong_type(name, "a string");
    out.now = *value.as_string();
  } else if (name.ends_with("_token")) {
    if (!value.as_string() && !value.is_null()) return wrong_type(name, "a string or null");
    out.special_tokens.set(name, value);
  }
  return {};
}

Result<std::string> render_line(const ChatTemplate& tmpl, std::string_view line, const TemplateInput& defaults) {
  QR_TRY(const Json request, Json::parse(line));
  QR_TRY(const TemplateInput input, template_input(request, defaults));
  return tmpl.render(input);
}

}  // namespace

Result<TemplateInput> template_input(const Json& request, const TemplateInput& defaults) {
  const Json::Object* members = request.as_object();
  if (!members) return fail(Code::invalid, "the request must be an object");
  if (!request.find("messages")) return fail(Code::invalid, "'messages' is missing");
  TemplateInput out = defaults;
  // The request's keys are unique already: appending keeps a body of many variables linear.
  Json::Object extra;
  for (const Json::Member& member : *members) {
    if (is_variable(member.first)) {
      extra.push_back(member);
    } else {
      QR_TRY_VOID(set_field(member, out));
    }
  }
  if (const Json::Object* kept = defaults.extra.as_object()) {
    for (const Json::Member& member : *kept) {
      if (!request.find(member.first)) extra.push_back(member);
    }
  }
  out.extra = Json(std::move(extra));
  return out;
}

std::string render_template_line(const ChatTemplate& tmpl, std::string_view line, const TemplateInput& defaults) {
  const Result<std::string> text = render_line(tmpl, line, defaults);
  std::string out = text ? "{\"text\":" : "{\"error\":";
  append_json_string(out, text ? *text : text.error().message);
  return out + "}";
}

}  // namespace quire
