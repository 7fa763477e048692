// What llama.cpp's tests of its chat parsers are compiled against by llama_chat_cases.py: each case that they describe
// becomes a line of JSON on the standard output. The names and the order of members are those that the tests use.
#pragma once
#include <cstdio>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

enum common_chat_continuation { COMMON_CHAT_CONTINUATION_CONTENT = 1, COMMON_CHAT_CONTINUATION_REASONING };
enum common_chat_tool_choice { COMMON_CHAT_TOOL_CHOICE_REQUIRED = 1 };
enum common_reasoning_format {
  COMMON_REASONING_FORMAT_NONE,
  COMMON_REASONING_FORMAT_AUTO,
  COMMON_REASONING_FORMAT_DEEPSEEK
};

struct common_chat_tool {
  std::string name, description, parameters;
};
struct common_chat_tool_call {
  std::string name, arguments, id;
};
struct common_chat_msg_content_part {
  std::string type, text;
};
struct common_chat_msg {
  std::string role, content;
  std::vector<common_chat_msg_content_part> content_parts;
  std::vector<common_chat_tool_call> tool_calls;
  std::string reasoning_content, tool_name, tool_call_id;
};

inline std::string g_template_filter;

// One object, written member by member.
class JsonLine {
 public:
  void add(const char* key, const std::string& text) { begin(key) += quoted(text); }
  void add(const char* key, bool value) { begin(key) += value ? "true" : "false"; }
  // Objects, already written.
  void add(const char* key, const std::vector<std::string>& list) {
    std::string& out = begin(key);
    for (size_t i = 0; i < list.size(); ++i) out += (i == 0 ? "[" : ",") + list[i];
    out += list.empty() ? "[]" : "]";
  }
  std::string text() const { return text_ + "}"; }

 private:
  std::string& begin(const char* key) {
    text_ += text_.empty() ? "{" : ",";
    return text_ += quoted(key) + ":";
  }
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      char escape[8] = {};
      if (static_cast<unsigned char>(c) < 0x20) std::snprintf(escape, sizeof escape, "\\u%04x", c);
      if (c == '"' || c == '\\') out += '\\';
      out += escape[0] != 0 ? std::string(escape) : std::string(1, c);
    }
    return out + "\"";
  }

  std::string text_;
};

class peg_tester;

// A case, set up by the calls of its members.
class peg_test_builder {
 public:
  peg_test_builder(std::string file, std::string input, int line)
      : file_(std::move(file)), input_(std::move(input)), line_(line) {}

  using Self = peg_test_builder&;
  Self reasoning_format(common_reasoning_format value) { return set(splits_, value != COMMON_REASONING_FORMAT_NONE); }
  Self tools(std::vector<common_chat_tool> value) { return set(tools_, std::move(value)); }
  Self enable_thinking(bool value) { return set(thinks_, value); }
  Self parallel_tool_calls(bool value) { return set(parallel_, value); }
  Self add_generation_prompt(bool /*value*/) { return *this; }  // false where an answer goes on
  Self continue_final_message(common_chat_continuation value) { return set(goes_on_, static_cast<int>(value)); }
  Self json_schema(const std::string& value) { return set(schema_, value); }
  Self is_partial(bool value) { return set(partial_, value); }
  Self expect_reconstruction(bool value = true) { return set(writes_back_, value); }
  Self expect(const common_chat_msg& value) { return set(expected_, value); }
  Self expect_content(const std::string& value) { return set(expected_.content, value); }
  Self expect_reasoning(const std::string& value) { return set(expected_.reasoning_content, value); }
  Self expect_tool_calls(std::vector<common_chat_tool_call> value) {
    return set(expected_.tool_calls, std::move(value));
  }
  Self tool_choice(common_chat_tool_choice /*value*/) { return set(required_, true); }
  Self messages(std::vector<common_chat_msg> value) { return set(messages_, std::move(value)); }
  void run() const;

 private:
  template <class T>
  Self set(T& member, T value) {
    member = std::move(value);
    return *this;
  }

  std::string file_, input_, schema_;
  int line_, goes_on_ = 0;
  std::vector<common_chat_tool> tools_;
  std::vector<common_chat_msg> messages_;
  common_chat_msg expected_;
  bool splits_ = false, thinks_ = true, parallel_ = false, partial_ = false, writes_back_ = false, required_ = false;
};

class peg_tester {
 public:
  explicit peg_tester(std::string file, bool /*debug*/ = false) : file_(std::move(file)) {}
  peg_test_builder test(const std::string& input,
                        const std::source_location& at = std::source_location::current()) const {
    return {file_, input, static_cast<int>(at.line())};
  }

 private:
  std::string file_;
};

inline std::vector<std::string> lines_of(const std::vector<common_chat_tool_call>& calls) {
  std::vector<std::string> out;
  for (const common_chat_tool_call& call : calls) {
    JsonLine one;
    one.add("name", call.name);
    one.add("arguments", call.arguments);
    one.add("id", call.id);
    out.push_back(one.text());
  }
  return out;
}

inline std::string line_of(const common_chat_msg& message) {
  JsonLine one;
  one.add("role", message.role);
  one.add("content", message.content);
  one.add("reasoning_content", message.reasoning_content);
  one.add("tool_calls", lines_of(message.tool_calls));
  one.add("tool_name", message.tool_name);
  one.add("tool_call_id", message.tool_call_id);
  return one.text();
}

inline void peg_test_builder::run() const {
  static constexpr const char* kGoesOn[] = {"", "content", "reasoning"};
  std::vector<std::string> tools, messages;
  for (const common_chat_tool& tool : tools_) {
    JsonLine one;
    one.add("name", tool.name);
    one.add("description", tool.description);
    one.add("parameters", tool.parameters);
    tools.push_back(one.text());
  }
  for (const common_chat_msg& message : messages_) messages.push_back(line_of(message));
  const std::string file = file_.substr(file_.rfind('/') + 1);
  JsonLine out;
  out.add("name", file.substr(0, file.rfind('.')) + ":" + std::to_string(line_));
  out.add("template", file);
  out.add("answer", input_);
  out.add("tools", tools);
  out.add("messages", messages);
  out.add("schema", schema_);
  out.add("goes_on", std::string(kGoesOn[goes_on_]));
  out.add("splits", splits_);
  out.add("thinks", thinks_);
  out.add("parallel", parallel_);
  out.add("required", required_);
  out.add("partial", partial_);
  out.add("writes_back", writes_back_);
  out.add("content", expected_.content);
  out.add("reasoning", expected_.reasoning_content);
  out.add("calls", lines_of(expected_.tool_calls));
  std::puts(out.text().c_str());
}
