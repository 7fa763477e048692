#include "serve/tools.h"

#include <algorithm>

#include "base/rng.h"
#include "serve/custom_tools.h"

namespace quire {
namespace {

constexpr Field kTool[] = {
    field_of("type", kString),
    field_of("function", kObject),
    field_of("name", kString, &ServeLimits::name_bytes),
    field_of("description", kString),
    field_of("parameters", kObject),
    field_of("input_schema", kObject),
    flag_field("strict"),
    ignored_field("cache_control"),
    ignored_field("input_examples"),
};
constexpr Field kChoice[] = {
    field_of("type", kString),          field_of("function", kObject), field_of("name", kString),
    field_of("allowed_tools", kObject), field_of("mode", kString),     field_of("tools", kArray, &ServeLimits::n_tools),
    field_of("custom", kObject),
};
constexpr Field kCall[] = {field_of("id", kString, &ServeLimits::name_bytes), field_of("type", kString),
                           field_of("function", kObject), field_of("custom", kObject), ignored_field("index")};
constexpr Field kCalled[] = {field_of("name", kString, &ServeLimits::name_bytes), field_of("arguments", kString),
                             field_of("input", kString)};
const Schema kToolSchema({kTool});
const Schema kChoiceSchema({kChoice});
const Schema kCallSchema({kCall});
const Schema kCalledSchema({kCalled});

// Behind checks: the function itself, "strict" left out, which says nothing to a model.
Json function_of(const Args& tool, const ToolSyntax& syntax, const Json& source) {
  Json out = Json::Object{};
  if (syntax.nested) {
    for (const Json::Member& m : *source.as_object())
      if (m.first != "strict" && !m.second.is_null()) out.set(m.first, m.second);
  } else {
    out.set("name", tool.text("name"));
    if (tool.has("description")) out.set("description", tool.text("description"));
    if (const Json* parameters = tool.find(syntax.parameters)) out.set("parameters", *parameters);
  }
  if (out.find("parameters") == nullptr)
    out.set("parameters", Json::Object{{"type", "object"}, {"properties", Json::Object{}}});
  return out;
}

std::string_view known_types(const ToolSyntax& syntax) {
  return syntax.custom ? "function and custom are" : "only function is";
}

bool is_custom(const Json& one, const ToolSyntax& syntax) {
  const Json* type = one.find("type");
  return syntax.custom && type != nullptr && type->as_string() != nullptr && *type->as_string() == "custom";
}

ApiResult<void> add_tool(Json function, Tools::Source source, const std::string& path, Tools& out) {
  const std::string& name = *function.find("name")->as_string();
  if (std::find(out.names.begin(), out.names.end(), name) != out.names.end())
    return refuse(bad_field(at_key(path, "name"), "is '" + shown(name) + "', which another tool is named"));
  out.names.push_back(name);
  out.sources.push_back(std::move(source));
  if (out.list.is_null()) out.list = Json::Array{};
  out.list.as_array()->push_back(Json::Object{{"type", "function"}, {"function", std::move(function)}});
  return {};
}

ApiResult<void> read_custom(
    const Json& tool, const ToolSyntax& syntax, const std::string& path, const Reading& reading, Tools& out) {
  QR_TRY(CustomTool custom, read_custom_tool(tool, syntax.nested, path, reading));
  Tools::Source source{.parameters_field = custom.input.field, .strict = true, .input = custom.input};
  return add_tool(std::move(custom.function), std::move(source), syntax.nested ? at_key(path, "custom") : path, out);
}

ApiResult<void> read_tool(
    const Json& tool, const ToolSyntax& syntax, const std::string& path, const Reading& reading, Tools& out) {
  if (is_custom(tool, syntax)) return read_custom(tool, syntax, path, reading, out);
  QR_TRY(Args args, kToolSchema.check(tool, reading, path));
  const std::string_view type = args.text("type");
  if (args.has("type") && type != "function" && !(type == "custom" && syntax.parameters == "input_schema"))
    return refuse(unsupported_field(at_key(path, "type"), "'" + shown(type) + "'; only functions of the client's " +
                                                              (syntax.custom ? "and custom tools are" : "are")));
  const Json* source = &tool;
  std::string at = path;
  if (syntax.nested) {
    source = args.find("function");
    at = at_key(path, "function");
    if (source == nullptr) return refuse(missing_field(at));
    QR_TRY(args, kToolSchema.check(*source, reading, at));
  }
  if (args.text("name").empty()) return refuse(missing_field(at_key(at, "name")));
  Tools::Source from{at_key(at, syntax.parameters), args.has(syntax.parameters), args.flag("strict", false)};
  return add_tool(function_of(args, syntax, *source), std::move(from), at, out);
}

// The name in {"type":"function", …}, or "custom", of a choice.
ApiResult<std::string> read_chosen(
    const Json& one, const ToolSyntax& syntax, const std::string& path, const Reading& reading, const Tools& tools) {
  QR_TRY(Args args, kChoiceSchema.check(one, reading, path));
  const std::string type(args.text("type"));
  const bool custom = is_custom(one, syntax);
  if (type != "function" && !custom)
    return refuse(
        unsupported_field(at_key(path, "type"), "'" + shown(type) + "'; " + std::string(known_types(syntax))));
  std::string at = path;
  if (syntax.nested) {
    at = at_key(path, type);
    const Json* inner = args.find(type);
    if (inner == nullptr) return refuse(missing_field(at));
    QR_TRY(args, kChoiceSchema.check(*inner, reading, at));
  }
  const std::string name(args.text("name"));
  if (name.empty()) return refuse(missing_field(at_key(at, "name")));
  const bool known = std::find(tools.names.begin(), tools.names.end(), name) != tools.names.end();
  if (known && custom != is_custom_call(tools.custom_names(), name))
    return refuse(bad_field(at_key(path, "type"), "is '" + type + "', which the tool '" + shown(name) + "' is not"));
  return name;
}

ApiResult<void> set_mode(std::string_view mode, const std::string& path, Tools& tools) {
  if (mode == "auto") return {};
  tools.none = mode == "none";
  tools.required = mode == "required";
  if (tools.none || tools.required) return {};
  return refuse(bad_field(path, "is '" + shown(mode) + "': it must be auto, none or required"));
}

ApiResult<void> read_allowed(const Args& choice, const ToolSyntax& syntax, const Reading& reading, Tools& tools) {
  Args args = choice;
  std::string path = "tool_choice";
  if (syntax.nested) {
    path = at_key(path, "allowed_tools");
    const Json* allowed = choice.find("allowed_tools");
    if (allowed == nullptr) return refuse(missing_field(path));
    QR_TRY(args, kChoiceSchema.check(*allowed, reading, path));
  }
  const Json* list = args.find("tools");
  const std::string mode_path = at_key(path, "mode");
  path = at_key(path, "tools");
  if (list == nullptr || list->as_array()->empty()) return refuse(missing_field(path));
  std::vector<std::string> names;
  for (const Json& one : *list->as_array()) {
    QR_TRY(std::string name,
           read_chosen(one, syntax, at_index(path, static_cast<int64_t>(names.size())), reading, tools));
    names.push_back(std::move(name));
  }
  QR_TRY_VOID(choose_tools(std::move(names), path, tools));
  return set_mode(args.has("mode") ? args.text("mode") : "auto", mode_path, tools);
}

}  // namespace

std::vector<std::string> Tools::custom_names() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i].input) out.push_back(*(*list.as_array())[i].find("function")->find("name")->as_string());
  return out;
}

ApiResult<void> choose_tools(std::vector<std::string> names, std::string_view path, Tools& tools) {
  for (const std::string& name : names)
    if (std::find(tools.names.begin(), tools.names.end(), name) == tools.names.end())
      return refuse(bad_field(path, "names '" + shown(name) + "', which is none of the tools"));
  tools.names = std::move(names);
  return {};
}

ApiResult<Tools> read_tools(const Json* tools, const ToolSyntax& syntax, const Reading& reading) {
  Tools out;
  if (tools == nullptr) return out;
  for (const Json& tool : *tools->as_array())
    QR_TRY_VOID(read_tool(tool, syntax, at_index("tools", static_cast<int64_t>(out.names.size())), reading, out));
  out.text = out.list.dump();
  const int64_t limit = reading.limits.tools_bytes;
  if (std::ssize(out.text) > limit)
    return refuse(
        over_limit("tools", "bytes as JSON", std::ssize(out.text), limit, limit_note(&ServeLimits::tools_bytes)));
  return out;
}

ApiResult<void> read_tool_choice(const Args& args, const ToolSyntax& syntax, const Reading& reading, Tools& tools) {
  tools.only_one = !args.flag("parallel_tool_calls", true);
  const Json* choice = args.find("tool_choice");
  if (choice == nullptr) return {};
  const std::string* mode = choice->as_string();
  if (tools.list.is_null() && (mode == nullptr || (*mode != "none" && *mode != "auto")))
    return refuse(bad_field("tool_choice", "needs tools"));
  if (mode != nullptr) return set_mode(*mode, "tool_choice", tools);
  QR_TRY(const Args inner, kChoiceSchema.check(*choice, reading, "tool_choice"));
  if (inner.text("type") == "allowed_tools") return read_allowed(inner, syntax, reading, tools);
  QR_TRY(std::string name, read_chosen(*choice, syntax, "tool_choice", reading, tools));
  tools.required = tools.only_one = true;
  return choose_tools({std::move(name)}, "tool_choice", tools);
}

ApiResult<void> check_tools(const Tools& tools, const ServeEnv& env) {
  if (!tools.given()) return {};
  const std::string model = "'" + env.models[0] + "'";
  if (!env.tools.takes_tools && !env.tools.told)
    return refuse(unsupported_field(
        "tools", "the chat template of " + model + " shows none; without --tool-format they are told in words"));
  if (env.tools.form == nullptr)
    return refuse(unsupported_field("tools", "how " + model + " writes calls is not known; --tool-format names a way"));
  return {};
}

std::shared_ptr<const CallRules> call_rules(const Tools& tools, const ToolFormat& format, bool or_document) {
  const CallForm& form = *format.form;
  CallRules out;
  out.form = &form;
  out.names = tools.names;
  out.only_one = tools.only_one;
  out.or_document = or_document && !tools.required;
  const bool obeys = tools.required || or_document || std::ranges::any_of(tools.sources, &Tools::Source::strict);
  out.bare = format.told && !obeys;
  const auto holds_input = [](const Tools::Source& source) { return source.input.has_value(); };
  out.in_thoughts = !obeys && std::ranges::none_of(tools.sources, holds_input);
  if (form.marked() || form.tagged()) {
    out.kinds.resize(out.names.size());
    for (const Json& tool : *tools.list.as_array()) {
      const Json& function = *tool.find("function");
      const auto at = std::find(out.names.begin(), out.names.end(), *function.find("name")->as_string());
      if (at != out.names.end())
        out.kinds[static_cast<size_t>(at - out.names.begin())] = ArgumentKinds(*function.find("parameters"));
    }
  }
  return std::make_shared<const CallRules>(std::move(out));
}

ApiResult<Json> call_message(std::string_view id,
                             std::string_view name,
                             std::string_view arguments,
                             std::string_view path) {
  if (arguments.empty()) arguments = "{}";
  const auto parsed = Json::parse(arguments);
  if (!parsed || parsed->as_object() == nullptr)
    return refuse(bad_field(path, "is no JSON object" + (parsed ? "" : ": " + parsed.error().message)));
  Json function = Json::Object{{"name", name}, {"arguments", arguments}};
  return Json(Json::Object{{"id", id}, {"type", "function"}, {"function", std::move(function)}});
}

ApiResult<Json::Array> read_calls(const Json& list, const std::string& path, const Reading& reading) {
  Json::Array out;
  for (const Json& call : *list.as_array()) {
    const std::string at = at_index(path, static_cast<int64_t>(out.size()));
    QR_TRY(const Args args, kCallSchema.check(call, reading, at));
    const std::string kind(args.has("type") ? args.text("type") : "function");
    const bool custom = kind == "custom";
    if (!custom && kind != "function")
      return refuse(unsupported_field(at_key(at, "type"), "'" + shown(kind) + "'; function and custom are"));
    const Json* what = args.find(kind);
    const std::string inner = at_key(at, kind);
    if (what == nullptr) return refuse(missing_field(inner));
    QR_TRY(const Args called, kCalledSchema.check(*what, reading, inner));
    if (called.text("name").empty()) return refuse(missing_field(at_key(inner, "name")));
    if (custom && !called.has("input")) return refuse(missing_field(at_key(inner, "input")));
    const std::string arguments =
        custom ? input_arguments(called.text("input")) : std::string(called.text("arguments"));
    QR_TRY(Json message, call_message(args.text("id"), called.text("name"), arguments, at_key(inner, "arguments")));
    out.push_back(std::move(message));
  }
  return out;
}

std::string call_id(uint64_t answer, int choice, int call) {
  static constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  uint64_t bits = mix64(answer ^ (static_cast<uint64_t>(choice) << 32 ^ static_cast<uint64_t>(call)));
  std::string out(9, '0');
  for (char& c : out) {
    c = kDigits[bits % kDigits.size()];
    bits /= kDigits.size();
  }
  return out;
}

std::string whole_arguments(const AnswerParts& parts, int call) {
  std::string text;
  for (const AnswerPart& part : parts)
    if (part.kind == PartKind::arguments && part.call == call) text += part.text;
  const auto parsed = Json::parse(text);
  return parsed && parsed->as_object() != nullptr ? text : "";
}

Json answer_message(const AnswerParts& parts, uint64_t answer, int choice) {
  Json out = Json::Object{{"role", "assistant"}, {"content", parts.joined(PartKind::text)}};
  Json::Array calls;
  for (const AnswerPart& part : parts) {
    if (part.kind != PartKind::call) continue;
    const std::string arguments = whole_arguments(parts, part.call);
    if (arguments.empty()) continue;
    Json function = Json::Object{{"name", part.text}, {"arguments", arguments}};
    calls.push_back(Json::Object{
        {"id", call_id(answer, choice, part.call)}, {"type", "function"}, {"function", std::move(function)}});
  }
  if (!calls.empty()) out.set("tool_calls", std::move(calls));
  return out;
}

}  // namespace quire
