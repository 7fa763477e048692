// Variables that some chat templates leave to whoever renders them.
#pragma once
#include "base/result.h"
#include "text/chat_template.h"

namespace quire {

// Puts them into `input` where `input.extra` has them not: the day of `input.now` as date_string ("26 Jul 2026") and
// datetime ("Jul 26 2026"), and the functions of `input.tools` as JSON text, functions. Fails where `now` is no time.
// Any thread.
Status add_template_variables(TemplateInput& input);

}  // namespace quire
