// Tools as every chat dialect takes them, in the one form that templates take; which of them an answer may call; and
// the calls and results of earlier turns.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api.h"
#include "serve/structured.h"
#include "text/parse/call_item.h"

namespace quire {

struct Tools {
  struct Source {
    std::string parameters_field;                // as the client names them, for errors
    bool has_parameters = false;                 // otherwise it takes none
    bool strict = false;                         // arguments obey its parameters, whatever the choice
    std::optional<WantedGrammar::Part> input{};  // of a custom tool, which has no parameters; none: it is a function
  };
  Json list;                       // [{"type":"function","function":{…}}]; null: there are none
  std::string text;                // of the list
  std::vector<Source> sources;     // of each in the list
  std::vector<std::string> names;  // that may be called
  bool none = false;               // none may be
  bool required = false;           // an answer is calls
  bool only_one = false;           // an answer ends with its first call

  bool given() const { return !list.is_null() && !none; }
  // Which of the list are custom tools: their calls are told as such.
  std::vector<std::string> custom_names() const;
};

// How a dialect writes a tool: with its function in a member of that name or not, and what the parameters are called.
struct ToolSyntax {
  bool nested = true;
  std::string_view parameters = "parameters";
  bool custom = false;  // there are custom tools (custom_tools.h)
};
// "tools", which may be null, and "tool_choice" with "parallel_tool_calls" as OpenAI has them. Refused by its path:
// what is no function, two of one name, a choice of what is not there, what cannot be kept, and more than tools_bytes.
ApiResult<Tools> read_tools(const Json* tools, const ToolSyntax& syntax, const Reading& reading);
ApiResult<void> read_tool_choice(const Args& args, const ToolSyntax& syntax, const Reading& reading, Tools& tools);
// As above: only these may be called.
ApiResult<void> choose_tools(std::vector<std::string> names, std::string_view path, Tools& tools);
// Refuses where nobody shows the model tools, or it writes calls that nothing here reads.
ApiResult<void> check_tools(const Tools& tools, const ServeEnv& env);

// By which the answer's calls are read; `or_document`: it may be a document that the request describes instead. Of a
// model that was told its tools, calls without marks count too, where nothing has to be obeyed, and there of any model
// calls with which thoughts end. REQUIRES tools.given() and a form.
std::shared_ptr<const CallRules> call_rules(const Tools& tools, const ToolFormat& format, bool or_document);

// A call of an earlier turn: {"id","type":"function","function":{"name","arguments"}}, arguments being JSON text. One
// of a custom tool is of the function that the model knows it as. Refuses where that is no object.
ApiResult<Json> call_message(std::string_view id,
                             std::string_view name,
                             std::string_view arguments,
                             std::string_view path);
// "tool_calls" of a message.
ApiResult<Json::Array> read_calls(const Json& list, const std::string& path, const Reading& reading);

// The id of an answer's call: nine letters and digits, which every template takes.
std::string call_id(uint64_t answer, int choice, int call);
// The answer as a message of a conversation, without its reasoning and a call that was cut off.
Json answer_message(const AnswerParts& parts, uint64_t answer, int choice);
// The call's arguments, a JSON object; empty where they were cut off.
std::string whole_arguments(const AnswerParts& parts, int call);

}  // namespace quire
