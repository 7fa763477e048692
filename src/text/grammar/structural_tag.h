// Structural tags: free text in which certain marks begin what must follow a grammar. Both forms in use: the older
// {"structures": [{begin, schema, end}], "triggers": […]}, and {"format": …} with formats inside formats: const_string,
// json_schema, regex, grammar, any_text, sequence, or, tag, triggered_tags, tags_with_separator. Ours are `string_mark`
// of json_schema (json_schema.h), and `lark` of grammar: true where that is its notation.
#pragma once
#include <memory>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/composer.h"

namespace quire {

// Errors name the part: "structural_tag: #/format/tags/0: …"; those of schemas and patterns in it are quoted.
Result<std::shared_ptr<const Grammar>> compile_structural_tag(const Json& tag,
                                                              std::vector<GrammarComposer::Control> controls,
                                                              const GrammarLimits& limits);

// The same as a part of a larger grammar; control tokens are the composer's.
Result<GrammarComposer::Part> structural_tag_part(const Json& tag, GrammarComposer& composer);

}  // namespace quire
