// The other side of a CallForm: not how calls are read but which may be written, as a structural tag
// (grammar/structural_tag.h). What it lets through the form's parser reads as calls of the tools.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/parse/call_form.h"

namespace quire {

// What stands around the name and the arguments of one call, beside ids.
struct CallText {
  std::string before, between, after;
};
CallText call_text(const CallForm& form);
// A name as it stands in a call: in an object as JSON.
std::string name_text(const CallForm& form, std::string_view name);

// A tool that may be called.
struct CallableTool {
  std::string name;
  Json arguments;  // a format of a structural tag (call_arguments.h)
};

struct CallTagRules {
  bool required = false;           // the answer is calls; otherwise text in which calls may begin
  bool only_one = false;           // not more than one call
  std::optional<Json> document{};  // of a structural tag: the answer is calls, or else this and not any text
};

// White space is the family's own. REQUIRES some tools.
Json call_tag(const CallForm& form, std::span<const CallableTool> tools, CallTagRules rules);

}  // namespace quire
