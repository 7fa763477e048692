// Custom tools of OpenAI's dialects: a call of one has no arguments, but a text, its input, which may have to obey a
// regular expression or a grammar in Lark's notation. To the model each is a function of one string; so what it writes
// is {"input": "…"}, and what the client gets is the text in it.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/pieces.h"
#include "serve/schema.h"
#include "serve/structured.h"

namespace quire {

struct CustomTool {
  std::string name;
  Json function;              // for the template: {"name","description","parameters"}
  WantedGrammar::Part input;  // what the input obeys, a regex or Lark's; and the client's name of it
};
// {"type":"custom","name","description","format"}, or all but the type in a member "custom"; `path` is the tool's.
ApiResult<CustomTool> read_custom_tool(const Json& tool, bool nested, const std::string& path, const Reading& reading);

// The arguments of the function, of an input in a client's history.
std::string input_arguments(std::string_view input);

// Whether calls of that name are of a custom tool; `names`: Tools::custom_names.
bool is_custom_call(const std::vector<std::string>& names, std::string_view name);

// The input in arguments that a model wrote, as JSON spells it, without its quotes; of arguments that were cut off, as
// far as its characters are whole. A view of `arguments`.
std::string_view input_in(std::string_view arguments);

// That of a whole answer's call, which lies in what `owner` keeps.
void add_input(std::string_view arguments, std::shared_ptr<const void> owner, Pieces& out);

// The same of one call whose arguments come in pieces. One thread at a time.
class CustomInputReader {
 public:
  // What is certain now. However the pieces were cut, all that was returned together is what input_in gives.
  std::string push(std::string_view piece);

 private:
  std::string held_;
  int n_quotes_ = 0;  // that came before the input
  bool ended_ = false;
};

}  // namespace quire
