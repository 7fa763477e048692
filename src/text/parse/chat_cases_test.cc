// Answers of models of many families, with what another server's tests say is in them: tests/peers/llama_chat_cases.py
// makes the file that QUIRE_CHAT_CASES names, a case a line. Each is read as a server with the template would read it,
// whole and cut, and what it holds of calls is written by the template and read back.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <map>

#include "text/parse/answer_parser.h"
#include "text/parse/tool_format.h"
#include "text/template_variables.h"
#include "text/test_support.h"
#include "text/told_tools.h"

namespace quire {
namespace {

using Kind = ReasoningForm::Kind;

// Of a model with this template, whose vocabulary has the marks of channels where the template has.
Kind reasoning_of(std::string_view source) {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>", "a"};
  for (const char* mark : {"<|channel|>", "<|message|>"})
    if (source.find(mark) != std::string_view::npos) spec.tokens.emplace_back(mark);
  spec.types.assign(spec.tokens.size(), TokenType::control);
  spec.scores.assign(spec.tokens.size(), 0.0F);
  spec.unk = 0;
  const auto made = make_tokenizer(std::move(spec));
  return made ? find_reasoning_form(**made, source).kind : Kind::none;
}

// Where a template shows no tools but writes calls, they are read as it writes them.
struct Model {
  ChatTemplate chat;
  ToolFormat format;
  Kind reasoning;
};

const Json& tokens() {
  static const Json kTokens = Json::Object{{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return kTokens;
}

const Model& model_of(const std::string& path) {
  static std::map<std::string, Model> known;
  const auto found = known.find(path);
  if (found != known.end()) return found->second;
  const std::string source = read_file(path);
  auto chat = ChatTemplate::parse(source);
  if (!chat) {
    ADD_FAILURE() << path << ": " << chat.error().message;
    chat = ChatTemplate::parse("");
  }
  ToolFormat format = find_tool_format(*chat, tokens());
  if (!format.takes_tools && format.form == nullptr) {
    format.name = kToldForm;
    format.form = find_call_form(kToldForm);
    format.told = true;
  }
  return known.emplace(path, Model{std::move(*chat), std::move(format), reasoning_of(source)}).first->second;
}

std::string text_in(const Json& one, const char* key) { return *one.find(key)->as_string(); }
bool flag_in(const Json& one, const char* key) { return *one.find(key)->as_bool(); }
const Json::Array& list_in(const Json& one, const char* key) { return *one.find(key)->as_array(); }

std::string trimmed(std::string text) {
  const char* kSpace = " \t\r\n";
  text.erase(text.find_last_not_of(kSpace) + 1);
  return text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
}

// Some templates sort what an object has.
Json in_order(const Json& value) {
  if (const Json::Array* list = value.as_array()) {
    Json::Array out;
    for (const Json& one : *list) out.push_back(in_order(one));
    return out;
  }
  if (value.as_object() == nullptr) return value;
  std::map<std::string, Json> members;
  for (const auto& [key, one] : *value.as_object()) members.emplace(key, in_order(one));
  Json out = Json::Object{};
  for (const auto& [key, one] : members) out.set(key, one);
  return out;
}

// JSON in one spelling; what is cut off, without its white space.
std::string arguments_text(const std::string& text) {
  if (const auto parsed = Json::parse(text)) return in_order(*parsed).dump();
  std::string out = text;
  std::erase_if(out, [](char c) { return c == ' '; });
  return out;
}

// What an answer holds, as a text to compare.
struct Holds {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;

  std::string called() const {
    std::string out;
    for (const auto& [name, arguments] : calls) out += " " + name + " " + arguments_text(arguments);
    return out;
  }
  std::string shown() const { return "[" + trimmed(reasoning) + "] [" + trimmed(content) + "]" + called(); }
};

Holds held(const AnswerParts& parts) {
  Holds out;
  for (const AnswerPart& part : parts) {
    if (part.kind == PartKind::reasoning) out.reasoning += part.text;
    if (part.kind == PartKind::text) out.content += part.text;
    if (part.kind == PartKind::call) out.calls.emplace_back(part.text, "");
    if (part.kind == PartKind::arguments) out.calls[static_cast<size_t>(part.call)].second += part.text;
  }
  return out;
}

Holds expected(const Json& one) {
  Holds out{text_in(one, "reasoning"), text_in(one, "content"), {}};
  for (const Json& call : list_in(one, "calls"))
    out.calls.emplace_back(text_in(call, "name"), text_in(call, "arguments"));
  return out;
}

Json tools_of(const Json& one) {
  Json::Array out;
  for (const Json& tool : list_in(one, "tools")) {
    Json function = Json::Object{{"name", text_in(tool, "name")}, {"description", text_in(tool, "description")}};
    function.set("parameters", *Json::parse(text_in(tool, "parameters")));
    out.push_back(Json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  return out.empty() ? Json() : Json(std::move(out));
}

Json call_json(const Json& call) {
  const Json function = Json::Object{{"name", text_in(call, "name")}, {"arguments", text_in(call, "arguments")}};
  const std::string id = text_in(call, "id");
  return Json::Object{{"id", id.empty() ? "call00001" : id}, {"type", "function"}, {"function", function}};
}

Json::Array messages_of(const Json& one) {
  Json::Array out;
  for (const Json& message : list_in(one, "messages")) {
    Json next = Json::Object{{"role", text_in(message, "role")}, {"content", text_in(message, "content")}};
    Json::Array calls;
    for (const Json& call : list_in(message, "tool_calls")) calls.push_back(call_json(call));
    if (!calls.empty()) next.set("tool_calls", std::move(calls));
    for (const char* key : {"reasoning_content", "tool_call_id"})
      if (const std::string value = text_in(message, key); !value.empty()) next.set(key, value);
    if (const std::string name = text_in(message, "tool_name"); !name.empty()) next.set("name", name);
    out.push_back(std::move(next));
  }
  if (out.empty()) out.push_back(Json::Object{{"role", "user"}, {"content", "Hey there!"}});
  return out;
}

TemplateInput input_of(const Json& one, const Model& model) {
  TemplateInput input;
  input.messages = messages_of(one);
  Json tools = tools_of(one);
  if (model.format.told) tell_tools(*input.messages.as_array(), std::exchange(tools, Json()), *model.format.form);
  input.tools = std::move(tools);
  input.special_tokens = tokens();
  input.arguments = model.format.arguments;
  input.now = "2025-07-26T13:05:09";
  input.add_generation_prompt = true;
  for (const char* name : {"enable_thinking", "thinking"}) input.extra.set(name, flag_in(one, "thinks"));
  EXPECT_TRUE(add_template_variables(input));
  return input;
}

std::shared_ptr<const CallRules> rules_of(const Json& one, const Model& model) {
  const Json tools = tools_of(one);
  if (tools.is_null() || model.format.form == nullptr) return nullptr;
  auto out = std::make_shared<CallRules>();
  out->form = model.format.form;
  for (const Json& tool : *tools.as_array()) {
    const Json& function = *tool.find("function");
    out->names.push_back(text_in(function, "name"));
    out->kinds.emplace_back(*function.find("parameters"));
  }
  out->or_document = !text_in(one, "schema").empty();
  out->in_thoughts = !out->or_document && !flag_in(one, "required");
  out->bare = model.format.told && out->in_thoughts;
  return out;
}

// How an answer begins.
struct Begin {
  Kind reasoning = Kind::none;
  bool open = false;
};

Holds read(const std::shared_ptr<const CallRules>& rules, Begin begin, std::string_view answer, size_t cut) {
  AnswerParser parser(begin.reasoning, begin.open, rules, rules != nullptr && rules->or_document);
  AnswerParts parts;
  for (size_t at = 0; at < answer.size(); at += cut) parser.push(answer.substr(at, cut), parts);
  parser.finish(parts);
  return held(parts);
}

// The answer's text, behind the prompt that the case's messages make. Of an answer that a client has begun, which a
// server here goes on from without thoughts, the whole.
Holds read_answer(const Model& model, const Json& one, size_t cut) {
  TemplateInput input = input_of(one, model);
  std::string begun;
  const bool goes_on = !text_in(one, "goes_on").empty();
  if (goes_on) {
    begun = text_in(input.messages.as_array()->back(), "content");
    input.messages.as_array()->pop_back();
  }
  const auto prompt = model.chat.render(input);
  const Kind kind = goes_on || !flag_in(one, "splits") ? Kind::none : model.reasoning;
  const auto rules = rules_of(one, model);
  std::string answer = text_in(one, "answer");
  if (rules == nullptr && model.format.form != nullptr && answer.starts_with(model.format.form->said))
    answer.erase(0, model.format.form->said.size());  // a server here has it in its prompt
  Holds out = read(rules, {kind, prompt && opens_reasoning(kind, *prompt)}, answer, cut);
  out.content = begun + out.content;
  return out;
}

// What the template writes for the case's calls in a history.
std::string read_written(const Model& model, const Json& one) {
  TemplateInput input = input_of(one, model);
  const auto before = model.chat.render(input);
  Json::Array calls;
  for (const Json& call : list_in(one, "calls")) calls.push_back(call_json(call));
  Json message = Json::Object{{"role", "assistant"}, {"content", text_in(one, "content")}};
  message.set("tool_calls", std::move(calls));
  input.messages.as_array()->push_back(std::move(message));
  input.add_generation_prompt = false;
  const auto with = model.chat.render(input);
  if (!with || !before) return (!with ? with : before).error().message;
  const auto at = std::mismatch(before->begin(), before->end(), with->begin(), with->end()).second;
  const std::string_view text = answer_behind(*model.format.form, *with, static_cast<size_t>(at - with->begin()));
  return read(rules_of(one, model), {message_kind(*model.format.form)}, text, text.size()).called();
}

// Says what came of it, for whoever made the file; `differs` is why that is to be no.
void judge(const std::string& name, const Json& one, const std::string& got, const std::string& wanted) {
  std::cout << name << (got == wanted ? ": same\n" : ": differs\n");
  const Json* differs = one.find("differs");
  const Json* why = differs != nullptr ? differs->find(name) : nullptr;
  if (why == nullptr)
    EXPECT_EQ(got, wanted) << name;
  else
    EXPECT_NE(got, wanted) << name << ": " << why->dump();
}

TEST(ChatCases, AreReadAsWritten) {
  const char* path = std::getenv("QUIRE_CHAT_CASES");
  if (path == nullptr) GTEST_SKIP() << "QUIRE_CHAT_CASES is not set";
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto parsed = Json::parse(line);
    ASSERT_TRUE(parsed) << line;
    const Json& one = *parsed;
    const std::string name = text_in(one, "name");
    const Model& model = model_of(text_in(one, "template"));
    Holds wanted = expected(one);
    if (!text_in(one, "goes_on").empty()) wanted.reasoning.clear();  // that of the text which was begun
    const std::string got = read_answer(model, one, text_in(one, "answer").size()).shown();
    for (const size_t cut : {1, 2, 3, 5, 8, 13}) EXPECT_EQ(read_answer(model, one, cut).shown(), got) << name;
    judge(name, one, got, wanted.shown());
    if (!wanted.calls.empty() && !flag_in(one, "partial") && model.format.takes_tools && model.format.form != nullptr)
      judge(name + "/history", one, read_written(model, one), wanted.called());
  }
}

}  // namespace
}  // namespace quire
