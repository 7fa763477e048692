// Which family a template belongs to, and that what a template writes of calls is read back exactly.
#include "text/parse/tool_format.h"

#include <gtest/gtest.h>

#include "text/parse/answer_parser.h"
#include "text/test_support.h"

namespace quire {
namespace {

constexpr const char* kCalls =
    "{% if tools %}[{{ tools | tojson }}]{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

ToolFormat format_of(const std::string& source) {
  const auto chat = ChatTemplate::parse(source);
  EXPECT_TRUE(chat) << (chat ? "" : chat.error().message);
  return chat ? find_tool_format(*chat, Json::Object{}) : ToolFormat{};
}

TEST(ToolFormat, IsFoundByRendering) {
  const ToolFormat found = format_of(kCalls);
  EXPECT_TRUE(found.takes_tools);
  EXPECT_EQ(found.name, "hermes");
  EXPECT_EQ(found.arguments, ArgumentsAs::object);
  EXPECT_FALSE(format_of("{% for m in messages %}{{ m.content }}{% endfor %}").takes_tools);
  const ToolFormat other =
      format_of("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_TRUE(other.takes_tools);
  EXPECT_EQ(other.form, nullptr);
}

TEST(ToolFormat, OfAPromptThatEndsWithTheFirstMark) {
  const ToolFormat found = format_of(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
      "{% for c in m.tool_calls %}>>>{{ c.function.name }}\n{{ c.function.arguments }}{% endfor %}</s>{% endfor %}"
      "{% if add_generation_prompt %}[assistant]>>>{% endif %}");
  EXPECT_EQ(found.name, "functionary_v32");
  EXPECT_EQ(found.arguments, ArgumentsAs::text);
}

TEST(ToolFormat, OfATemplateThatWritesToTools) {
  const ToolFormat found = format_of(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|start|>{{ m.role }}{% if m.tool_calls %}"
      "{% for c in m.tool_calls %} to={{ c.function.name }}<|message|><atem:function_calls>\n<atem:invoke "
      "name=\"{{ c.function.name }}\">\n{% for k, v in c.function.arguments.items() %}<atem:parameter name=\"{{ k }}\">"
      "{{ v }}</atem:parameter>\n{% endfor %}</atem:invoke>\n</atem:function_calls>{% endfor %}{% else %}<|message|>"
      "{{ m.content }}{% endif %}<|eot|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}");
  EXPECT_EQ(found.name, "muse");
  EXPECT_EQ(found.arguments, ArgumentsAs::object);
}

TEST(ToolFormat, OfATemplateThatWritesSections) {
  const ToolFormat found = format_of(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|open|>message role=\"{{ m.role }}\"<|sep|>"
      "{% if m.role == 'assistant' %}<|open|>response<|sep|>{% endif %}{{ m.content }}{% if m.tool_calls %}"
      "<|close|>response<|sep|><|open|>tools<|sep|>{% for c in m.tool_calls %}<|open|>call tool=\"{{ c.function.name "
      "}}\" "
      "index=\"{{ loop.index }}\"<|sep|>{% for k, v in c.function.arguments.items() %}<|open|>argument key=\"{{ k }}\" "
      "type=\"{{ 'string' if v is string else 'number' }}\"<|sep|>{{ v }}<|close|>argument<|sep|>{% endfor %}"
      "<|close|>call<|sep|>{% endfor %}<|close|>tools<|sep|>{% endif %}<|close|>message<|sep|>{% endfor %}");
  EXPECT_EQ(found.name, "kimi_k3");
  EXPECT_EQ(found.arguments, ArgumentsAs::object);
}

TEST(ToolFormat, OfTemplatesThatCallInAMessageOrAFence) {
  const std::string begin =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}<|role_sep|>\n"
      "{{ m.content }}{% for c in m.tool_calls %}";
  const std::string message =
                        "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"{{ c.function.name }}\", "
                        "\"arguments\": {{ c.function.arguments | tojson }}}",
                    fence =
                        "\nAction:\n```json\n[\n    {\n        \"tool_name\": \"{{ c.function.name }}\",\n        "
                        "\"parameters\": {{ c.function.arguments | tojson(indent=4) | indent(8) }}\n    }\n]```\n";
  const std::string end = "{% endfor %}<|message_sep|>\n\n{% endfor %}";
  EXPECT_EQ(format_of(begin + message + end).name, "gigachat3");
  EXPECT_EQ(format_of(begin + fence + end).name, "command_r");
}

TEST(ToolFormat, OfATemplateThatTakesFunctionsAsText) {
  const ToolFormat found = format_of(
      "{{ 'Functions: ' + functions }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls %}"
      " functools[{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"arguments\": "
      "{{ c.function.arguments | tojson }}}{% endfor %}]{% endif %}{% endfor %}");
  EXPECT_TRUE(found.takes_tools);
  EXPECT_EQ(found.name, "functools");
}

TEST(ToolFormat, OfATemplateThatWritesNoCallsIsWhatItTellsTheModel) {
  const std::string rest = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(format_of("{% if tools %}Write <|tool_call|> first. {{ tools | tojson }}{% endif %}" + rest).name,
            "granite");
  const ToolFormat several = format_of("{% if tools %}Write <tool_call>. {{ tools | tojson }}{% endif %}" + rest);
  EXPECT_EQ(several.form, nullptr) << "more than one family begins so: " << several.name;
  const char* shared = std::getenv("QUIRE_SHARED");
  if (shared == nullptr) return;
  const std::string path = std::string(shared) + "/data/templates/ibm-granite-granite-3.3-2B-Instruct.jinja";
  const std::string source = read_file(path);
  EXPECT_TRUE(source.empty() || format_of(source).name == "granite");
}

// Calls in Python, as templates write them: strings in quotes of either kind.
constexpr const char* kPython =
    "{% if tools %}TOOLS{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls %}OPEN["
    "{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}="
    "{% if v is string %}'{{ v }}'{% else %}{{ v | tojson }}{% endif %}{% if not loop.last %}, {% endif %}{% endfor %})"
    "{% if not loop.last %}, {% endif %}{% endfor %}]CLOSE{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(ToolFormat, CallsInPythonAreFound) {
  const auto python = [](const std::string& tools, const std::string& open, const std::string& close) {
    std::string out = kPython;
    for (const auto& [what, with] : {std::pair{std::string("TOOLS"), tools}, {"OPEN", open}, {"CLOSE", close}})
      out.replace(out.find(what), what.size(), with);
    return format_of(out);
  };
  EXPECT_EQ(python("{{ tools | tojson }}", "", "").name, "pythonic");
  EXPECT_EQ(python("{{ tools | tojson }}", "<|tool_call_start|>", "<|tool_call_end|>").name, "lfm2");
  EXPECT_EQ(python("{{ tools | tojson }}", "<|other|>", "").form, nullptr);
  const std::string rest = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const std::string list = "List of tools: [{% for t in tools %}{{ t | tojson }}{% endfor %}]";
  EXPECT_EQ(format_of("{% if tools %}<|im_start|>system\n" + list + "{% endif %}" + rest).name, "lfm2");
  for (const std::string& words : {"{% if tools %}You have a " + list + "{% endif %}",
                                   "<|im_start|>system\nList of tools: none{{ tools | tojson if tools }}" + rest})
    EXPECT_EQ(format_of(words + rest).form, nullptr) << words;
  const char* shared = std::getenv("QUIRE_SHARED");
  if (shared == nullptr) return;
  const std::string source = read_file(std::string(shared) + "/data/templates/LFM2-8B-A1B.jinja");
  EXPECT_TRUE(source.empty() || format_of(source).name == "lfm2");
}

TEST(ToolFormat, ArgumentsGoToTheTemplateByteForByte) {
  const auto chat =
      ChatTemplate::parse("{% for m in messages %}{{ m.c.arguments | tojson }}{{ m.c.arguments.b }}{% endfor %}");
  ASSERT_TRUE(chat);
  TemplateInput input;
  input.arguments = ArgumentsAs::object;
  const std::string odd = "{ \"b\" :1.50,\"a\":\"\\u00e9</s>\"}";
  input.messages = Json::Array{Json::Object{{"c", Json::Object{{"arguments", odd}}}}};
  const auto rendered = chat->render_marked(input);
  ASSERT_TRUE(rendered) << rendered.error().message;
  EXPECT_EQ(rendered->text, odd + "1.5");
  ASSERT_EQ(rendered->user_ranges.size(), 1U) << "it is the user's text";
  EXPECT_EQ(rendered->user_ranges[0].end, odd.size());
}

struct Family {
  const char* file;
  const char* name;
};
constexpr Family kFamilies[] = {
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
    {"Qwen-Qwen3-0.6B", "hermes"},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3_json"},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama3_json"},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral_list"},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral"},
    {"NVIDIA-Nemotron-Nano-v2", "nemotron"},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek_v31"},
    {"Qwen3-Coder", "qwen_coder"},
    {"ByteDance-Seed-OSS", "seed"},
    {"GLM-4.6", "glm"},
    {"MiniMax-M2", "minimax"},
    {"meetkai-functionary-medium-v3.1", "functionary"},
    {"moonshotai-Kimi-K2", "kimi"},
    {"Apertus-8B-Instruct", "apertus"},
    {"openai-gpt-oss-120b", "harmony"},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command"},
    {"google-gemma-4-31B-it", "gemma4"},
};

// A call per line: the name, then the arguments as a value.
std::string calls_of(const Json& messages) {
  std::string out;
  for (const Json& m : *messages.as_array()) {
    const Json* calls = m.find("tool_calls");
    if (calls == nullptr) continue;
    for (const Json& c : *calls->as_array())
      out +=
          *c.find("function")->find("name")->as_string() + " " + c.find("function")->find("arguments")->dump() + "\n";
  }
  return out;
}

// What the template adds for the assistant's turn, read by the family's parser.
std::string read_back(const ChatTemplate& chat, const ToolFormat& format, TemplateInput input, size_t turn) {
  Json::Array& messages = *input.messages.as_array();
  messages.resize(turn + 1);
  input.add_generation_prompt = false;
  input.arguments = format.arguments;
  const auto with = chat.render(input);
  messages.resize(turn);
  input.add_generation_prompt = true;
  const auto before = chat.render(input);
  if (!with || !before) return (!with ? with : before).error().message;
  const auto at = std::mismatch(before->begin(), before->end(), with->begin(), with->end()).second;
  CallRules rules{format.form, {}, false, {}};
  for (const Json& tool : *input.tools.as_array()) {
    rules.names.push_back(*tool.find("function")->find("name")->as_string());
    rules.kinds.emplace_back(*tool.find("function")->find("parameters"));
  }
  AnswerParser parser(message_kind(*format.form), false, std::make_shared<const CallRules>(std::move(rules)));
  AnswerParts parts;
  parser.push(answer_behind(*format.form, *with, static_cast<size_t>(at - with->begin())), parts);
  parser.finish(parts);
  std::string out;
  for (const AnswerPart& p : parts) {
    if (p.kind == PartKind::call) out += p.text + " ";
    if (p.kind == PartKind::arguments) out += Json::parse(p.text) ? Json::parse(p.text)->dump() + "\n" : p.text;
  }
  return out;
}

// Messages as requests bring them: arguments are text, content is never null.
void make_texts(Json& messages) {
  for (Json& m : *messages.as_array()) {
    if (m.find("content")->is_null()) m.set("content", "");
    const Json* calls = m.find("tool_calls");
    if (calls == nullptr) continue;
    Json changed = *calls;
    for (Json& c : *changed.as_array()) {
      Json function = *c.find("function");
      const Json arguments = *function.find("arguments");
      if (arguments.as_string() == nullptr) function.set("arguments", arguments.dump());
      c.set("function", std::move(function));
    }
    m.set("tool_calls", std::move(changed));
  }
}

TEST(ToolFormat, CallsThatTemplatesWriteAreReadBack) {
  const char* shared = std::getenv("QUIRE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "QUIRE_SHARED is not set";
  const std::string folder = std::string(shared) + "/data/templates/";
  const auto cases = Json::parse(read_file(folder + "cases.json"));
  if (!cases) GTEST_SKIP() << "no templates in " << folder;
  int n_read = 0;
  for (const Family& family : kFamilies) {
    const auto chat = ChatTemplate::parse(read_file(folder + family.file + ".jinja"));
    ASSERT_TRUE(chat) << family.file;
    Json tokens = Json::Object{};
    for (const char* name : {"bos_token", "eos_token"}) tokens.set(name, *cases->find(name));
    const ToolFormat format = find_tool_format(*chat, tokens);
    ASSERT_EQ(format.name, family.name) << family.file;
    for (const Json& one : *cases->find("cases")->as_array()) {
      Json messages = *one.find("messages");
      make_texts(messages);
      for (size_t i = 0; i < messages.as_array()->size(); ++i) {
        Json turn = Json::Array{(*messages.as_array())[i]};
        const std::string wanted = calls_of(turn);
        if (wanted.empty()) continue;
        TemplateInput input;
        input.messages = messages;
        input.tools = *one.find("tools");
        input.special_tokens = tokens;
        input.now = "2025-07-26T13:05:09";
        const std::string got = read_back(*chat, format, input, i);
        if (got.find("only supports single tool-calls") != std::string::npos) continue;
        std::string parsed;
        for (const Json& c : *turn.as_array()->front().find("tool_calls")->as_array())
          parsed += *c.find("function")->find("name")->as_string() + " " +
                    Json::parse(*c.find("function")->find("arguments")->as_string())->dump() + "\n";
        if (format.form->channels) parsed.erase(parsed.find('\n') + 1);  // one call ends its turn
        EXPECT_EQ(got, parsed) << family.file << ", " << *one.find("name")->as_string();
        ++n_read;
      }
    }
  }
  EXPECT_GE(n_read, 20);
}

}  // namespace
}  // namespace quire
