// What may be written of calls: exactly what the families write, and whatever is let through is read back as calls of
// the tools by the family's parser.
#include "text/parse/call_grammar.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "base/sanitized.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

// Small enough that random walks end.
struct Tool {
  std::string name;
  Json schema;
};
std::vector<Tool> schemas() {
  const char* get = R"({"type":"object","properties":{"city":{"type":"string","maxLength":6},
    "n":{"enum":[1,2.5,null]}},"required":["city"],"additionalProperties":false})";
  const char* search =
      R"({"type":"object","properties":{"list":{"type":"array","items":{"type":"boolean"},"maxItems":3},
    "o":{"type":"object","properties":{"a":{"const":"}"}},"additionalProperties":false}},"additionalProperties":false})";
  return {{"get", *Json::parse(get)}, {"search", *Json::parse(search)}, {"get_weather", *Json::parse(search)}};
}

std::vector<CallableTool> tools(const CallForm& form) {
  std::vector<CallableTool> out;
  for (const Tool& tool : schemas()) {
    auto arguments = obeying_arguments(form, tool.schema);
    EXPECT_TRUE(arguments) << (arguments ? "" : arguments.error().message);
    if (arguments) out.push_back({tool.name, std::move(*arguments)});
  }
  return out;
}

std::shared_ptr<const Grammar> grammar_of(const std::string& family, CallTagRules rules) {
  const CallForm* form = find_call_form(family);
  EXPECT_NE(form, nullptr) << family;
  auto made = compile_structural_tag(call_tag(*form, tools(*form), std::move(rules)), {}, {});
  EXPECT_TRUE(made) << family << ": " << (made ? "" : made.error().message);
  return made ? *made : nullptr;
}

AnswerParts parse(const std::string& family,
                  std::string_view text,
                  bool only_one = false,
                  const std::vector<Tool>& tools = schemas()) {
  auto rules = std::make_shared<CallRules>();
  rules->form = find_call_form(family);
  for (const Tool& tool : tools) {
    rules->names.push_back(tool.name);
    rules->kinds.emplace_back(tool.schema);
  }
  rules->only_one = only_one;
  return read_in_pieces(AnswerParser(message_kind(*find_call_form(family)), false, std::move(rules)), text,
                        text.size() + 1);
}

// A text of the grammar, each byte chosen among those that may come; empty where it was not whole after `max`.
std::string walk(const std::shared_ptr<const Grammar>& g, std::string_view begin, Rng& rng, size_t max) {
  Matcher m(g, byte_vocabulary());
  EXPECT_TRUE(m.accept_text(begin)) << begin;
  std::string out(begin);
  std::vector<uint32_t> words(m.n_words());
  while (out.size() < max) {
    EXPECT_TRUE(m.mask(words));
    std::vector<Token> may;
    for (Token id = 0; id <= kByteEnd; ++id)
      if ((words[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0) may.push_back(id);
    EXPECT_FALSE(may.empty()) << out;
    if (may.empty()) return "";
    const Token id = may[static_cast<size_t>(rng.between(0, static_cast<int64_t>(may.size()) - 1))];
    if (id == kByteEnd || (may.back() == kByteEnd && out.size() > max / 2)) return out;
    EXPECT_TRUE(m.accept(id));
    out += static_cast<char>(id);
  }
  return "";
}

struct Written {
  const char* family;
  const char* call;   // of one call and its marks
  const char* calls;  // of two
};
const Written kWritten[] = {
    {"hermes", "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"a\"}}\n</tool_call>",
     "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\":\"a\"}}\n</tool_call>\n<tool_call>\n"
     "{\"name\": \"search\", \"arguments\": {}}\n</tool_call>"},
    {"llama3_json", "{\"name\": \"get\", \"parameters\": {\"city\": \"a\"}}",
     "{\"name\": \"get\", \"parameters\": {\"city\": \"a\"}}; {\"name\": \"search\", \"parameters\": {}}"},
    {"mistral_list", "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"city\": \"a\"}}]",
     "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"city\": \"a\"}}, {\"name\": \"search\", \"arguments\": {}}]"},
    {"functools", "functools[{\"name\": \"get\", \"arguments\": {\"city\": \"a\"}}]",
     "functools[{\"name\": \"get\", \"arguments\": {\"city\": \"a\"}}, {\"name\": \"search\", \"arguments\": {}}]"},
    {"mistral", "[TOOL_CALLS]get[ARGS]{\"city\": \"a\"}",
     "[TOOL_CALLS]get[ARGS]{\"city\": \"a\"}[TOOL_CALLS]search[ARGS]{}"},
    {"deepseek_v31",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"city\": "
     "\"é\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"city\": \"a\"}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>search<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"qwen_coder", "<tool_call>\n<function=get>\n<parameter=city>\na\n</parameter>\n</function>\n</tool_call>",
     "<tool_call>\n<function=get>\n<parameter=city>\na "
     "<\n\n</parameter>\n<parameter=n>\n2.5\n</parameter>\n</function>\n"
     "</tool_call>\n<tool_call>\n<function=search>\n<parameter=list>\n[true, "
     "false]\n</parameter>\n</function>\n</tool_call>"},
    {"seed", "<seed:tool_call>\n<function=get>\n<parameter=city>a</parameter>\n</function>\n</seed:tool_call>",
     "<seed:tool_call>\n<function=get>\n<parameter=city></parameter>\n</function>\n</seed:tool_call>\n"
     "<seed:tool_call>\n<function=search>\n</function>\n</seed:tool_call>"},
    {"glm", "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
     "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>a</arg_value>\n</tool_call>\n<tool_call>search\n</"
     "tool_call>"},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter "
     "name=\"city\">a</parameter>\n</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"city\">a</parameter>\n</invoke>\n"
     "<invoke name=\"search\">\n</invoke>\n</minimax:tool_call>"},
    {"functionary", "<function=get>{\"city\": \"a\"}</function>",
     "<function=get>{\"city\": \"a\"}</function><function=search>{}</function>"},
    {"minimax_m3",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get\">]<]minimax[>[<city>a]<]minimax[>[</city>]<]minimax[>["
     "</invoke>\n]<]minimax[>[</tool_call>",
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get\">]<]minimax[>[<city>a]<]minimax[>[</city>]<]minimax[>["
     "</invoke>\n]<]minimax[>[<invoke name=\"search\">]<]minimax[>[<list>]<]minimax[>[<item>true]<]minimax[>[</item>"
     "]<]minimax[>[</list>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>"},
    {"functionary_v32", "get\n{\"city\": \"a\"}", "get\n{\"city\": \"a\"}>>>search\n{}"},
    {"kimi",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{\"city\": \"a\"}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{\"city\": \"a\"}"
     "<|tool_call_end|><|tool_call_begin|>functions.search:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
     "<|tool_calls_section_end|>"},
    {"gigachat3", "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get\", \"arguments\": {\"city\": \"a\"}}",
     "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get\", \"arguments\": {\"city\": \"a\"}}"
     "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"search\", \"arguments\": {}}"},
    {"command_r", "Action:\n```json\n[\n    {\"tool_name\": \"get\", \"parameters\": {\"city\": \"a\"}}\n]```",
     "Action:\n```json\n[\n    {\"tool_name\": \"get\", \"parameters\": {\"city\": \"a\"}},\n    {\"tool_name\": "
     "\"search\", \"parameters\": {}}\n]```"},
    {"muse",
     " to=get<|message|><atem:function_calls>\n<atem:invoke name=\"get\">\n<atem:parameter "
     "name=\"city\">a</atem:parameter>\n"
     "</atem:invoke>\n</atem:function_calls>",
     " to=get<|message|><atem:function_calls>\n<atem:invoke name=\"get\">\n<atem:parameter "
     "name=\"city\">a</atem:parameter>\n"
     "</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=search<|message|><atem:function_calls>\n"
     "<atem:invoke name=\"search\">\n</atem:invoke>\n</atem:function_calls>"},
    {"kimi_k3",
     "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"get\" index=\"1\"<|sep|><|open|>argument "
     "key=\"city\" type=\"string\"<|sep|>a<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
     "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"get\" index=\"1\"<|sep|><|open|>argument "
     "key=\"city\" type=\"string\"<|sep|>a<|close|>argument<|sep|><|open|>argument key=\"n\" type=\"number\"<|sep|>2.5"
     "<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool=\"search\" index=\"2\"<|sep|><|open|>argument "
     "key=\"list\" type=\"array\"<|sep|>[true, "
     "false]<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"},
    {"pythonic", "[get(city=\"a\")]", "[get(city=\"a\", n=2.5), search(o={\"a\": \"}\"})]"},
    {"lfm2", "<|tool_call_start|>[get(city=\"a\")]<|tool_call_end|>",
     "<|tool_call_start|>[get(city=\"a\", n=null), search(list=[true, false])]<|tool_call_end|>"},
    {"gemma4", "<|tool_call>call:get{city:<|\"|>a<|\"|>}<tool_call|>",
     "<|tool_call>call:get{city:<|\"|>\"\\\n<<|\"|>,n:2.5}<tool_call|><|tool_call>call:search{list:[true,false],o:{a:<|"
     "\"|>}"
     "<|\"|>}}<tool_call|>"},
    {"apertus", "<|tools_prefix|>[{\"get\": {\"city\": \"a\"}}]<|tools_suffix|>",
     "<|tools_prefix|>[{\"get\": {\"city\": \"a\"}}, {\"search\": {}}]<|tools_suffix|>"},
    {"deepseek",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{\"city\": "
     "\"a\"}\n```<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{\"city\": "
     "\"a\"}\n```<｜tool▁call▁end｜>\n"
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
};

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << text;
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

TEST(CallGrammar, ChannelsHoldThoughtsThenACallOrText) {
  const std::string thought = "<|channel|>analysis<|message|>I <see>.<|end|><|start|>assistant";
  const std::string call = "<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"city\": \"a\"}";
  const std::string said = "<|channel|>final<|message|>Hm";
  const auto any = grammar_of("harmony", {}), required = grammar_of("harmony", {.required = true});
  for (const auto& [text, is_call] : {std::pair{call, true},
                                      {thought + call, true},
                                      {said, false},
                                      {thought + said, false},
                                      {thought + thought + call, true}}) {
    EXPECT_TRUE(takes(any, text)) << text;
    EXPECT_EQ(takes(required, text), is_call) << text;
    const AnswerParts parts = parse("harmony", text);
    EXPECT_EQ(parts.joined(PartKind::arguments), is_call ? "{\"city\": \"a\"}" : "");
    EXPECT_EQ(parts.joined(PartKind::text), is_call ? "" : "Hm");
  }
  for (const std::string& text :
       {std::string("Hm"), thought, replaced(call, "get", "gat"), replaced(call, "city", "town")})
    EXPECT_FALSE(takes(any, text)) << text;
  const Json document = *Json::parse(R"({"type":"regex","pattern":"[0-9]+"})");
  EXPECT_TRUE(takes(grammar_of("harmony", {.document = document}), thought + "<|channel|>final<|message|>12"));
  EXPECT_FALSE(takes(grammar_of("harmony", {.document = document}), said));
}

TEST(CallGrammar, RequiredCallsAreCallsAndNothingElse) {
  for (const Written& w : kWritten) {
    const auto g = grammar_of(w.family, {.required = true});
    EXPECT_TRUE(takes(g, w.call)) << w.family;
    EXPECT_TRUE(takes(g, w.calls)) << w.family;
    EXPECT_FALSE(takes(g, "")) << w.family;
    EXPECT_FALSE(takes(g, "Hm")) << w.family;
    EXPECT_FALSE(takes(g, std::string("Hm ") + w.call)) << w.family;
    EXPECT_FALSE(takes(g, std::string(w.call) + " Hm")) << w.family;
    EXPECT_FALSE(takes(g, replaced(w.call, "get", "gat"))) << w.family;
    EXPECT_FALSE(takes(g, replaced(w.call, "city", "town"))) << w.family;
    EXPECT_FALSE(takes(g, replaced(w.call, "get", "get_weather"))) << w.family << ": each has its own schema";
  }
}

TEST(CallGrammar, OnlyOneCallIsOne) {
  for (const Written& w : kWritten) {
    for (const bool required : {true, false}) {
      const auto g = grammar_of(w.family, {.required = required, .only_one = true});
      EXPECT_TRUE(takes(g, w.call)) << w.family;
      EXPECT_FALSE(takes(g, w.calls)) << w.family;
    }
  }
}

TEST(CallGrammar, OtherwiseTextIsFreeUntilACallBegins) {
  for (const Written& w : kWritten) {
    if (!find_call_form(w.family)->said.empty() || find_call_form(w.family)->channels) continue;
    const auto g = grammar_of(w.family, {});
    for (const char* text : {"", "Hm", "{\"a\": 1}", "{\"name\": \"Paris\"}", "<tool_call", "\n{}"})
      EXPECT_TRUE(takes(g, text)) << w.family << ": " << text;
    EXPECT_TRUE(takes(g, w.call)) << w.family;
    EXPECT_TRUE(takes(g, w.calls)) << w.family;
    EXPECT_FALSE(takes(g, replaced(w.call, "city", "town"))) << w.family;
    if (find_call_form(w.family)->trigger.empty()) continue;
    EXPECT_TRUE(takes(g, "Hm " + std::string(w.calls) + "\nDone.")) << w.family;
    EXPECT_FALSE(takes(g, "Hm " + replaced(w.call, "get", "gat"))) << w.family;
    EXPECT_FALSE(takes(g, find_call_form(w.family)->trigger)) << w.family;
  }
  const auto llama = grammar_of("llama3_json", {});
  EXPECT_TRUE(takes(llama, "{\"name\": \"getter\", \"parameters\": 3}")) << "none of the tools";
  EXPECT_FALSE(takes(llama, " { \"type\": \"function\", \"name\" : \"get\", \"parameters\": 3}"));
  // Let through as text, and so no calls, whose arguments would obey nothing.
  for (const char* before : {R"("type": 1, "name": "get")", R"("type": "a\"", "name": "get")", R"("n\u0061me": "get")",
                             R"("type": "a", "type": "b", "name": "get")", R"("name": "g\u0065t")"}) {
    const std::string text = "{" + std::string(before) + ", \"parameters\": {\"city\": 5}}";
    EXPECT_TRUE(takes(llama, text)) << text;
    EXPECT_FALSE(parse("llama3_json", text).has(PartKind::call)) << text;
  }
  const auto python = grammar_of("pythonic", {});
  for (const char* text : {"[getter(a=1)]", "[get](url)", "[]", "[1]", "See [get(n=3)]"})
    EXPECT_TRUE(takes(python, text)) << text;
  for (const char* text : {" [ get (n=3)]", "[get(", "[get_weather(city=1)]"})
    EXPECT_FALSE(takes(python, text)) << text;
}

TEST(CallGrammar, TextSaysToWhomItIs) {
  const auto g = grammar_of("functionary_v32", {});
  for (const char* text : {"all\n", "all\nHm", "all\n>>> 1 + 1", "all\nHm>>>search\n{}", "all\n>>>gat\n{}",
                           "all\nHm>>>get\n{\"city\": \"a\"} Hm>>>search\n{}"})
    EXPECT_TRUE(takes(g, text)) << text;
  for (const char* text : {"", "Hm", "all", "all\n>>>get\n{}", "get\n{}", "get\n{\"city\": \"a\"}>>>all\nHm"})
    EXPECT_FALSE(takes(g, text)) << text;
  const auto one = grammar_of("functionary_v32", {.only_one = true});
  EXPECT_TRUE(takes(one, "all\nHm>>>search\n{}"));
  EXPECT_FALSE(takes(one, "all\nHm>>>search\n{}>>>search\n{}"));
}

TEST(CallGrammar, CallsOrTheDocument) {
  const Json document = *Json::parse(R"({"type":"json_schema","json_schema":{"type":"integer"}})");
  for (const Written& w : kWritten) {
    const auto g = grammar_of(w.family, {.document = document});
    EXPECT_TRUE(takes(g, w.calls)) << w.family;
    const CallForm& form = *find_call_form(w.family);
    const std::string said(form.recipients ? " to=user<|message|>" : form.said);
    EXPECT_TRUE(takes(g, said + "12")) << w.family;
    EXPECT_FALSE(takes(g, said + "12 " + std::string(w.call))) << w.family;
    EXPECT_FALSE(takes(g, "Hm")) << w.family;
    EXPECT_FALSE(takes(grammar_of(w.family, {.required = true, .document = document}), "12")) << w.family;
  }
}

TEST(CallGrammar, MarksThatAreTokensComeAsTokens) {
  const auto made = compile_structural_tag(call_tag(*find_call_form("hermes"), tools(*find_call_form("hermes")), {}),
                                           {{"<tool_call>", kByteControl}, {"</tool_call>", kByteControl2}}, {});
  ASSERT_TRUE(made);
  Matcher m(*made, byte_vocabulary());
  EXPECT_TRUE(m.accept_text("as text: <tool_call"));
  EXPECT_FALSE(m.accept('>'));
  EXPECT_TRUE(m.accept_text(" "));
  EXPECT_TRUE(m.accept(kByteControl));
  EXPECT_FALSE(m.accept_text("<tool_call>"));
  EXPECT_TRUE(m.accept_text("\n{\"name\": \"search\", \"arguments\": {}}\n"));
  EXPECT_FALSE(m.accept_text("</tool_call>"));
  EXPECT_TRUE(m.accept(kByteControl2));
  EXPECT_TRUE(m.may_end());
}

// Where the first mark of a family's calls is a control token, text cannot spell it: the parser, which sees text, would
// read a call that nothing holds to the tools. Where it is none, its spelling opens a call as ever.
TEST(CallGrammar, AMarkThatIsATokenIsNotSpelled) {
  int n_marked = 0;
  for (const std::string& family : Registry<CallForm>::get().names()) {
    const CallForm& form = *find_call_form(family);
    const size_t end = form.tagged() ? form.tag_mark.size() - 1 : form.trigger.find_first_of(">]");
    if (form.trigger.empty() || form.channels || !form.said.empty() || end == std::string_view::npos)
      continue;  // "<function=" is never one
    ++n_marked;
    const std::string mark(form.trigger.substr(0, end + 1));
    for (const bool is_token : {true, false}) {
      std::vector<GrammarComposer::Control> controls;
      if (is_token) controls.emplace_back(mark, kByteControl);
      const auto made = compile_structural_tag(call_tag(form, tools(form), {}), controls, {});
      ASSERT_TRUE(made) << family;
      Matcher m(*made, byte_vocabulary());
      EXPECT_TRUE(m.accept_text("Hm " + mark.substr(0, mark.size() - 1))) << family;
      EXPECT_EQ(m.accept_text(mark.substr(mark.size() - 1)).has_value(), !is_token) << family;
      EXPECT_EQ(m.accept(kByteControl).has_value(), is_token) << family;
      EXPECT_EQ(m.may_end(), mark == form.text_end || (!is_token && mark != form.trigger)) << family;
    }
  }
  EXPECT_GE(n_marked, 12);
}

TEST(CallGrammar, MessagesOfChannelsHoldNoMarks) {
  const auto any = grammar_of("harmony", {});
  const std::string call = "<|channel|>commentary to=functions.get<|message|>{}";
  for (const char* begin : {"<|channel|>final<|message|>", "<|channel|>analysis<|message|>"}) {
    const std::string text = begin + ("I " + call);
    EXPECT_TRUE(parse("harmony", text).has(PartKind::call));
    Matcher m(any, byte_vocabulary());
    EXPECT_FALSE(m.accept_text(text)) << text;
    EXPECT_TRUE(m.accept_text(begin + std::string("I <|channel|")));
  }
}

std::shared_ptr<const Grammar> python_of(const Json& arguments) {
  const CallForm& form = *find_call_form("pythonic");
  const std::vector<CallableTool> one{{"get", arguments}};
  auto made = compile_structural_tag(call_tag(form, one, {.required = true, .only_one = true}), {}, {});
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return made ? *made : nullptr;
}

TEST(CallGrammar, KeywordsThatNeedNotObeyAreAnyLiterals) {
  const auto free = python_of(any_arguments(*find_call_form("pythonic"), {}));
  const auto read = [&](const std::string& text) {
    return Json::parse(parse("pythonic", text).joined(PartKind::arguments));
  };
  for (const char* arguments :
       {"", "a=1", "größe=-1.5e-3, max size=None", "s='it\\'s'", "s=\"\\u00e9\\ud83d\\ude00\\x41\"",
        "l=[True, [], {'a': {}}], d={\n    'k': 0, \"j\": 'x'}", "$ref='', x/y=\"'\""}) {
    const std::string text = "[get(" + std::string(arguments) + ")]";
    EXPECT_TRUE(takes(free, text)) << text;
    EXPECT_TRUE(read(text)) << text;
  }
  for (const char* arguments : {"a", "=1", "a=", "a=1,", "a=x", "a=(1,)", "a='x", "a=01", "a=\"\\ud800\"", " a=1"})
    EXPECT_FALSE(takes(free, "[get(" + std::string(arguments) + ")]")) << arguments;
  Rng rng(13);
  int n_whole = 0;
  const int n_rounds = fewer_if_sanitized(400);
  for (int round = 0; round < n_rounds; ++round) {
    const std::string text = walk(free, "[get(", rng, 300);
    if (text.empty()) continue;
    ++n_whole;
    const auto arguments = read(text);
    ASSERT_TRUE(arguments) << text;
    EXPECT_FALSE(parse("pythonic", text).has(PartKind::text)) << text;
  }
  EXPECT_GE(n_whole, n_rounds / 20);
}

TEST(CallGrammar, KeywordsObeyTheirSchema) {
  const CallForm& form = *find_call_form("pythonic");
  const auto obeying = [&](const char* schema) { return obeying_arguments(form, *Json::parse(schema)); };
  const auto made = obeying(R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"$ref":"#/$defs/b"},
      "c":{"type":"null"},"d":{"type":"integer","minimum":3}},"required":["b","d"],"$defs":{"b":{"type":"string",
      "pattern":"^x+$"}}})");
  ASSERT_TRUE(made) << made.error().message;
  const auto g = python_of(*made);
  for (const char* text : {"[get(b=\"x\", d=3)]", "[get(b=\"xx\", a=True, c=None, d=4)]"})
    EXPECT_TRUE(takes(g, text)) << text;
  for (const char* text : {"[get(b=\"x\")]", "[get(b=\"y\", d=3)]", "[get(b=\"x\", d=2)]", "[get(d=3, b=\"x\")]",
                           "[get(b=\"x\", d=3, e=1)]", "[get(b=\"x\", a=1, d=3)]", "[get()]", "[get(b=\"x\", , d=3)]"})
    EXPECT_FALSE(takes(g, text)) << text;

  const auto none = obeying(R"({"properties":{"a":{"type":"boolean"},"b":{"type":"null"},"c":{"const":1}}})");
  ASSERT_TRUE(none);
  const auto h = python_of(*none);
  for (const char* text :
       {"[get()]", "[get(a=True)]", "[get(b=None)]", "[get(a=False, c=1)]", "[get(b=None, c=1)]", "[get(c=1)]"})
    EXPECT_TRUE(takes(h, text)) << text;
  for (const char* text : {"[get(, b=None)]", "[get(c=1, a=True)]", "[get(a=True, a=True)]", "[get(a=True b=None)]"})
    EXPECT_FALSE(takes(h, text)) << text;

  const auto error = [&](const std::string& schema) {
    const auto refused = obeying(schema.c_str());
    return refused ? "taken" : refused.error().message;
  };
  EXPECT_EQ(error(R"({"properties":{"a":{}},"minProperties":1})"),
            "#: \"minProperties\" is what arguments in Python, as this model writes them, cannot be held to");
  EXPECT_EQ(error(R"({"properties":{"a=b":{}}})"), "#/properties/a=b: no name that a keyword of Python's can be");
  EXPECT_NE(error(R"({"properties":{},"required":["a"]})").find("#/required: \"a\" is none of"), std::string::npos);
  std::string many;
  for (int i = 0; i < 33; ++i) many += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + "\":{\"type\":\"integer\"}";
  EXPECT_NE(error("{\"properties\":{" + many + "}}").find("#/properties: 33 parameters"), std::string::npos);
  EXPECT_EQ(error("{\"properties\":{" + many + "},\"required\":[\"p7\"]}"), "taken");
}

// What a family lets through of a tool whose only argument is a text is read back as that text, and it obeys.
TEST(CallGrammar, AnInputObeysInEveryFamily) {
  constexpr const char* kPattern = "(?:[<>\"\\\\{}|/p]|\\n|\xC3\xA9){1,8}";
  constexpr const char* kNested = "start: \"(\" start? \")\"";
  Rng rng(7);
  const std::vector<Tool> tool{{"get", *Json::parse(R"({"properties":{"input":{"type":"string"}}})")}};
  const auto input_of = [&](const std::string& family, TextNotation notation, const char* definition) -> std::string {
    const auto arguments = obeying_input(*find_call_form(family), notation, definition);
    if (!arguments) return arguments.error().message;
    const CallableTool callable[] = {{"get", *arguments}};
    const CallTagRules rules{.required = true, .only_one = true};
    const auto g = compile_structural_tag(call_tag(*find_call_form(family), callable, rules), {}, {});
    if (!g) return g.error().message;
    std::string text;
    for (int i = 0; i < 50 && text.empty(); ++i) text = walk(*g, "", rng, 600);
    const auto read = Json::parse(parse(family, text, true, tool).joined(PartKind::arguments));
    const Json* input = read ? read->find(kInputName) : nullptr;
    return input != nullptr && input->as_string() != nullptr ? *input->as_string() : "unread: " + text;
  };
  const auto pattern = *compile_regex(kPattern, {}), nested = *compile_lark(kNested, {});
  for (const std::string& family : Registry<CallForm>::get().names()) {
    for (int round = 0; round < fewer_if_sanitized(20); ++round) {
      const std::string text = input_of(family, TextNotation::regex, kPattern);
      EXPECT_TRUE(takes(pattern, text)) << family << ": " << text;
    }
    const CallForm& form = *find_call_form(family);
    const std::string text = input_of(family, TextNotation::lark, kNested);
    EXPECT_TRUE(form.marked() || form.quoted() || form.tagged() ? text.starts_with("a grammar in Lark's")
                                                                : takes(nested, text))
        << family << ": " << text;
  }
}

// Whatever is let through is read: by name, and arguments that their schema takes.
TEST(CallGrammar, WhatIsLetThroughIsReadBack) {
  Rng rng(11);
  std::map<std::string, std::shared_ptr<const Grammar>> known;
  for (const Tool& tool : schemas()) known.emplace(tool.name, *compile_json_schema(tool.schema.dump(), {}, {}));
  const int n_rounds = fewer_if_sanitized(160);
  for (const std::string& family : Registry<CallForm>::get().names()) {
    int n_whole = 0;
    for (int round = 0; round < n_rounds; ++round) {
      const bool required = round % 2 == 0, only_one = round % 3 == 0;
      const auto g = grammar_of(family, {.required = required, .only_one = only_one});
      const CallForm& form = *find_call_form(family);
      const std::string begin = required || form.trigger.empty() ? "" : answer_begin(form);
      const std::string text = walk(g, begin, rng, 1200);
      if (text.empty()) continue;
      const AnswerParts parts = parse(family, text, only_one);
      ++n_whole;
      int n_calls = 0;
      std::string name;
      for (const AnswerPart& part : parts) {
        EXPECT_FALSE(required && part.kind == PartKind::text) << family << ": " << text;
        if (part.kind == PartKind::call) {
          ++n_calls;
          name = part.text;
        } else if (part.kind == PartKind::arguments) {
          EXPECT_TRUE(takes(known.at(name), part.text)) << family << ": " << text << ": " << part.text;
        }
      }
      EXPECT_TRUE(n_calls >= 1 || (!required && begin.empty())) << family << ": " << text;
      EXPECT_TRUE(n_calls <= 1 || !only_one) << family << ": " << text;
    }
    EXPECT_GE(n_whole, n_rounds / 4) << family;
  }
}

}  // namespace
}  // namespace quire
