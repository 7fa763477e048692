// See call_grammar.h. Tools with equal arguments share one part, so that many tools whose arguments are free cost no
// more than one; but where text is searched for their names (behind_mark), each has its own.
#include "text/parse/call_grammar.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "text/parse/tag_formats.h"
#include "text/reasoning.h"

namespace quire {

using namespace formats;

namespace {

// Of objects that begin with an id: that, and the name's key.
Json behind_id(const CallForm& form, Json call) {
  if (!form.objects() || form.id_pattern.empty()) return call;
  Json id = regex("\"" + std::string(form.id_pattern) + "\"");
  return sequence({std::move(id), text(", \"" + std::string(form.name_key) + "\": "), std::move(call)});
}

// How calls begin, by their arguments. `begin` tells it of a name.
template <class Begin>
std::vector<std::pair<const Json*, Json::Array>> by_arguments(std::span<const CallableTool> tools, Begin begin) {
  std::vector<std::pair<const Json*, Json::Array>> groups;
  for (const CallableTool& tool : tools) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return *g.first == tool.arguments; });
    if (group == groups.end()) group = groups.insert(groups.end(), {&tool.arguments, {}});
    group->second.push_back(text(begin(tool.name)));
  }
  return groups;
}

// The name of a tool and its arguments.
Json named_calls(const CallForm& form, std::span<const CallableTool> tools) {
  const std::string between = call_text(form).between;
  Json::Array ways;
  for (auto& [arguments, names] : by_arguments(tools, [&](const std::string& name) { return name_text(form, name); })) {
    Json::Array parts{one_of(std::move(names))};
    if (!form.id_pattern.empty() && !form.objects()) {
      parts.push_back(text(form.id_mark));
      parts.push_back(regex(std::string(form.id_pattern)));
    }
    parts.push_back(text(std::string(form.behind_name) + between));
    parts.push_back(*arguments);
    ways.push_back(sequence(std::move(parts)));
  }
  return behind_id(form, one_of(std::move(ways)));
}

// One call, or several with what stands between them.
Json call_list(const CallForm& form, std::span<const CallableTool> tools, bool only_one) {
  const CallText marks = call_text(form);
  Json call = tag(marks.before, named_calls(form, tools), marks.after);
  if (only_one) return call;
  return Json::Object{{"type", "tags_with_separator"},
                      {"tags", Json::Array{std::move(call)}},
                      {"separator", form.between},
                      {"at_least_one", true}};
}

Json required_calls(const CallForm& form, std::span<const CallableTool> tools, bool only_one) {
  return sequence({text(form.lead), call_list(form, tools, only_one), text(form.tail)});
}

// Where nothing tells calls from text: what does not begin as a call of these tools.
Json text_that_calls_nothing(const CallForm& form, std::span<const CallableTool> tools) {
  constexpr std::string_view kSpace = "[ \\t\\r\\n]*";
  std::string names;
  for (const CallableTool& tool : tools) {
    if (!names.empty()) names += '|';
    names += quoted_pattern(name_text(form, tool.name));
  }
  std::string before = "S\\[S", behind = "S\\(";
  if (form.objects()) {
    before = "S\\{S(?:\"type\"S:S\"[^\"]*\"S,S)?\"" + std::string(form.name_key) + "\"S:S";
    behind.clear();
  }
  const auto spaced = [&](std::string_view pattern) {
    std::string out;
    for (const char c : pattern) c == 'S' ? out.append(kSpace) : out += c;
    return out;
  };
  std::string pattern = "(?!" + spaced(before) + "(?:" + names + ")" + spaced(behind) + ")[\\s\\S]*";
  return regex(std::move(pattern));
}

Json calls_in_text(const CallForm& form, std::span<const CallableTool> tools, bool only_one) {
  if (form.trigger.empty())
    return one_of({text_that_calls_nothing(form, tools), required_calls(form, tools, only_one)});
  // Where a call has marks of its own, the next one begins like the first, behind text that may be none.
  const bool own_marks = !form.tail.empty() && form.between.starts_with(form.tail) &&
                         form.between.find(form.trigger) != std::string_view::npos;
  Json::Array triggers, tags;
  const auto begin = [&](std::string_view trigger, std::string_view behind) {
    Json content = sequence({text(behind), call_list(form, tools, only_one || own_marks)});
    tags.push_back(tag(trigger, std::move(content), form.tail));
    triggers.push_back(Json(trigger));
  };
  begin(form.trigger, form.lead.substr(form.trigger.size()));
  if (!form.short_lead.empty()) begin(form.short_lead, "");
  Json said = Json::Object{{"type", "triggered_tags"},
                           {"triggers", std::move(triggers)},
                           {"tags", std::move(tags)},
                           {"stop_after_first", only_one}};
  if (form.text_end.empty()) return said;
  return sequence({std::move(said), optional(text(form.text_end))});
}

// Behind a mark of the prompt's: calls, or what is said and in it, behind that mark, calls.
Json behind_mark(const CallForm& form, std::span<const CallableTool> tools, CallTagRules rules) {
  Json calls = call_list(form, tools, rules.only_one);
  if (rules.required) return calls;
  if (rules.document) return one_of({std::move(calls), sequence({text(form.said), std::move(*rules.document)})});
  Json::Array triggers, tags;
  for (const CallableTool& tool : tools) {
    std::string begin = std::string(form.lead) + tool.name + std::string(form.name_end);
    triggers.emplace_back(begin);
    tags.push_back(tag(begin, tool.arguments, ""));
  }
  Json said = Json::Object{{"type", "triggered_tags"},
                           {"triggers", std::move(triggers)},
                           {"tags", std::move(tags)},
                           {"stop_after_first", rules.only_one}};
  return one_of({std::move(calls), sequence({text(form.said), std::move(said)})});
}

// Messages to nobody, then one that is a call or, where it may be, text or the document.
Json in_channels(const CallForm& form, std::span<const CallableTool> tools, CallTagRules rules) {
  const Json plain = regex(std::string(kNoChannelMarks));
  Json::Array others;
  for (const char* begin : {"<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>"})
    others.push_back(tag(begin, plain, "<|end|><|start|>assistant"));
  Json before = repeated(std::move(others));
  Json::Array ways{required_calls(form, tools, true)};
  if (!rules.required) {
    Json said = plain;
    if (rules.document) said = std::move(*rules.document);
    ways.push_back(sequence({text("<|channel|>final<|message|>"), std::move(said)}));
  }
  return sequence({std::move(before), one_of(std::move(ways))});
}

// Messages to the model itself and, where text may come, to the user; then calls, each to its tool, or the last that is
// said.
Json to_recipients(const CallForm& form, std::span<const CallableTool> tools, CallTagRules rules) {
  const std::string begin = " to=", next = "<|eom|><|start|>assistant", message = "<|message|>";
  const std::string call = message + std::string(form.lead.substr(kToolMessage.size()));
  const Json plain = regex(std::string(kNoMessageMarks));
  Json::Array others{tag(begin + "self" + message, plain, next)}, calls;
  if (!rules.required && !rules.document) others.push_back(tag(begin + "user" + message, plain, next));
  const std::string end = std::string(form.call_end) + std::string(form.tail);
  const auto call_of = [&](const std::string& name) { return name + call + name + std::string(form.name_end); };
  for (auto& [arguments, names] : by_arguments(tools, call_of))
    calls.push_back(tag(begin, sequence({one_of(std::move(names)), *arguments}), end));
  Json::Array ways{Json::Object{{"type", "tags_with_separator"},
                                {"tags", std::move(calls)},
                                {"separator", next},
                                {"at_least_one", true},
                                {"stop_after_first", rules.only_one}}};
  if (!rules.required) {
    Json said = rules.document ? std::move(*rules.document) : plain;
    ways.push_back(sequence({text(begin + "user" + message), std::move(said)}));
  }
  return sequence({repeated(std::move(others)), one_of(std::move(ways))});
}

}  // namespace

CallText call_text(const CallForm& form) {
  if (form.quoted()) return {};  // arguments begin and end with their own braces
  if (!form.objects()) return {"", std::string(form.name_end), std::string(form.call_end)};
  const std::string first(form.id_pattern.empty() ? form.name_key : form.id_mark);
  return {"{\"" + first + "\": ", ", \"" + std::string(form.arguments_key) + "\": ", "}"};
}

std::string name_text(const CallForm& form, std::string_view name) {
  return form.objects() ? Json(name).dump() : std::string(name);
}

Json call_tag(const CallForm& form, std::span<const CallableTool> tools, CallTagRules rules) {
  if (form.recipients) return Json::Object{{"format", to_recipients(form, tools, std::move(rules))}};
  if (form.channels) return Json::Object{{"format", in_channels(form, tools, std::move(rules))}};
  if (!form.said.empty()) return Json::Object{{"format", behind_mark(form, tools, std::move(rules))}};
  Json format;
  if (!rules.required && !rules.document)
    format = calls_in_text(form, tools, rules.only_one);
  else
    format = required_calls(form, tools, rules.only_one);
  if (rules.document && !rules.required) format = one_of({std::move(format), std::move(*rules.document)});
  return Json::Object{{"format", std::move(format)}};
}

}  // namespace quire
