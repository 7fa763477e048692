// Variables that some chat templates leave to whoever renders them.
#pragma once
#include <string>

#include "base/result.h"
#include "text/chat_template.h"

namespace quire {

// Puts them into `input` where `input.extra` has them not: the day of `input.now` as date_string ("26 Jul 2026") and
// datetime ("Jul 26 2026"), and functions, made when the template asks for it. Fails where `now` is no time. Any
// thread.
Status add_template_variables(TemplateInput& input);

// The functions of `tools` as JSON text; "" where there are none.
std::string functions_text(const Json& tools);

}  // namespace quire
