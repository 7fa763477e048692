// For tests: answers read in pieces and shown, and calls as each family writes them.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/parse/answer_parser.h"

namespace quire {

// Parts on lines: "text: …", "call: …", "arguments: …".
inline std::string shown(const AnswerParts& parts) {
  static constexpr const char* kNames[] = {"reasoning", "text", "call", "arguments"};
  std::string out;
  for (const AnswerPart& p : parts) out += std::string(kNames[static_cast<size_t>(p.kind)]) + ": " + p.text + "\n";
  return out;
}

// By a CallParser or an AnswerParser, `cut` bytes at a time.
template <class Parser>
AnswerParts read_in_pieces(Parser parser, std::string_view text, size_t cut) {
  AnswerParts out, fresh;
  for (size_t at = 0; at < text.size(); at += cut) {
    parser.push(text.substr(at, cut), fresh);
    out.append(fresh);
  }
  parser.finish(fresh);
  out.append(fresh);
  return out;
}

// Of a marked form: strings as they are, or in the marks that a value may stand in.
inline std::string marked_call(const CallForm& form, const std::string& name, const Json& arguments) {
  std::string out = name;
  if (!form.id_pattern.empty()) out += std::string(form.id_mark) + "0";
  out += form.name_end;
  const std::string line = form.padded ? "\n" : "";
  for (const auto& [key, value] : *arguments.as_object()) {
    const bool is_string = value.as_string() != nullptr;
    const auto json_ends = is_string ? std::vector<JsonKeyEnd>() : json_key_ends(form, kind_of(value));
    std::string written = is_string ? *value.as_string() : value.dump();
    if (is_string && !form.wrap_begin.empty() && written.find('<') != std::string::npos)
      written = std::string(form.wrap_begin) + written + std::string(form.wrap_end);
    const std::string key_end = json_ends.empty() ? std::string(form.key_end) : json_ends[0].mark;
    out += std::string(form.key_begin) + written_key(form, key) + key_end + line;
    out += written + line + std::string(form.value_end) + (form.joined ? "" : "\n");
  }
  return out + std::string(form.call_end);
}

// Of keyword calls: JSON is Python but for its three words.
inline std::string keyword_call(const CallForm& form, const std::string& name, const Json& arguments) {
  std::string out = name + std::string(form.name_end);
  for (const auto& [key, value] : *arguments.as_object())
    out += (out.ends_with(form.name_end) ? "" : ", ") + key + "=" + (value.is_null() ? "None" : value.dump());
  return out + std::string(form.call_end);
}

// A value of tagged calls.
inline std::string tagged_value(const CallForm& form, const Json& value) {  // as deep as tests nest
  const auto element = [&](const std::string& name, const Json& inner) {
    const std::string mark(form.tag_mark);
    return mark + "<" + name + ">" + tagged_value(form, inner) + mark + "</" + name + ">";
  };
  std::string out;
  if (value.as_string() != nullptr) return *value.as_string();
  if (const Json::Array* list = value.as_array()) {
    for (const Json& v : *list) out += element("item", v);
    return out;
  }
  if (value.as_object() == nullptr) return value.dump();
  for (const auto& [key, v] : *value.as_object()) out += element(key, v);
  return out;
}

// What calls begin with for a CallParser, and in an answer, there of the tool get.
inline std::string parser_begin(const CallForm& form) { return form.said.empty() ? std::string(form.lead) : ""; }
inline std::string answer_begin(const CallForm& form) {
  if (!form.recipients) return parser_begin(form);
  return " to=get<|message|>" + std::string(form.lead.substr(kToolMessage.size()));
}

// A value of quoted calls: strings as they are between their marks.
inline std::string quoted_value(const CallForm& form, const Json& value) {  // as deep as tests nest
  std::string out;
  if (const std::string* text = value.as_string())
    return std::string(form.string_mark) + *text + std::string(form.string_mark);
  if (const Json::Array* list = value.as_array()) {
    for (const Json& v : *list) out += (out.empty() ? "" : ",") + quoted_value(form, v);
    return "[" + out + "]";
  }
  if (value.as_object() == nullptr) return value.dump();
  for (const auto& [key, v] : *value.as_object()) out += (out.empty() ? "" : ",") + key + ":" + quoted_value(form, v);
  return "{" + out + "}";
}

// A call without what stands around calls. `arguments` is JSON, which stands there as it is where the form writes JSON.
// Where calls have ids, it is 0.
inline std::string call_as_written(const CallForm& form, const std::string& name, const std::string& arguments) {
  if (form.keywords) return keyword_call(form, name, *Json::parse(arguments));
  if (form.marked()) return marked_call(form, name, *Json::parse(arguments));
  if (form.tagged())
    return name + std::string(form.name_end) + tagged_value(form, *Json::parse(arguments)) + std::string(form.call_end);
  if (form.quoted()) return name + quoted_value(form, *Json::parse(arguments));
  const std::string id = form.id_pattern.empty() ? "" : std::string(form.id_mark);
  if (!form.objects())
    return name + (id.empty() ? "" : id + "0") + std::string(form.behind_name) + std::string(form.name_end) + arguments;
  return "{\"" + (id.empty() ? "" : id + "\": \"0\", \"") + std::string(form.name_key) + "\": \"" + name + "\", \"" +
         std::string(form.arguments_key) + "\": " + arguments + "}";
}

}  // namespace quire
