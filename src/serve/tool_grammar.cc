#include "serve/tool_grammar.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/tagged_grammar.h"
#include "text/reasoning.h"

namespace quire {
namespace {

using Notation = GrammarSource::Notation;

Json any_object() { return Json::Object{{"type", "object"}}; }

// The schema, whose texts are objects as calls have them. Where it does not say of what type, it says so now; beside a
// reference older drafts would not hear it.
ApiResult<Json> object_schema(const Json& parameters, const std::string& field) {
  Json out = parameters;
  const Json* type = parameters.find("type");
  bool object = type == nullptr || (type->as_string() != nullptr && *type->as_string() == "object");
  if (type != nullptr && type->as_array() != nullptr)
    object = std::find(type->as_array()->begin(), type->as_array()->end(), Json("object")) != type->as_array()->end();
  if (!object) return refuse(bad_field(at_key(field, "type"), "must be object: the arguments of a call are one"));
  if (const Json* reference = parameters.find("$ref")) {
    const Json rest = Json::Object{{"$ref", *reference}};
    const Json* all = parameters.find("allOf");
    Json::Array both = all != nullptr && all->as_array() != nullptr ? *all->as_array() : Json::Array{};
    both.push_back(rest);
    auto& members = *out.as_object();
    members.erase(std::remove_if(members.begin(), members.end(), [](const auto& m) { return m.first == "$ref"; }),
                  members.end());
    out.set("allOf", std::move(both));
  }
  out.set("type", "object");
  return out;
}

WantedGrammar::Part schema_part(const Json& schema, std::string field) {
  WantedGrammar::Part out;
  out.source.notation = Notation::json_schema;
  out.source.text = schema.dump();
  out.field = std::move(field);
  return out;
}

// Arguments of a custom tool.
ApiResult<Json> held_input(const CallForm& form, const WantedGrammar::Part& input) {
  const auto notation = input.source.notation == Notation::lark ? TextNotation::lark : TextNotation::regex;
  auto out = obeying_input(form, notation, input.source.text);
  if (out) return std::move(*out);
  return refuse(bad_field(input.field, "cannot be kept: " + out.error().message, "unsupported_value"));
}

// What may be called, with the schemas that arguments obey; these go to `parts`, too.
ApiResult<std::vector<CallableTool>> callable(const Tools& tools,
                                              const CallForm& form,
                                              std::vector<WantedGrammar::Part>& parts) {
  std::vector<CallableTool> out;
  size_t n_left = kTaggedParts;
  const Json::Array& list = *tools.list.as_array();
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& function = *list[i].find("function");
    const std::string& name = *function.find("name")->as_string();
    if (std::find(tools.names.begin(), tools.names.end(), name) == tools.names.end()) continue;
    const Tools::Source& source = tools.sources[i];
    if (!form.said.empty() && name + std::string(form.name_end) == form.said)
      return refuse(bad_field("tools", "has one named '" + name + "', which is how this model begins its text"));
    if (form.recipients && !is_tool_recipient(name))
      return refuse(bad_field("tools", "has one named '" + name + "', to whom this model's text or thoughts are"));
    if (source.input) {
      QR_TRY(Json arguments, held_input(form, *source.input));
      out.push_back({name, std::move(arguments)});
      parts.push_back(*source.input);
      // As it is compiled within the call, so that what fails there alone is named too.
      if (source.input->source.notation == Notation::lark) parts.back().source.text += "\n%json_string";
      continue;
    }
    if (!tools.required && !source.strict) {
      out.push_back({name, any_arguments(form, ArgumentKinds(*function.find("parameters")))});
      continue;
    }
    Json schema = any_object();
    schema.set("additionalProperties", false);
    if (source.has_parameters) {
      QR_TRY(schema, object_schema(*function.find("parameters"), source.parameters_field));
      parts.push_back(schema_part(schema, source.parameters_field));
    }
    auto arguments = obeying_arguments(form, schema, n_left);
    if (!arguments)
      return refuse(
          bad_field(source.parameters_field, "cannot be kept: " + arguments.error().message, "unsupported_value"));
    out.push_back({name, std::move(*arguments)});
  }
  return out;
}

ApiResult<Json> parsed(const WantedGrammar& wanted) {
  auto json = Json::parse(wanted.source.text);
  if (!json) return refuse(bad_field(wanted.field, "cannot be kept: " + json.error().message));
  return std::move(*json);
}

ApiResult<Json> choice_format(const WantedGrammar& wanted) {
  QR_TRY(const Json list, parsed(wanted));
  Json::Array ways;
  for (const Json& text : *list.as_array()) {
    if (text.as_string() == nullptr) return refuse(bad_field(wanted.field, "must be a list of strings"));
    ways.push_back(Json::Object{{"type", "const_string"}, {"value", text}});
  }
  return Json(Json::Object{{"type", "or"}, {"elements", std::move(ways)}});
}

// As a format of a structural tag.
ApiResult<Json> document_format(const WantedGrammar& wanted) {
  const auto format = [](const char* type, const char* member, Json value) {
    return Json(Json::Object{{"type", type}, {member, std::move(value)}});
  };
  switch (wanted.source.notation) {
    case Notation::json_object: return format("json_schema", "json_schema", any_object());
    case Notation::json_schema: {
      QR_TRY(Json schema, parsed(wanted));
      return format("json_schema", "json_schema", std::move(schema));
    }
    case Notation::regex: return format("regex", "pattern", wanted.source.text);
    case Notation::choice: return choice_format(wanted);
    case Notation::gbnf:
    case Notation::ebnf: return format("grammar", "grammar", wanted.source.text);
    case Notation::structural_tag: {
      QR_TRY(const Json tag, parsed(wanted));
      if (const Json* inner = tag.find("format")) return *inner;
      break;
    }
    case Notation::lark: {
      Json out = format("grammar", "grammar", wanted.source.text);
      out.set("lark", true);
      return out;
    }
  }
  return refuse(unsupported_field(wanted.field, "beside tools, in this notation"));
}

}  // namespace

ApiResult<void> add_call_grammar(const Tools& tools, const CallForm& form, MaybeGrammar& wanted) {
  WantedGrammar out;
  out.field = "tools";
  out.source.notation = Notation::structural_tag;
  QR_TRY(const std::vector<CallableTool> may_be_called, callable(tools, form, out.parts));
  CallTagRules rules;
  rules.required = tools.required;
  rules.only_one = tools.only_one;
  if (wanted) {
    QR_TRY(rules.document, document_format(*wanted));
    if (wanted->parts.empty()) wanted->parts.push_back({std::move(wanted->source), std::move(wanted->field)});
    std::move(wanted->parts.begin(), wanted->parts.end(), std::back_inserter(out.parts));
  }
  out.free_text = !rules.required && !rules.document;
  out.source.text = call_tag(form, may_be_called, std::move(rules)).dump();
  wanted = std::move(out);
  return {};
}

}  // namespace quire
