#include "text/parse/tool_format.h"

#include <algorithm>
#include <memory>

#include "text/parse/answer_parser.h"
#include "text/template_variables.h"

namespace quire {
namespace {

constexpr std::string_view kName = "get_time";
constexpr std::string_view kArguments = R"({"hours":12, "zone": "Europe/Rome"})";  // sorted, as some templates do

Json::Array conversation(bool with_call) {
  Json::Array out;
  out.push_back(Json::Object{{"role", "user"}, {"content", "What time is it?"}});
  if (!with_call) return out;
  const Json function = Json::Object{{"name", kName}, {"arguments", kArguments}};
  Json call = Json::Object{{"id", "call00001"}, {"type", "function"}, {"function", function}};
  out.push_back(Json::Object{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::Array{std::move(call)}}});
  return out;
}

Json tools() {
  return *Json::parse(R"([{"type":"function","function":{"name":"get_time","description":"The time","parameters":
      {"type":"object","properties":{"zone":{"type":"string","description":"The zone"},
      "hours":{"type":"integer","description":"12 or 24"}},"required":["zone"]}}}])");
}

// Whether `text` holds the call as the family writes it, with its first mark, these arguments and nothing else.
bool reads(const CallForm& form, std::string_view text) {
  CallForm whole = form;
  whole.short_lead = {};
  auto rules = std::make_shared<CallRules>();
  rules->form = &whole;
  rules->names = {std::string(kName)};
  rules->kinds = {ArgumentKinds(*tools().as_array()->front().find("function")->find("parameters"))};
  AnswerParser parser(message_kind(form), false, std::move(rules));
  AnswerParts parts;
  parser.push(text, parts);
  parser.finish(parts);
  if (!parts.has(PartKind::call)) return false;
  const auto read = Json::parse(parts.joined(PartKind::arguments));
  return read && *read == *Json::parse(kArguments);
}

// The one family whose mark a prompt with tools tells the model; empty where there is none, or several are.
std::string told_family(std::string_view prompt, std::string_view without_tools) {
  std::string out;
  for (const std::string& name : Registry<CallForm>::get().names()) {
    const CallForm& form = *find_call_form(name);
    const auto holds = [](std::string_view text, std::string_view mark) {
      return !mark.empty() && text.find(mark) != std::string_view::npos;
    };
    const bool shows = holds(prompt, form.prompt_mark) && !holds(without_tools, form.prompt_mark);
    const bool is_prose = !form.said.empty();  // other prompts may hold its trigger
    if ((is_prose || !holds(prompt, form.trigger)) && !shows) continue;
    if (!out.empty()) return "";
    out = name;
  }
  return out;
}

}  // namespace

// A prompt may end with what the answer has not, such as <think>, and the two begin with the same byte.
std::string_view answer_behind(const CallForm& form, std::string_view text, size_t same_bytes) {
  constexpr size_t kMarkBytes = 64;
  const bool at_once = form.trigger.empty() || !form.said.empty();  // the prompt has the first mark, if there is one
  return text.substr(at_once ? same_bytes : same_bytes - std::min(same_bytes, kMarkBytes));
}

const CallForm* find_call_form(std::string_view name) { return Registry<CallForm>::get().find(name); }

ToolFormat find_tool_format(const ChatTemplate& chat, const Json& special_tokens) {
  ToolFormat out;
  TemplateInput input;
  input.special_tokens = special_tokens;
  input.now = "2024-05-01T08:00:00";
  input.add_generation_prompt = true;
  input.messages = conversation(false);
  const auto render = [&chat](TemplateInput in) -> Result<std::string> {
    QR_TRY_VOID(add_template_variables(in));
    return chat.render(in);
  };
  const auto plain = render(input);
  input.tools = tools();
  const auto prompt = render(input);
  out.takes_tools = prompt && (!plain || *plain != *prompt);
  if (!prompt) return out;
  input.messages = conversation(true);
  input.add_generation_prompt = false;
  for (const ArgumentsAs how : {ArgumentsAs::object, ArgumentsAs::text}) {
    input.arguments = how;
    const auto called = render(input);
    if (!called) continue;
    const auto at = std::mismatch(prompt->begin(), prompt->end(), called->begin(), called->end()).second;
    const auto begin = static_cast<size_t>(at - called->begin());
    for (const std::string& name : Registry<CallForm>::get().names()) {
      const CallForm* form = find_call_form(name);
      if (!reads(*form, answer_behind(*form, *called, begin))) continue;
      out.form = form;
      out.arguments = how;
      out.name = name;
      return out;
    }
  }
  out.name = told_family(*prompt, plain ? std::string_view(*plain) : "");
  out.form = find_call_form(out.name);
  return out;
}

}  // namespace quire
