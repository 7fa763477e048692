#include "text/template_variables.h"

#include <string>
#include <utility>

#include "text/jinja/strftime.h"

namespace quire {

// FireFunction's template wants them as text, without the wrapping of OpenAI's tools.
std::string functions_text(const Json& tools) {
  if (tools.as_array() == nullptr || tools.as_array()->empty()) return "";
  std::string out;
  for (const Json& tool : *tools.as_array()) {
    const Json* function = tool.find("function");
    out += out.empty() ? '[' : ',';
    out += (function != nullptr ? *function : tool).dump();
  }
  return out + ']';
}

Status add_template_variables(TemplateInput& input) {
  input.shows_functions = true;
  if (input.now.empty()) return {};
  for (const auto& [name, format] : {std::pair{"date_string", "%d %b %Y"}, std::pair{"datetime", "%b %d %Y"}}) {
    if (input.extra.find(name) != nullptr) continue;
    QR_TRY(std::string text, jinja::format_time(input.now, format));
    input.special_tokens.set(name, std::move(text));
  }
  return {};
}

}  // namespace quire
