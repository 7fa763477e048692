// What a request says that its answer has to be, under the names of all servers, and its compilation. A dialect's own
// names (text.format, output_config.format, format) are read by the dialect with the same words.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/schema.h"
#include "text/grammar/source.h"

namespace quire {

struct Job;
struct ServeEnv;

struct WantedGrammar {
  // What it is made of and can be compiled by itself.
  struct Part {
    GrammarSource source;
    std::string field;
  };
  GrammarSource source;
  std::string field;          // as the client names it, for errors
  std::vector<Part> parts{};  // where it cannot be kept, the first of these that cannot is named
  bool free_text = false;     // any text obeys as long as nothing begins that does not: stop strings act
};
using MaybeGrammar = std::optional<WantedGrammar>;

// "response_format", "structured_outputs", "guided_json", … of sampling_fields(). Refuses two at once.
ApiResult<MaybeGrammar> read_grammar(const Args& args, const Reading& reading);
// {"type": "json_schema", …} as OpenAI's dialects have it, the schema beside the type or in "json_schema". Of type text
// it wants nothing.
ApiResult<MaybeGrammar> read_format(const Json& format, const std::string& path, const Reading& reading);
// Any JSON object.
WantedGrammar wanted_object(std::string field);
// An object is a schema, a string the text of one.
WantedGrammar wanted_schema(const Json& schema, std::string field);
// Adds a further one to what is wanted. Refuses a second.
ApiResult<void> add_grammar(MaybeGrammar&& more, MaybeGrammar& wanted);

// Compiles what the job wants, if it does: behind the model's reasoning where its prompt begins an assistant's turn.
// Errors are a 400 that names field and place. Stop strings have no effect then, and a warning says so.
ApiResult<void> constrain(const ServeEnv& env, Job& job, Warnings& warnings);

}  // namespace quire
