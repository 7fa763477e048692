// Chat templates that are asked for by a name instead of being given as text.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Jinja source: `text` itself, or the template that is called so. Fails (Code::invalid) naming the templates where it
// is one word that names none.
Result<std::string> named_template(std::string_view text);

// Whether it can be read; fails (Code::invalid) with the place and the reason.
Status check_chat_template(const std::string& source);

}  // namespace quire
